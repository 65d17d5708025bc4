//! What a draft model has run after the committed text: what may follow the text, and every scratch
//! row, from which trees grow. It must never run a model.

use crate::speculate::{BeamRow, Growth};

/// Candidates as (target's token, log-probability), likeliest first.
pub(super) type RankedTokens = Vec<(u32, f32)>;

/// The root and the scratch rows after it, numbered as in the model's cache.
#[derive(Debug, Default)]
pub(super) struct ScratchTree {
    root: RankedTokens,
    rows: Vec<ScratchRow>,
}

#[derive(Debug)]
struct ScratchRow {
    token: u32,
    /// The rows that it sees, from the root's child to itself.
    path: Vec<usize>,
    children: RankedTokens,
}

impl ScratchRow {
    fn source(&self) -> Option<usize> {
        self.path.len().checked_sub(2).map(|above| self.path[above])
    }
}

impl ScratchTree {
    /// Only the root with its children.
    pub(super) fn new(root: RankedTokens) -> Self {
        Self { root, rows: Vec::new() }
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The likeliest children of a row, or of the root.
    pub(super) fn children(&self, row: Option<usize>) -> &[(u32, f32)] {
        row.map_or(&self.root, |row| &self.rows[row].children)
    }

    /// The row of `token` below a row, or below the root, if it has been run.
    pub(super) fn find(&self, token: u32, source: Option<usize>) -> Option<usize> {
        // Children come after their parents.
        let from = source.map_or(0, |source| source + 1);
        let is = |row: &ScratchRow| row.token == token && row.source() == source;
        self.rows[from..].iter().position(is).map(|at| from + at)
    }

    /// The rows from the root's child to this one; none for the root.
    pub(super) fn path(&self, row: Option<usize>) -> &[usize] {
        row.map_or(&[], |row| &self.rows[row].path)
    }

    /// What a model needs to run `token` below a row, or below the root.
    pub(super) fn row(&self, token: u32, source: Option<usize>) -> BeamRow {
        BeamRow { token, source, ancestors: self.path(source).to_vec() }
    }

    /// Notes that `token` was run below a row, or below the root, and what may follow it.
    pub(super) fn push(&mut self, token: u32, source: Option<usize>, children: RankedTokens) {
        let path = [self.path(source), &[self.rows.len()]].concat();
        self.rows.push(ScratchRow { token, path, children });
    }

    /// Makes the end of `path` the root. Only the rows below it remain, renumbered in the same
    /// order. Returns their old numbers, which ascend.
    pub(super) fn commit(&mut self, path: &[usize]) -> Vec<usize> {
        let Some(&last) = path.last() else { return (0..self.rows.len()).collect() };
        self.root = std::mem::take(&mut self.rows[last].children);
        let all = std::mem::take(&mut self.rows).into_iter().enumerate();
        let below = all.filter(|(number, row)| *number != last && row.path.contains(&last));
        let (stay, rows): (Vec<usize>, Vec<ScratchRow>) = below.unzip();
        let number = |row: &usize| stay.binary_search(row).ok();
        let renumbered = |row: ScratchRow| ScratchRow {
            path: row.path.iter().filter_map(number).collect(),
            ..row
        };
        self.rows = rows.into_iter().map(renumbered).collect();
        stay
    }
}

/// The scratch rows of a tree that grows from one of them or from the root.
#[derive(Debug, Default)]
pub(super) struct RowMap {
    from: Option<usize>,
    rows: Vec<usize>,
}

impl RowMap {
    /// Of a tree that grows from this row; `None` for the root.
    pub(super) fn below(from: Option<usize>) -> Self {
        Self { from, rows: Vec::new() }
    }

    /// The scratch row that a row of the tree's beam follows.
    pub(super) fn source(&self, row: &BeamRow) -> Option<usize> {
        row.source.map_or(self.from, |source| Some(self.rows[source]))
    }

    /// Notes which scratch rows the rows of the beam have become.
    pub(super) fn extend(&mut self, rows: impl IntoIterator<Item = usize>) {
        self.rows.extend(rows);
    }
}

/// A tree that grows from a scratch row or the root.
#[derive(Debug)]
pub(super) struct GrowingTree {
    pub(super) growth: Growth,
    pub(super) rows: RowMap,
}
