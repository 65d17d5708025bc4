//! A separate small language model as the drafter: it grows the same trees as a draft head, but
//! from the text alone. It reads every token, including the first one, and has its own KV cache,
//! which is rolled back with the text.

mod ahead;
mod sequences;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::draft_state::DraftState;
use super::recent_vocabulary::RecentVocabulary;
use super::scratch_tree::RowMap;
use super::{Ahead, AheadRequest, DraftError, DraftRequest, Drafter, is_set};
use crate::kernels::Pool;
use crate::model::{SharedVocabulary, SmallLm, TrafficMeter};
use crate::plan::Setting;
use crate::speculate::duo::SequencesAhead;
use crate::speculate::{DrafterId, Growth, Method, Tree};

/// A small language model as a [`Drafter`].
pub struct SmallModel {
    name: String,
    state: DraftState,
    /// The threads that `state` runs on, if they can be separated from the target's.
    pool: Option<Arc<Pool>>,
    reads_beside: bool,
    /// Sequences after the tree that was checked last. The state has the text before it.
    prepared: Option<SequencesAhead>,
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
            reads_beside: false,
            prepared: None,
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

    /// Scores only the `first` tokens of the small model's vocabulary and those of the text, where
    /// that makes its passes faster. If `first` is automatic, it follows the text: a text with rare
    /// tokens widens it.
    #[must_use]
    pub fn scoring(mut self, first: Setting) -> Self {
        self.state.score_first(first);
        self
    }

    /// How many of `vocab` tokens it scores before it has a text, if it scores the `first`.
    pub(crate) fn scored(vocab: usize, first: Setting) -> usize {
        RecentVocabulary::new(vocab, first).first()
    }

    /// Reads prompts while the target does, if they share no processor.
    #[must_use]
    pub fn reading_beside(mut self, beside: bool) -> Self {
        self.reads_beside = beside;
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
        let mut grown = RowMap::below(base);
        while growth.pays(request.least_pass) && !is_set(stop) {
            let candidates = self.state.step(&mut grown, growth.beam())?;
            growth.expand(&candidates);
        }
        Ok(growth)
    }
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

    fn truncate(&mut self, _len: usize) {
        self.prepared = None;
        self.worked_ahead = false;
    }

    fn propose(&mut self, text: &[u32], request: &DraftRequest) -> Result<Tree, DraftError> {
        let shape = request.budget.shape;
        let worked_ahead = std::mem::take(&mut self.worked_ahead);
        let known = self.state.len();
        self.state.set_text(text);
        let prepared = self.prepared.take();
        self.was_drafted_ahead = false;
        if let Method::Sequences { .. } = request.budget.method {
            let won = text.get(known..).unwrap_or_default();
            let next = prepared.and_then(|ahead| ahead.adopt(won));
            let tree = sequences::as_tail(next, request);
            self.was_drafted_ahead = tree.len() > 1;
            return Ok(tree);
        }
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

    fn draft_ahead(&mut self, ahead: &AheadRequest<'_>) -> Result<Ahead, DraftError> {
        let request = ahead.request;
        let pool = self.pool.clone();
        self.worked_ahead = true;
        let _apart = pool.as_ref().map(|pool| pool.work_apart());
        if let Method::Sequences { fixed } = request.budget.method {
            return self.go_on(ahead, fixed);
        }
        let is_asked = request.budget.shape.gamma > 1 && request.budget.shape.width > 0;
        if is_asked && self.state.is_ready() {
            return self.draft_outcomes(ahead);
        }
        Ok(Ahead::default())
    }

    fn reads_beside(&self) -> bool {
        self.reads_beside
    }

    fn read(
        &mut self,
        prompt: &[u32],
        _blocks: usize,
        stop: &AtomicBool,
    ) -> Result<(), DraftError> {
        self.state.set_text(prompt);
        self.state.catch_up_until(Some(stop))
    }

    fn was_drafted_ahead(&self) -> bool {
        self.was_drafted_ahead
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
