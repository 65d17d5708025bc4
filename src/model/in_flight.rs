//! The rows of a growing tree that lie in flight behind the committed positions of a small model:
//! which of them each sees, what may be run further, and which stay when a path is kept. The same
//! for every backend. Must never know a cache.

use crate::kernels::TreeMask;
use crate::model::{DraftRow, TargetError};

/// Cache slots behind the positions, for rows in flight: more than any tree has.
pub(super) const SLOTS: usize = 1024;

/// How much a small model and its cache can take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Rows of the embedding.
    pub vocab: usize,
    /// Positions.
    pub capacity: usize,
    /// Slots of the cache.
    pub slots: usize,
    /// Committed positions.
    pub len: usize,
}

impl Bounds {
    /// Whether `tokens` can be run with the last of them at position `last`.
    pub fn check(
        &self,
        tokens: impl IntoIterator<Item = u32>,
        last: Option<usize>,
    ) -> Result<(), TargetError> {
        let &Self { vocab, capacity, .. } = self;
        if let Some(token) = tokens.into_iter().find(|&token| token as usize >= vocab) {
            return Err(TargetError::Token { token, vocab });
        }
        let needed = last.map_or(0, |position| position + 1);
        if needed > capacity {
            return Err(TargetError::ContextFull { needed, capacity });
        }
        Ok(())
    }
}

/// For each row in flight the rows it sees, from the first level down, itself last.
#[derive(Debug, Default)]
pub(super) struct RowsInFlight(Vec<Vec<usize>>);

/// Rows that are to be run behind those in flight.
pub(super) struct Further {
    pub tokens: Vec<u32>,
    pub mask: TreeMask,
    paths: Vec<Vec<usize>>,
}

impl RowsInFlight {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// What is to be run for `rows`, each behind its parent.
    ///
    /// # Errors
    /// [`TargetError`] if that is out of bounds.
    ///
    /// # Panics
    /// If a parent is not in flight.
    pub fn further(&self, rows: &[DraftRow], bounds: Bounds) -> Result<Further, TargetError> {
        let first = self.count();
        let above: Vec<&[usize]> = rows
            .iter()
            .map(|row| row.parent.map_or(&[][..], |parent| self.0[parent].as_slice()))
            .collect();
        let deepest = above.iter().map(|path| bounds.len + path.len()).max();
        bounds.check(rows.iter().map(|row| row.token), deepest)?;
        let (capacity, needed) = (bounds.slots, bounds.len + first + rows.len());
        if needed > capacity {
            return Err(TargetError::ContextFull { needed, capacity });
        }
        let path = |(row, above): (usize, &&[usize])| {
            above.iter().copied().chain([first + row]).collect::<Vec<usize>>()
        };
        Ok(Further {
            tokens: rows.iter().map(|row| row.token).collect(),
            mask: TreeMask::level(first, above.iter().copied()),
            paths: above.iter().enumerate().map(path).collect(),
        })
    }

    /// Counts rows that were run.
    pub fn extend(&mut self, run: Further) {
        self.0.extend(run.paths);
    }

    /// Keeps `path` and what descends from its last row, which is numbered anew in the same order.
    /// Returns the old number of each row that stays in flight; all ascend, as rows come after
    /// their parents. Of an empty path nothing changes.
    ///
    /// # Panics
    /// If `path` is no path from the first level down.
    pub fn keep(&mut self, path: &[usize]) -> Vec<usize> {
        let Some(&last) = path.last() else { return (0..self.count()).collect() };
        assert_eq!(self.0[last], path, "rows from the first level down");
        let below = |row: &usize| *row != last && self.0[*row].contains(&last);
        let stay: Vec<usize> = (last..self.count()).filter(below).collect();
        let number = |row: &usize| stay.binary_search(row).ok();
        self.0 = stay.iter().map(|&row| self.0[row].iter().filter_map(number).collect()).collect();
        stay
    }
}
