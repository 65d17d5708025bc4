//! What decoding needs of a target model, whatever it is made of. Must never know a backend.

use std::ops::Range;

use crate::model::{FeatureSource, TrafficMeter};
use crate::speculate::Tree;

/// Rows that one forward pass returns, row-major.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verified {
    /// `[rows, vocab]` raw logits.
    pub logits: Vec<f32>,
    /// `[rows, feature width]`: what [`Target::set_features`] asked for, else the output of the
    /// final norm, the LM head's input (method.md, Features).
    pub features: Vec<f32>,
}

/// Why a pass could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The KV cache has no room.
    #[error(
        "the context is full: {needed} positions needed, {capacity} available; shorten the \
         conversation or raise `context`"
    )]
    ContextFull {
        /// Positions the pass would need.
        needed: usize,
        /// Positions the cache was allocated for.
        capacity: usize,
    },
    /// A token id outside the vocabulary.
    #[error("token {token} is outside the vocabulary of {vocab}")]
    Token {
        /// The id.
        token: u32,
        /// Vocabulary size.
        vocab: usize,
    },
    /// The device that holds a part of the target failed.
    #[error("the target's device failed: {0}")]
    Device(String),
}

/// Counts `tokens` if they can be run behind `len` positions of a target of these bounds.
///
/// # Errors
/// [`TargetError::Token`] or [`TargetError::ContextFull`].
pub(super) fn count_runnable(
    tokens: impl IntoIterator<Item = u32>,
    vocab: usize,
    (len, capacity): (usize, usize),
) -> Result<usize, TargetError> {
    let mut count = 0;
    for token in tokens {
        if token as usize >= vocab {
            return Err(TargetError::Token { token, vocab });
        }
        count += 1;
    }
    let needed = len + count;
    if needed > capacity {
        return Err(TargetError::ContextFull { needed, capacity });
    }
    Ok(count)
}

/// A target model with its KV cache. Positions 0..`len` are committed; the rows of a tree lie
/// behind them until `commit` keeps a path or the next pass overwrites them.
pub trait Target: Send {
    /// Vocabulary size V.
    fn vocab(&self) -> usize;
    /// Hidden size H.
    fn hidden(&self) -> usize;
    /// Chooses what passes return as features.
    fn set_features(&mut self, source: FeatureSource);
    /// Numbers of a position's feature.
    fn feature_width(&self) -> usize;
    /// Positions the KV cache can hold.
    fn capacity(&self) -> usize;
    /// Committed positions.
    fn len(&self) -> usize;
    /// Whether nothing is committed.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Whether rows of a prompt may be computed on another device than those of an answer.
    fn splits_prompts(&self) -> bool {
        false
    }
    /// Says which runs of a prompt that is to be read are no part of an answer, ascending, where
    /// the first `common` of the committed positions are its beginning. Returns how many of these
    /// are what they would be if all of it were read anew; the others are to be forgotten.
    fn begin_prompt(&mut self, asked: &[Range<usize>], common: usize) -> usize {
        let _ = asked;
        common
    }
    /// Rows of the prompt to be read next at a time, by one that would take `rows`.
    fn next_rows(&self, rows: usize) -> usize {
        rows
    }
    /// Runs `tokens` after the committed prefix under the causal mask and commits them. Returns the
    /// features of every token `[tokens, feature width]` and the logits of the last `[1, vocab]`.
    ///
    /// # Errors
    /// [`TargetError`]; the committed prefix is then unchanged.
    fn prefill(&mut self, tokens: &[u32]) -> Result<Verified, TargetError>;
    /// One forward pass over all nodes of `tree` under the tree attention mask: each sees the
    /// committed prefix, its ancestors and itself, at RoPE position `len + depth`. Commits nothing.
    ///
    /// # Errors
    /// [`TargetError`]; the committed prefix is then unchanged.
    fn verify(&mut self, tree: &Tree) -> Result<Verified, TargetError>;
    /// Keeps the KV rows of `path` (ascending node indices of the last verified tree, root first,
    /// each the parent of the next) as the next committed positions.
    fn commit(&mut self, path: &[usize]);
    /// Rolls the KV cache back: forgets every position from `len` on.
    fn truncate(&mut self, len: usize);
    /// After [`TargetError::Device`]: moves to another device, if there is one, with nothing
    /// committed there. Returns how it goes on, a clause.
    ///
    /// # Errors
    /// [`TargetError::Device`] if there is nowhere to go.
    fn fall_back(&mut self) -> Result<&'static str, TargetError> {
        Err(TargetError::Device("this target has no other device".to_owned()))
    }
    /// The KV rows of the committed positions, for [`Self::restore_kv`] of the same target in
    /// another run; `None` where they are out of reach (on a GPU) or more than `most` bytes.
    fn saved_kv(&self, most: usize) -> Option<Vec<u8>> {
        let _ = most;
        None
    }
    /// Commits `len` positions that [`Self::saved_kv`] gave, in the place of all there are.
    /// `false`: they do not fit, and nothing is changed. Whoever calls it answers for it that they
    /// are this target's.
    fn restore_kv(&mut self, len: usize, bytes: &[u8]) -> bool {
        let _ = (len, bytes);
        false
    }
    /// The counters of the GPU that it runs on by our own shaders; `None` without one.
    fn traffic(&self) -> Option<TrafficMeter> {
        None
    }
}
