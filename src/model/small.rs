//! What a small language model must provide to be used for drafting, on any backend. It must not
//! depend on a backend.

use super::{TargetError, TrafficMeter};
use crate::kernels::Matrix;

/// How many neighbouring tokens are scored or left out together.
pub const TOKEN_GROUP: usize = Matrix::GROUP;

/// A row to be run: a token after the committed positions, or after a row in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraftRow {
    /// The row in flight that it follows; `None` if it follows the last committed position.
    pub parent: Option<usize>,
    /// The token id.
    pub token: u32,
}

/// A language model that runs a growing tree row by row. Positions 0..`len` are committed. After
/// them come rows in flight, numbered from 0 in the order in which they were run, until
/// [`SmallLm::keep`] commits a path of them. The bits of a row's logits do not depend on what was
/// run before it or with it, so no row has to be run twice.
pub trait SmallLm: Send {
    /// Precision and device, e.g. `Q4_K on CPU`.
    fn describe(&self) -> String;
    /// Rows of its embedding.
    fn vocab(&self) -> usize;
    /// How many positions it can be used for; a tree may reach as far.
    fn capacity(&self) -> usize;
    /// How many more rows can be put in flight.
    fn room(&self) -> usize;
    /// How many positions are committed.
    fn len(&self) -> usize;
    /// Whether no position is committed.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Computes the logits of only these groups of [`TOKEN_GROUP`] tokens from now on, in ascending
    /// order. Returns whether it does; otherwise it computes the logits of all tokens as before.
    fn score(&mut self, _groups: &[u32]) -> bool {
        false
    }
    /// Commits `tokens` after the committed positions and forgets the rows in flight. Returns the
    /// logits of the last token, `[scored]`, or nothing if there are no tokens.
    ///
    /// # Errors
    /// [`TargetError`]; nothing is changed then.
    fn read(&mut self, tokens: &[u32]) -> Result<&[f32], TargetError>;
    /// Runs `rows`, each after its parent, and leaves them in flight. Returns their logits, `[rows,
    /// scored]`.
    ///
    /// # Errors
    /// [`TargetError`]; nothing is changed then.
    ///
    /// # Panics
    /// If a parent is not in flight before this call.
    fn grow(&mut self, rows: &[DraftRow]) -> Result<&[f32], TargetError>;
    /// Commits `path`: rows in flight, each the parent of the next; the first has no parent. The
    /// descendants of its last row stay in flight and are renumbered in the same order; the rest is
    /// forgotten. Returns the old number of each row that stays.
    ///
    /// # Panics
    /// If `path` is not such a path.
    fn keep(&mut self, path: &[usize]) -> Vec<usize>;
    /// Forgets every position from `len` on, and the rows in flight. A model with recurrent layers
    /// may have to forget more: see [`Self::len`].
    fn truncate(&mut self, len: usize);
    /// Bytes of weights and caches.
    fn bytes(&self) -> u64;
    /// The traffic counters of the GPU, if it runs on one with our own shaders; otherwise `None`.
    fn traffic(&self) -> Option<TrafficMeter> {
        None
    }
}
