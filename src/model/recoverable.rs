//! A target that can return to the CPU when the device that holds a part of it fails. It must not
//! depend on where its weights come from, or on what was committed: its caller knows the text.

use super::{CpuTarget, FeatureSource, Target, TargetError, TrafficMeter, Verified};
use crate::speculate::Tree;

/// Loads the whole target on the CPU; the error is shown to the user.
pub type TargetFallback = Box<dyn FnOnce() -> Result<CpuTarget, String> + Send>;

/// A target on some device, and the way to load it on the CPU instead.
pub struct RecoverableTarget {
    target: Box<dyn Target>,
    fallback: Option<TargetFallback>,
    features: FeatureSource,
}

impl RecoverableTarget {
    /// Wraps `target`; `fallback` loads the same model on the CPU.
    pub fn new(target: Box<dyn Target>, fallback: TargetFallback) -> Self {
        Self { target, fallback: Some(fallback), features: FeatureSource::default() }
    }
}

impl Target for RecoverableTarget {
    fn vocab(&self) -> usize {
        self.target.vocab()
    }

    fn hidden(&self) -> usize {
        self.target.hidden()
    }

    fn set_features(&mut self, source: FeatureSource) {
        self.features = source.clone();
        self.target.set_features(source);
    }

    fn feature_width(&self) -> usize {
        self.target.feature_width()
    }

    fn capacity(&self) -> usize {
        self.target.capacity()
    }

    fn len(&self) -> usize {
        self.target.len()
    }

    fn prefill(&mut self, tokens: &[u32]) -> Result<Verified, TargetError> {
        self.target.prefill(tokens)
    }

    fn verify(&mut self, tree: &Tree) -> Result<Verified, TargetError> {
        self.target.verify(tree)
    }

    fn commit(&mut self, path: &[usize]) {
        self.target.commit(path);
    }

    fn truncate(&mut self, len: usize) {
        self.target.truncate(len);
    }

    fn traffic(&self) -> Option<TrafficMeter> {
        self.target.traffic()
    }

    fn fall_back(&mut self) -> Result<&'static str, TargetError> {
        let nowhere = || TargetError::Device("the target has no other device to run on".to_owned());
        let load = self.fallback.take().ok_or_else(nowhere)?;
        let mut target = load().map_err(TargetError::Device)?;
        target.set_features(self.features.clone());
        self.target = Box::new(target);
        Ok("the target continues on the CPU")
    }
}
