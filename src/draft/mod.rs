//! Drafting: the [`Drafter`] trait and its members. Must never know where its device is chosen.

mod feature_head;
mod lookup;

pub use feature_head::{Fallback, FeatureHead};
pub use lookup::PromptLookup;

use crate::speculate::{Shape, Tree};

/// What a round may spend on drafting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Budget {
    /// γ, width and depth of the tree.
    pub shape: Shape,
    /// m: blocks of the head to run; ignored by drafters without [`Depths::Elastic`].
    pub blocks: usize,
}

/// Which values of M a drafter can run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Depths {
    /// Exactly this many blocks; 0 for drafters that have none.
    Fixed(usize),
    /// Any number from 1 to this one, changeable between rounds.
    Elastic(usize),
}

/// Why drafting failed. Decoding goes on without a draft: no token depends on it.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// The drafter's device failed or ran out of memory.
    #[error("the draft device failed: {0}")]
    Device(String),
}

/// Proposes trees. It is told every committed token with the target's features and owns whatever
/// cache it needs; the tree may be anything, since the target decides every token.
pub trait Drafter: Send {
    /// One-line name for the screen, e.g. `DGF head, 4 blocks, f32 on CPU`.
    fn describe(&self) -> String;
    /// Which M can be chosen.
    fn depths(&self) -> Depths;
    /// Most pairs after which a tree can be proposed. Further ones are observed all the same.
    fn capacity(&self) -> usize;
    /// Keeps only the first `len` observed pairs (0: a fresh start; no effect if there are fewer).
    /// Called when the text changes from position `len + 1` on, before the changed pairs are
    /// observed again.
    fn truncate(&mut self, len: usize);
    /// Tells of newly committed positions. `tokens[i]` is the token that FOLLOWS the position
    /// whose feature is `features[i]` (`[tokens.len(), hidden]`, row-major): the pair (f_i,
    /// x_{i+1}) of spec §2. Pairs arrive in order and without gaps; the last token is the new root.
    /// Called while drafting is off too, so work that can wait should wait for `prepare`.
    ///
    /// # Errors
    /// [`DraftError`]: the drafter is then of no use until `fall_back`, or `truncate(0)` and a
    /// replay.
    fn observe(&mut self, features: &[f32], tokens: &[u32]) -> Result<(), DraftError>;
    /// Does now what the next `propose` with `blocks` blocks would have to catch up with. Called
    /// while the prompt is read, so that the first round is as quick as the others.
    ///
    /// # Errors
    /// [`DraftError`]; see [`Drafter::fall_back`].
    fn prepare(&mut self, blocks: usize) -> Result<(), DraftError> {
        let _ = blocks;
        Ok(())
    }
    /// Proposes a tree of at most `budget.shape.gamma` nodes under `root`, the last token observed.
    ///
    /// # Errors
    /// [`DraftError`]; see [`Drafter::fall_back`].
    fn propose(&mut self, root: u32, budget: &Budget) -> Result<Tree, DraftError>;
    /// After an error: moves to another device, if the drafter has one in reserve, with everything
    /// that was observed. The next `propose` then goes on as if nothing had happened, only slower.
    ///
    /// # Errors
    /// [`DraftError`] if there is nowhere to go: decode without a draft.
    fn fall_back(&mut self) -> Result<(), DraftError> {
        Err(DraftError::Device("this drafter has no other device".into()))
    }
    /// Bytes held on the drafter's device: weights and caches.
    fn device_bytes(&self) -> u64;
}
