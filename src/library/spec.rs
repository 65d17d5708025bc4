//! What a `--target` or `--draft` value names.

use std::fmt;
use std::path::{Path, PathBuf};

use super::LibraryError;

/// A place where a model is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// The pair in the binary.
    Bundled,
    /// A folder of Hugging Face files.
    Folder(PathBuf),
}

impl Spec {
    /// Reads a value: `bundled`, or a folder.
    ///
    /// # Errors
    /// [`LibraryError::Spec`] if it can be none of these.
    pub fn parse(given: &str) -> Result<Self, LibraryError> {
        let refuse = |reason: &str| {
            Err(LibraryError::Spec { given: given.to_owned(), reason: reason.to_owned() })
        };
        if given == "bundled" {
            return Ok(Self::Bundled);
        }
        let path = expand(given);
        if path.is_dir() {
            Ok(Self::Folder(path))
        } else {
            refuse("there is no such folder; give one, or `bundled`")
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bundled => f.write_str("bundled"),
            Self::Folder(path) => path.display().fmt(f),
        }
    }
}

/// `~/` as the shell reads it, which it does not in a settings file.
fn expand(given: &str) -> PathBuf {
    match (given.strip_prefix("~/"), directories::BaseDirs::new()) {
        (Some(rest), Some(dirs)) => dirs.home_dir().join(rest),
        _ => Path::new(given).to_owned(),
    }
}
