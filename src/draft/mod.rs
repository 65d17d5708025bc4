//! Drafting: the [`Drafter`] trait and its members, which propose draft trees. It must not depend
//! on where a device is chosen.

mod acceptance_stats;
mod context;
mod dflash;
mod draft_state;
mod feature_head;
mod lookahead;
mod lookup;
mod outcome;
mod recent_vocabulary;
mod retrieval;
mod scratch_tree;
mod small_model;

pub use context::{ContextDraft, History};
pub use dflash::Dflash;
pub use feature_head::{Fallback, FeatureHead};
pub use lookahead::Lookahead;
pub use lookup::PromptLookup;
pub use outcome::{Ahead, Outcome};
pub use retrieval::Retrieval;
pub use small_model::SmallModel;

pub use crate::speculate::Budget;

use crate::model::{FeatureSource, TrafficMeter};
use crate::speculate::{Coupling, DrafterId, Growth, Ranking, Tree};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a drafter is to stop.
fn is_set(stop: Option<&AtomicBool>) -> bool {
    stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
}

/// A request for a draft tree.
#[derive(Clone, Copy, Debug)]
pub struct DraftRequest {
    /// The last observed token.
    pub root: u32,
    /// γ, k, D, M and the method.
    pub budget: Budget,
    /// The target's noise, if candidates are to be ranked with it (coupled drafting).
    pub coupling: Option<Coupling>,
    /// Nodes whose path is less likely than this will not be verified, so a drafter that knows
    /// their probabilities need not find them.
    pub least_path: f64,
    /// A pass does not pay off if the paths of its rows together are less likely than this.
    pub least_pass: f64,
}

impl DraftRequest {
    /// A request for a tree under `root` with candidates ranked only by the draft's probabilities.
    pub fn new(root: u32, budget: Budget) -> Self {
        Self { root, budget, coupling: None, least_path: 0.0, least_pass: 0.0 }
    }

    /// A tree that begins with these candidates and grows by the budget's method.
    pub fn growth(&self, first: &[(u32, f32)]) -> Growth {
        Growth::new(self.budget.method, self.budget.shape, first)
    }

    /// How the candidates at `depth` below the root (1: its children) are ranked.
    pub fn ranking(&self, depth: usize) -> Ranking {
        let width = self.budget.shape.width;
        match &self.coupling {
            Some(coupling) => Ranking::coupled(width, coupling, depth),
            None => Ranking::new(width),
        }
    }
}

/// A request to draft ahead, while the target verifies a tree.
#[derive(Clone, Copy)]
pub struct AheadRequest<'a> {
    /// The tree that the target verifies.
    pub tree: &'a Tree,
    /// The request for which the tree was proposed.
    pub request: &'a DraftRequest,
    /// Set when the target's pass has ended.
    pub stop: &'a AtomicBool,
    /// Receives what has been drafted so far: sequences after each of the draft's passes, or
    /// outcomes after each outcome; `None` if this is not displayed.
    pub grown: Option<&'a dyn Fn(Ahead)>,
}

/// With which M a drafter can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Depths {
    /// Exactly this many blocks; 0 for drafters that have none.
    Fixed(usize),
    /// Any number from 1 to this one, changeable between rounds.
    Elastic(usize),
}

/// Why drafting failed. Decoding continues without it, because no token depends on a draft.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// The drafter's device failed or ran out of memory.
    #[error("the draft device failed: {0}")]
    Device(String),
    /// The target gives other features than the drafter reads.
    #[error(
        "the draft reads {expected} numbers per token, but the target gives {found}; use a draft \
        that was made for this target"
    )]
    Features {
        /// How many numbers the given feature has.
        found: usize,
        /// How many numbers the drafter reads.
        expected: usize,
    },
}

