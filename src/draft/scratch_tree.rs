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

    /// Makes the end of `path` the root. Only the rows in `stay` remain, in this order.
    pub(super) fn commit(&mut self, path: &[usize], stay: &[usize]) {
        let Some(&last) = path.last() else { return };
        self.root = std::mem::take(&mut self.rows[last].children);
        let mut rows: Vec<Option<ScratchRow>> = self.rows.drain(..).map(Some).collect();
        let number = |row: &usize| stay.binary_search(row).ok();
        let staying = stay.iter().filter_map(|&row| rows[row].take());
        self.rows = staying
            .map(|row| ScratchRow {
                path: row.path[path.len()..].iter().filter_map(number).collect(),
                ..row
            })
            .collect();
    }
}

/// A tree that grows from a scratch row.
#[derive(Debug)]
pub(super) struct GrowingTree {
    pub(super) growth: Growth,
    /// The row it grows from; `None` for the root.
    pub(super) from: Option<usize>,
    /// The scratch row for each of the growth's own rows.
    pub(super) rows: Vec<usize>,
    /// How many levels it has.
    pub(super) levels: usize,
}

impl GrowingTree {
    /// A tree of one level.
    pub(super) fn new(growth: Growth, from: Option<usize>) -> Self {
        Self { growth, from, rows: Vec::new(), levels: 1 }
    }

    /// The rows of its next level as the backend needs them.
    pub(super) fn beam(&self, scratch: &ScratchTree) -> Vec<BeamRow> {
        let place = |row: &BeamRow| {
            let source = row.source.map_or(self.from, |row| Some(self.rows[row]));
            scratch.row(row.token, source)
        };
        self.growth.beam().iter().map(place).collect()
    }
}
