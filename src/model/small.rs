//! What a small language model must provide to be used for drafting, on any backend. It must not
//! depend on a backend.

use super::target::check_runnable;
use super::{TargetError, TrafficMeter};
use crate::kernels::{Matrix, TreeMask};
use crate::speculate::BeamRow;

/// How many neighbouring tokens are scored or left out together.
pub const TOKEN_GROUP: usize = Matrix::GROUP;

/// Cache slots after the positions, for rows in flight: more than any tree has.
pub(super) const SLOTS: usize = 1024;

/// A language model that runs a growing tree row by row. Positions 0..`len` are committed. After
/// them come rows in flight, numbered from 0 in the order in which they were run, until
/// [`SmallLm::keep`] commits a path of them. Only the caller remembers which rows there are. The
/// bits of a row's logits do not depend on what was run before it or with it, so no row has to be
/// run twice.
pub trait SmallLm: Send {
    /// Precision and device, e.g. `Q4_K on CPU`.
    fn describe(&self) -> String;
    /// Rows of its embedding.
    fn vocab(&self) -> usize;
    /// How many positions it can be used for; a tree may reach as far.
    fn capacity(&self) -> usize;
    /// How many rows can be in flight.
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
    /// Runs `rows`, at least one, and leaves them in flight after the `first` ones, among which are
    /// the ancestors of each row. Returns their logits, `[rows, scored]`.
    ///
    /// # Errors
    /// [`TargetError`]; nothing is changed then.
    fn grow(&mut self, first: usize, rows: &[BeamRow]) -> Result<&[f32], TargetError>;
    /// Commits `path`: rows in flight from the first level down. The rows in `stay`, all of them
    /// below its last one, stay in flight and are renumbered in this order, which is the old one;
    /// the rest is forgotten.
    fn keep(&mut self, path: &[usize], stay: &[usize]);
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

/// The tokens and the mask with which `lm` runs `rows` after the `first` rows in flight.
///
/// # Errors
/// [`TargetError`] if it has no such tokens or no room.
pub(super) fn level(
    lm: &dyn SmallLm,
    first: usize,
    rows: &[BeamRow],
) -> Result<(Vec<u32>, TreeMask), TargetError> {
    let tokens: Vec<u32> = rows.iter().map(|row| row.token).collect();
    let above = rows.iter().map(|row| row.ancestors.as_slice());
    let deepest = above.clone().map(|path| lm.len() + path.len() + 1).max().unwrap_or(0);
    check_runnable(tokens.iter().copied(), lm.vocab(), deepest, lm.capacity())?;
    check_runnable([], lm.vocab(), first + rows.len(), lm.room())?;
    Ok((tokens, TreeMask::level(first, above)))
}
