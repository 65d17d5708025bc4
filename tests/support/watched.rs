//! A target that runs a closure of the test before its passes.

use dovetail::model::{FeatureSource, Target, TargetError, Verified};
use dovetail::speculate::Tree;

type BeforePrefill = Box<dyn FnMut() + Send>;
type BeforeVerify = Box<dyn FnMut(&Tree) -> Result<(), TargetError> + Send>;

pub struct Watched<T> {
    target: T,
    before_prefill: BeforePrefill,
    before_verify: BeforeVerify,
}

impl<T: Target> Watched<T> {
    pub fn new(
        target: T,
        before_verify: impl FnMut(&Tree) -> Result<(), TargetError> + Send + 'static,
    ) -> Self {
        Self { target, before_prefill: Box::new(|| {}), before_verify: Box::new(before_verify) }
    }

    pub fn before_prefill(self, before_prefill: impl FnMut() + Send + 'static) -> Self {
        Self { before_prefill: Box::new(before_prefill), ..self }
    }
}

impl<T: Target> Target for Watched<T> {
    fn vocab(&self) -> usize {
        self.target.vocab()
    }
    fn set_features(&mut self, source: FeatureSource) {
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
        (self.before_prefill)();
        self.target.prefill(tokens)
    }
    fn verify(&mut self, tree: &Tree) -> Result<Verified, TargetError> {
        (self.before_verify)(tree)?;
        self.target.verify(tree)
    }
    fn commit(&mut self, path: &[usize]) {
        self.target.commit(path);
    }
    fn truncate(&mut self, len: usize) {
        self.target.truncate(len);
    }
}
