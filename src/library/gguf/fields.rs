//! Typed access to the metadata keys that begin with the architecture's name. It must not depend on
//! what an architecture does with them.

use super::file::GgufFile;
use crate::library::LibraryError;
use crate::model::ConfigError;

/// The metadata of one architecture.
pub(super) struct ArchitectureFields<'a> {
    pub(super) file: &'a GgufFile,
    /// `general.architecture`, with which its keys begin.
    pub(super) architecture: &'a str,
}

impl ArchitectureFields<'_> {
    /// The whole name of a key of the architecture.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    pub(super) fn optional(&self, key: &str) -> Result<Option<usize>, LibraryError> {
        let value = self.file.number(&self.key(key))?;
        // The check of the configuration refuses what does not fit.
        Ok(value.map(|value| usize::try_from(value).unwrap_or(usize::MAX)))
    }

    pub(super) fn size(&self, key: &str) -> Result<usize, LibraryError> {
        self.optional(key)?.ok_or_else(|| {
            LibraryError::damaged(
                self.file.name(),
                format!("metadata `{}`", self.key(key)),
                "missing",
            )
        })
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f64>, LibraryError> {
        self.file.float(&self.key(key))
    }

    /// A number in the precision of the kernels.
    pub(super) fn float32(&self, key: &str) -> Result<Option<f32>, LibraryError> {
        Ok(self.float(key)?.map(|x| x as f32))
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, LibraryError> {
        self.file.flag(&self.key(key))
    }

    /// A list of flags; a number is a period, of which the last layer is off.
    pub(super) fn flags(&self, key: &str) -> Result<Option<Vec<bool>>, LibraryError> {
        let key = self.key(key);
        let layers = self.size("block_count")?.min(1 << 12);
        if let Some(period) = self.file.any_number(&key) {
            let period = period.max(1) as usize;
            return Ok(Some((0..layers).map(|layer| layer % period != period - 1).collect()));
        }
        self.file.flag_list(&key)
    }

    /// A value that cannot be right.
    pub(super) fn wrong(
        &self,
        field: &'static str,
        value: impl ToString,
        reason: &str,
    ) -> LibraryError {
        let source = ConfigError { field, value: value.to_string(), reason: reason.to_owned() };
        LibraryError::config(self.file.name())(source)
    }

    /// Whether any block has this tensor.
    pub(super) fn any_tensor(&self, part: &str) -> bool {
        self.file.tensors().keys().any(|name| name.starts_with("blk.") && name.ends_with(part))
    }

    /// Refuses a head width other than `head_dim` under `key`.
    pub(super) fn expect_head_width(&self, key: &str, head_dim: usize) -> Result<(), LibraryError> {
        let Some(width) = self.optional(key)?.filter(|&width| width != head_dim) else {
            return Ok(());
        };
        let remedy = format!("it must be the head width, {head_dim}");
        Err(LibraryError::unsupported(self.file.name(), self.key(key), width, remedy))
    }
}
