//! A DFlash drafter (method.md, DFlash): one pass drafts all levels, and the tree is what is most
//! probable among their candidates (DDTree, Ringel and Romano 2026). It must not depend on how the
//! pass computes them.

use super::feature_head::lost;
use super::{DraftError, DraftRequest, Drafter};
use crate::model::{DflashModel, FeatureSource, TrafficMeter};
use crate::speculate::{DrafterId, Growth, Tree};

/// A DFlash, DSpark or DFlash-2 model as a [`Drafter`].
///
/// It keeps the target's features only until a tree is requested and they enter its cache, so plain
/// decoding costs nothing.
pub struct Dflash {
    model: DflashModel,
    capacity: usize,
    /// How many numbers a feature has.
    width: usize,
    /// The features of the positions after those in the cache, `[positions, width]`.
    pending: Vec<f32>,
}

impl Dflash {
    /// A drafter for up to `capacity` positions.
    pub fn new(model: DflashModel, capacity: usize) -> Self {
        let config = &model.config;
        let width = config.states.len() * config.target_hidden;
        Self { model, capacity, width, pending: Vec::new() }
    }

    /// How many positions were observed.
    pub fn observed(&self) -> usize {
        self.model.passes.len() + self.pending.len() / self.width
    }

    /// How many of them are in the cache.
    pub fn injected(&self) -> usize {
        self.model.passes.len()
    }
}

impl Drafter for Dflash {
    fn describe(&self) -> String {
        let config = &self.model.config;
        format!(
            "{}, {} tokens per pass, {}",
            config.name(),
            config.levels(),
            self.model.passes.describe()
        )
    }

    fn source(&self) -> Option<DrafterId> {
        Some(DrafterId::Dflash)
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn features(&self) -> Option<FeatureSource> {
        Some(self.model.config.features())
    }

    fn truncate(&mut self, len: usize) {
        self.pending.truncate(len.saturating_sub(self.model.passes.len()) * self.width);
        self.model.passes.truncate(len);
    }

    fn observe(&mut self, features: &[f32], tokens: &[u32]) -> Result<(), DraftError> {
        if features.len() != tokens.len() * self.width {
            let found = features.len() / tokens.len().max(1);
            return Err(DraftError::Features { found, expected: self.width });
        }
        self.pending.extend_from_slice(features);
        Ok(())
    }

    fn propose(&mut self, _text: &[u32], request: &DraftRequest) -> Result<Tree, DraftError> {
        let &DraftRequest { root, budget, .. } = request;
        let observed = self.observed();
        let has_room = (1..=self.capacity).contains(&observed);
        if !has_room || budget.shape.gamma <= 1 || budget.shape.width == 0 {
            return Ok(Tree::root(root));
        }
        self.model.passes.inject(&std::mem::take(&mut self.pending)).map_err(lost)?;
        self.model.draft(root).map_err(lost)?;
        let first = self.model.candidates(0, &[root], &request.ranking(1)).pop();
        let mut growth = Growth::best_first(budget.shape, &first.unwrap_or_default());
        for level in 1..self.model.config.levels() {
            let before: Vec<u32> = growth.beam().iter().map(|row| row.token).collect();
            if before.is_empty() {
                break;
            }
            let ranking = request.ranking(level + 1);
            growth.expand(&self.model.candidates(level, &before, &ranking));
        }
        Ok(growth.finish(root))
    }

    fn device_bytes(&self) -> u64 {
        self.model.bytes()
    }

    fn traffic(&self) -> Option<TrafficMeter> {
        self.model.passes.traffic()
    }
}
