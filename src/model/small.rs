//! What drafting needs of a small language model of its own, whatever computes it. Must never know
//! a backend.

use super::{TargetError, TrafficMeter};

/// A row to be run: a token behind the committed positions, or behind a row in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraftRow {
    /// The row in flight that it follows; `None` for the last committed position.
    pub parent: Option<usize>,
    /// Token id.
    pub token: u32,
}

/// A language model that runs a growing tree row by row. Positions 0..`len` are committed. Behind
/// them lie rows in flight, numbered from 0 in the order in which they were run, until
/// [`SmallLm::keep`] commits a path of them. A row's logits are the same bits whatever was run
/// before or beside it, so a row never has to be run twice.
pub trait SmallLm: Send {
    /// Precision and device, e.g. `Q4_K on CPU`.
    fn describe(&self) -> String;
    /// Rows of its embedding.
    fn vocab(&self) -> usize;
    /// Positions it can be used for; a tree may reach as far.
    fn capacity(&self) -> usize;
    /// Rows that can still be put in flight.
    fn room(&self) -> usize;
    /// Committed positions.
    fn len(&self) -> usize;
    /// Whether nothing is committed.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Commits `tokens` behind the committed positions and forgets the rows in flight. Returns the
    /// logits of the last token, `[vocab]`; nothing for no tokens.
    ///
    /// # Errors
    /// [`TargetError`]; nothing is changed then.
    fn read(&mut self, tokens: &[u32]) -> Result<&[f32], TargetError>;
    /// Runs `rows`, each behind its parent, and leaves them in flight. Returns their logits,
    /// `[rows, vocab]`.
    ///
    /// # Errors
    /// [`TargetError`]; nothing is changed then.
    ///
    /// # Panics
    /// If a parent is not in flight before this call.
    fn grow(&mut self, rows: &[DraftRow]) -> Result<&[f32], TargetError>;
    /// Commits `path`: rows in flight, the first without a parent, each the parent of the next.
    /// What descends from its last row stays in flight, numbered anew in the same order; the rest
    /// is forgotten. Returns the old number of each row that stays.
    ///
    /// # Panics
    /// If `path` is no such path.
    fn keep(&mut self, path: &[usize]) -> Vec<usize>;
    /// Forgets every position from `len` on, and the rows in flight.
    fn truncate(&mut self, len: usize);
    /// Bytes of weights and caches.
    fn bytes(&self) -> u64;
    /// The counters of the GPU that it runs on by our own shaders; `None` without one.
    fn traffic(&self) -> Option<TrafficMeter> {
        None
    }
}
