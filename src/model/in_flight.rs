//! The rows of a growing tree that a small model has in flight after its committed positions: which
//! of them each row sees, what can be run next, and which rows stay when a path is kept. It is the
//! same for every backend. It must not depend on a cache.

use crate::kernels::TreeMask;
use crate::model::target::check_runnable;
use crate::model::{DraftRow, TargetError};

/// Cache slots after the positions, for rows in flight: more than any tree has.
pub(super) const SLOTS: usize = 1024;

/// What a small model and its cache have room for.
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

/// For each row in flight, the rows that it sees, from the first level down to itself.
#[derive(Debug, Default)]
pub(super) struct RowsInFlight(Vec<Vec<usize>>);

/// Rows that are to be run after those in flight.
pub(super) struct Further {
    pub tokens: Vec<u32>,
    pub mask: TreeMask,
    paths: Vec<Vec<usize>>,
}

impl RowsInFlight {
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// What is to be run for `rows`, each of which follows its parent.
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
        let Bounds { vocab, capacity, slots, len } = bounds;
        let deepest = above.iter().map(|path| len + path.len() + 1).max().unwrap_or(0);
        check_runnable(rows.iter().map(|row| row.token), vocab, deepest, capacity)?;
        check_runnable([], vocab, len + first + rows.len(), slots)?;
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

    /// Keeps `path` and the descendants of its last row, which are renumbered in the same order.
    /// Returns the old number of each row that stays in flight; the numbers ascend, because rows
    /// come after their parents. An empty path changes nothing.
    ///
    /// # Panics
    /// If `path` is not a path from the first level down.
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
