//! What decoding needs of any target model. It must not depend on a backend.

use std::ops::Range;

use crate::model::{FeatureSource, TrafficMeter};
use crate::speculate::Tree;

/// Rows that one forward pass returns, row-major.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verified {
    /// `[rows, vocab]` raw logits.
    pub logits: Vec<f32>,
    /// `[rows, feature width]`: what [`Target::set_features`] requested, otherwise the output of
    /// the final norm, which is the input of the LM head (method.md, Features).
    pub features: Vec<f32>,
}

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The KV cache has no room.
    #[error(
        "the context is full: it needs {needed} positions and has {capacity}; shorten the \
         conversation or raise `context`"
    )]
    ContextFull {
        /// How many positions the pass would need.
        needed: usize,
        /// How many positions the cache was allocated for.
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
    /// No logit of a position is a number, so nothing can be chosen there.
    #[error(
        "the target computes no numbers (NaN) after {after} tokens, so the answer ends here: its \
         weights are damaged or its device failed; try again, or download the model again"
    )]
    NoNumbers {
        /// How many tokens come before the position.
        after: usize,
    },
    /// The device that holds a part of the target failed.
    #[error("the target's device failed: {0}")]
    Device(String),
}

/// Checks that `tokens` are in a vocabulary of `vocab` and that `needed` positions are available.
///
/// # Errors
/// [`TargetError::Token`] or [`TargetError::ContextFull`].
pub(super) fn check_runnable(
    tokens: impl IntoIterator<Item = u32>,
    vocab: usize,
    needed: usize,
    capacity: usize,
) -> Result<(), TargetError> {
    if let Some(token) = tokens.into_iter().find(|&token| token as usize >= vocab) {
        return Err(TargetError::Token { token, vocab });
    }
    if needed > capacity {
        return Err(TargetError::ContextFull { needed, capacity });
    }
    Ok(())
}

/// A target model with its KV cache. Positions 0..`len` are committed. The rows of a tree come
/// after them until `commit` keeps a path or the next pass overwrites them.
pub trait Target: Send {
    /// Vocabulary size V.
    fn vocab(&self) -> usize;
    /// Chooses what passes return as features.
    fn set_features(&mut self, source: FeatureSource);
    /// How many numbers the feature of a position has.
    fn feature_width(&self) -> usize;
    /// How many positions the KV cache can hold.
    fn capacity(&self) -> usize;
    /// How many positions are committed.
    fn len(&self) -> usize;
    /// Whether no position is committed.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Announces a prompt that is about to be read: `asked` are the runs of it that do not belong
    /// to an answer, ascending, and the first `common` of the committed positions are its
    /// beginning. Returns how many of these equal what reading the whole prompt again would give;
    /// the caller must roll the others back.
    fn begin_prompt(&mut self, asked: &[Range<usize>], common: usize) -> usize {
        let _ = asked;
        common
    }
    /// How many rows of the prompt to read next in one go, for a caller that would read `rows`.
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
    /// Keeps the KV rows of `path` as the next committed positions. The path is ascending node
    /// indices of the last verified tree, root first, each the parent of the next.
    fn commit(&mut self, path: &[usize]);
    /// Takes back logits that are no longer needed; the next pass may write to their memory instead
    /// of clearing new memory.
    fn reuse(&mut self, logits: Vec<f32>) {
        drop(logits);
    }
    /// Rolls the KV cache back: forgets every position from `len` on. A target with recurrent
    /// layers may have to forget more: see [`Self::len`].
    fn truncate(&mut self, len: usize);
    /// After [`TargetError::Device`]: moves to another device, if there is one, with nothing
    /// committed there. Returns a clause that says how decoding continues.
    ///
    /// # Errors
    /// [`TargetError::Device`] if there is no other device.
    fn fall_back(&mut self) -> Result<&'static str, TargetError> {
        Err(TargetError::Device("the target has no other device to run on".to_owned()))
    }
    /// The KV rows of the committed positions, for [`Self::restore_kv`] of the same target in a
    /// later run; `None` if they cannot be read (on a GPU) or take more than `most` bytes.
    fn saved_kv(&self, most: usize) -> Option<Vec<u8>> {
        let _ = most;
        None
    }
    /// Replaces all committed positions by `len` positions that [`Self::saved_kv`] returned.
    /// Returns `false`, and changes nothing, if they do not fit. The caller must ensure that they
    /// come from the same target.
    fn restore_kv(&mut self, len: usize, bytes: &[u8]) -> bool {
        let _ = (len, bytes);
        false
    }
    /// The traffic counters of the GPU; `None` if it is on the CPU alone.
    fn traffic(&self) -> Option<TrafficMeter> {
        None
    }
}
