//! A separate small language model as the drafter: it grows the same trees as a draft head, but
//! from the text alone. It reads every token, including the first one, and has its own KV cache,
//! which is rolled back with the text.

mod ahead;
mod sequences;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::draft_state::{DraftState, RowMap};
use super::{AheadRequest, DraftError, DraftRequest, Drafter, Outcome};
use crate::kernels::Pool;
use crate::model::{SharedVocabulary, SmallLm, TrafficMeter};
use crate::speculate::duo::SequencesAhead;
use crate::speculate::{DrafterId, Growth, Method, Tree};

/// A small language model as a [`Drafter`].
pub struct SmallModel {
    name: String,
    state: DraftState,
    /// The threads that `state` runs on, if they can be separated from the target's.
    pool: Option<Arc<Pool>>,
    /// Sequences after the tree that was checked last.
    prepared: Option<SequencesAhead>,
    /// The tokens committed since they were drafted.
    won: Vec<u32>,
    /// What it drafted for outcomes of the tree that was checked last.
    outcomes: Vec<Outcome>,
    /// Whether it has worked ahead since the last tree.
    worked_ahead: bool,
    /// Whether the last proposed tree was drafted ahead, either completely or from its first level
    /// on.
    was_drafted_ahead: bool,
}

impl SmallModel {
    /// Drafts with `lm`, whose tokens correspond to the target's according to `vocabulary`. `name`
    /// is for the screen.
    pub fn new(name: &str, lm: Box<dyn SmallLm>, vocabulary: SharedVocabulary) -> Self {
        Self {
            name: name.to_owned(),
            state: DraftState::new(lm, vocabulary),
            pool: None,
            prepared: None,
            won: Vec::new(),
            outcomes: Vec::new(),
            worked_ahead: false,
            was_drafted_ahead: false,
        }
    }

    /// Works on separate threads while it works ahead: `pool`, on which its model runs, is then
    /// separated from the pool that it borrows from.
    #[must_use]
    pub fn with_pool(mut self, pool: Arc<Pool>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Grows a tree after `base`; ends early if `stop` returns true.
    fn grow(
        &mut self,
        request: &DraftRequest,
        base: Option<usize>,
        stop: Option<&AtomicBool>,
    ) -> Result<Growth, DraftError> {
        let mut growth = request.growth(self.state.after(base));
        let mut grown = RowMap::behind(base);
        while !growth.beam().is_empty() && !is_set(stop) {
            let candidates = self.state.step(&mut grown, growth.beam())?;
            growth.expand(&candidates);
        }
        Ok(growth)
    }
}

fn is_set(stop: Option<&AtomicBool>) -> bool {
    stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
}

impl Drafter for SmallModel {
    fn describe(&self) -> String {
        format!("small model {}, {}", self.name, self.state.lm().describe())
    }

    fn source(&self) -> Option<DrafterId> {
        Some(DrafterId::SmallModel)
    }

    fn capacity(&self) -> usize {
        self.state.lm().capacity()
    }

    fn truncate(&mut self, len: usize) {
        self.prepared = None;
        self.outcomes.clear();
        self.worked_ahead = false;
        // Pair i holds the token after it: including the first one, there is one token more.
        self.state.truncate(if len == 0 { 0 } else { len + 1 });
    }

    fn begin(&mut self, first: u32) {
        self.state.begin(first);
    }

    fn observe(&mut self, _features: &[f32], tokens: &[u32]) -> Result<(), DraftError> {
        self.state.push_all(tokens);
        if self.prepared.is_some() {
            self.won.extend_from_slice(tokens);
        }
        Ok(())
    }

    fn propose(&mut self, request: &DraftRequest) -> Result<Tree, DraftError> {
        let shape = request.budget.shape;
        let worked_ahead = std::mem::take(&mut self.worked_ahead);
        self.was_drafted_ahead = false;
        self.outcomes.clear();
        if let Method::Sequences { .. } = request.budget.method {
            let tree = self.adopted(request);
            self.was_drafted_ahead = tree.len() > 1;
            return Ok(tree);
        }
        self.prepared = None;
        if shape.gamma <= 1 || shape.width == 0 {
            return Ok(Tree::root(request.root));
        }
        self.state.rank_for(shape.width, request.coupling.as_ref());
        self.state.catch_up()?;
        if !self.state.is_ready() {
            return Ok(Tree::root(request.root));
        }
        // The rows after the text belong to the actual outcome.
        self.was_drafted_ahead = worked_ahead && self.state.has_rows();
        Ok(self.grow(request, None, None)?.finish(request.root))
    }

    fn draft_ahead(&mut self, ahead: &AheadRequest<'_>) -> Result<(), DraftError> {
        let request = ahead.request;
        let pool = self.pool.clone();
        self.worked_ahead = true;
        let _apart = pool.as_ref().map(|pool| pool.work_apart());
        if let Method::Sequences { fixed } = request.budget.method {
            return self.go_on(ahead, fixed);
        }
        let is_asked = request.budget.shape.gamma > 1 && request.budget.shape.width > 0;
        if is_asked && self.state.is_ready() {
            self.draft_outcomes(ahead)?;
        }
        Ok(())
    }

    fn was_drafted_ahead(&self) -> bool {
        self.was_drafted_ahead
    }

    fn sequences_ahead(&self) -> Option<&SequencesAhead> {
        self.prepared.as_ref()
    }

    fn outcomes_ahead(&self) -> &[Outcome] {
        &self.outcomes
    }

    fn device_bytes(&self) -> u64 {
        self.state.lm().bytes()
    }

    fn traffic(&self) -> Option<TrafficMeter> {
        self.state.lm().traffic()
    }
}

#[cfg(test)]
mod tests;
