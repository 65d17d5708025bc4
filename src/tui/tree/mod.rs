//! The rounds of the latest answer, and which of them is shown. Must never know how they are drawn.

mod lit;
mod pending;
mod rows;
pub(crate) mod view;

use std::ops::Range;

use crate::decode::Round;
use crate::overlap::PendingRound;

pub use pending::pending_rows;
pub use rows::{Fold, NodeOutcome, TreeRow, tree_rows};

/// The rounds of one answer.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    list: Vec<Round>,
    /// The bytes of the answer that each of them wrote.
    bytes: Vec<Range<usize>>,
    /// The generation of the answer.
    of: Option<u64>,
    /// Whether the next frame shows the words of the round shown.
    goes: bool,
    /// The round shown; `None` follows the latest.
    cursor: Option<usize>,
    /// First tree row seen.
    top: usize,
    /// What of the tree is hidden.
    pub fold: Fold,
    /// Rows of the tree and rows seen, as last drawn.
    extent: (usize, usize),
    /// The round that is being verified and the generation of its answer, as far as it is known.
    pending: Option<(u64, Box<PendingRound>)>,
}

impl Rounds {
    /// Puts `rounds` in the place of these, which it returns. What is hidden stays so.
    pub fn replace(&mut self, rounds: Self) -> Self {
        let fold = self.fold;
        std::mem::replace(self, Self { fold, ..rounds })
    }

    /// Adds the latest round of the answer `of`, which wrote `bytes` of its text.
    pub fn push(&mut self, round: Round, of: u64, bytes: Range<usize>) {
        self.list.push(round);
        self.bytes.push(bytes);
        self.of = Some(of);
        if self.cursor.is_none() {
            self.top = 0;
        }
    }

    /// The generation of the answer that they belong to.
    pub fn of(&self) -> Option<u64> {
        self.of
    }

    /// The bytes of the answer that the round shown wrote; none if it wrote no text.
    pub fn bytes(&self) -> Option<Range<usize>> {
        let bytes = self.bytes.get(self.shown()?.0)?;
        Some(bytes.clone()).filter(|bytes| !bytes.is_empty())
    }

    /// Shows the round that wrote byte `at` of the answer; the first one for what was written
    /// before it, which is the root of its tree. `false` if none did.
    pub fn show_byte(&mut self, at: usize) -> bool {
        let round = self.bytes.partition_point(|bytes| bytes.end <= at);
        let found = round < self.list.len();
        if found {
            self.go(round);
        }
        found
    }

    /// Whether the next frame shows the words of the round shown; asked for once.
    pub fn goes(&mut self) -> bool {
        std::mem::take(&mut self.goes)
    }

    /// Number of rounds so far.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn latest(&self) -> Option<&Round> {
        self.list.last()
    }

    /// The round shown, and its index.
    pub fn shown(&self) -> Option<(usize, &Round)> {
        let at = self.cursor.or(self.list.len().checked_sub(1))?;
        Some((at, self.list.get(at)?))
    }

    /// Whether the latest round is followed.
    pub fn live(&self) -> bool {
        self.cursor.is_none()
    }

    /// Moves by `by` rounds; past the last one follows the latest again.
    pub fn look(&mut self, by: i64) {
        let Some((at, _)) = self.shown() else { return };
        let to = (at as i64 + by).max(0) as usize;
        self.go(to);
    }

    /// Shows the first round.
    pub fn first(&mut self) {
        self.go(0);
    }

    /// Follows the latest.
    pub fn follow(&mut self) {
        self.cursor = None;
        self.top = 0;
    }

    fn go(&mut self, to: usize) {
        self.cursor = (to + 1 < self.list.len()).then_some(to);
        self.top = 0;
        self.goes = true;
    }

    /// Moves the tree by `rows`, down if positive.
    pub fn scroll(&mut self, rows: i64) {
        let bottom = self.extent.0.saturating_sub(self.extent.1) as i64;
        self.top = (self.top as i64 + rows).clamp(0, bottom) as usize;
    }

    /// Moves by a screenful, one row kept.
    pub fn page(&mut self, down: bool) {
        let rows = self.extent.1.saturating_sub(1).max(1) as i64;
        self.scroll(if down { rows } else { -rows });
    }

    /// Sets how many rows there are and how many fit; returns the first row to show.
    pub fn seen(&mut self, all: usize, fit: usize) -> usize {
        self.extent = (all, fit);
        self.top = self.top.min(all.saturating_sub(fit));
        self.top
    }
}