/// Proposes draft trees. It observes every committed token with the target's features and owns its
/// caches. The tree may be anything, because the target decides every token.
pub trait Drafter: Send {
    /// One-line name for the screen, e.g. `DGF head, 4 blocks, f32 on CPU`.
    fn describe(&self) -> String;
    /// The source credited with nodes that have no source of their own; `None` if there is none.
    fn source(&self) -> Option<DrafterId> {
        None
    }
    /// Whether the probabilities in its trees are rates at which such tokens were accepted. Only
    /// such a tree can be merged with a model's.
    fn is_calibrated(&self) -> bool {
        false
    }
    /// Which M can be chosen; none if there are no blocks.
    fn depths(&self) -> Depths {
        Depths::Fixed(0)
    }
    /// The most pairs after which a tree can be proposed. Further pairs are still observed. A
    /// drafter without a model has no limit.
    fn capacity(&self) -> usize {
        usize::MAX
    }
    /// What it reads of the target; `None` if nothing.
    fn features(&self) -> Option<FeatureSource> {
        None
    }
    /// Forgets what it remembers of texts that were truncated; otherwise a text that is decoded
    /// again would be drafted from itself. The acceptance rates stay.
    fn start_over(&mut self) {}
    /// Rolls back to the first `len` observed pairs (0: a fresh start; no effect if there are
    /// fewer). Called when the text changes from position `len + 1` on, before the changed pairs
    /// are observed again.
    fn truncate(&mut self, len: usize) {
        let _ = len;
    }
    /// Observes newly committed positions. `tokens[i]` is the token that FOLLOWS the position whose
    /// feature is `features[i]` (`[tokens.len(), feature width]`, row-major): the pair (f_i,
    /// x_{i+1}) of method.md, Features. Pairs arrive in order and without gaps; the last token is
    /// the new root. It is also called while drafting is off and while the user waits for the first
    /// token, so work that can wait should wait for `propose`.
    ///
    /// # Errors
    /// [`DraftError`]: the drafter then cannot be used until `fall_back`, or `truncate(0)` and a
    /// replay.
    fn observe(&mut self, features: &[f32], tokens: &[u32]) -> Result<(), DraftError> {
        let _ = (features, tokens);
        Ok(())
    }
    /// Proposes a tree of at most `request.budget.shape.gamma` nodes under `request.root`, the last
    /// token of `text`.
    ///
    /// # Errors
    /// [`DraftError`]; see [`Drafter::fall_back`].
    fn propose(&mut self, text: &[u32], request: &DraftRequest) -> Result<Tree, DraftError>;
    /// Drafts ahead while the target verifies: called on a separate thread, after `propose`, under
    /// [`crate::plan::Schedule::Overlap`]. It returns soon after `request.stop` is set, or after a
    /// budget that measurements show to be used up by then (DuoDecoding's sequences). The next
    /// `propose` uses what turned out right and drops the rest; between them `verified`, `truncate`
    /// and `observe` are called as usual. Returns what was drafted, for the record of the round.
    ///
    /// # Errors
    /// [`DraftError`]; see [`Drafter::fall_back`].
    fn draft_ahead(&mut self, request: &AheadRequest<'_>) -> Result<Ahead, DraftError> {
        let _ = request;
        Ok(Ahead::default())
    }
    /// Whether it reads a prompt while the target does, because they share no processor.
    fn reads_beside(&self) -> bool {
        false
    }
    /// Reads of a prompt what it can while the target reads it: called on a separate thread, with
    /// the whole prompt, after the pairs of each chunk that the target has read; a tree of `blocks`
    /// blocks is expected. It returns soon after `stop` is set. What is left is read for `propose`.
    ///
    /// # Errors
    /// [`DraftError`]; see [`Drafter::fall_back`].
    fn read(&mut self, prompt: &[u32], blocks: usize, stop: &AtomicBool) -> Result<(), DraftError> {
        let _ = (prompt, blocks, stop);
        Ok(())
    }
    /// Whether the last tree proposed was drafted ahead, before the target's pass ended.
    fn was_drafted_ahead(&self) -> bool {
        false
    }
    /// Passes on the target's verification of `tree` after `text`, which ends with the root: the
    /// raw logits of every node, `[tree.len(), vocab]` row-major. Called after each pass of a round
    /// for which this drafter proposed a tree, before the committed tokens are observed.
    fn verified(&mut self, text: &[u32], tree: &Tree, logits: &[f32]) {
        let _ = (text, tree, logits);
    }
    /// After an error: moves to another device, if the drafter has one in reserve, with everything
    /// that was observed. The next `propose` then continues as if nothing had happened, only more
    /// slowly.
    ///
    /// # Errors
    /// [`DraftError`] if there is no device in reserve: decode without a draft.
    fn fall_back(&mut self) -> Result<(), DraftError> {
        Err(DraftError::Device("this drafter has no other device to run on".into()))
    }
    /// Bytes held on the drafter's device: weights and caches.
    fn device_bytes(&self) -> u64 {
        0
    }
    /// The traffic counters of the GPU, if it runs on one with our own shaders; otherwise `None`.
    fn traffic(&self) -> Option<TrafficMeter> {
        None
    }
}
