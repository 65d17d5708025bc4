//! Weights with the choice whether formats that would be expanded are repacked. It must not depend
//! on why that was chosen.

use super::WeightSource;

/// Another source, whose weights are repacked if `repack`.
pub struct Repacked<'a> {
    /// Where they come from.
    pub source: &'a dyn WeightSource,
    /// Whether formats that would be expanded in every product are repacked.
    pub repack: bool,
}

impl WeightSource for Repacked<'_> {
    fn inner(&self) -> Option<&dyn WeightSource> {
        Some(self.source)
    }

    fn repacks(&self) -> bool {
        self.repack
    }

    fn identity(&self) -> Option<String> {
        let identity = self.source.identity()?;
        Some(if self.repack { format!("{identity}, repacked") } else { identity })
    }
}
