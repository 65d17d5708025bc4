//! What a head has run since it last received pairs: the root's children and every scratch row,
//! from which trees grow. It must never run the head.

use crate::model::head::Candidates;
use crate::speculate::{BeamRow, Growth};

/// The root and the scratch rows after it, numbered as in the backend.
#[derive(Debug, Default)]
pub(super) struct ScratchTree {
    root: Vec<(u32, f32)>,
    rows: Vec<ScratchRow>,
}

#[derive(Debug)]
struct ScratchRow {
    token: u32,
    /// The rows that it sees, from the root's child to itself.
    path: Vec<usize>,
    children: Vec<(u32, f32)>,
}

impl ScratchRow {
    fn source(&self) -> Option<usize> {
        self.path.len().checked_sub(2).map(|above| self.path[above])
    }
}

impl ScratchTree {
    /// Only the root with its children.
    pub(super) fn new(root: Vec<(u32, f32)>) -> Self {
        Self { root, rows: Vec::new() }
    }

    /// The likeliest children of a row, or of the root.
    pub(super) fn children(&self, row: Option<usize>) -> &[(u32, f32)] {
        row.map_or(&self.root, |row| &self.rows[row].children)
    }

    /// The row of `token` below a row, or below the root, if it has been run.
    pub(super) fn find(&self, token: u32, source: Option<usize>) -> Option<usize> {
        self.rows.iter().position(|row| row.token == token && row.source() == source)
    }

    /// What the backend needs to run `token` below a row, or below the root.
    pub(super) fn row(&self, token: u32, source: Option<usize>) -> BeamRow {
        let ancestors = source.map_or_else(Vec::new, |row| self.rows[row].path.clone());
        BeamRow { token, source, ancestors }
    }

    /// Notes rows that were run, and what the backend found below them. Returns the number of the
    /// first row; `None` if there was no room for them.
    pub(super) fn add(&mut self, beam: Vec<BeamRow>, children: &Candidates) -> Option<usize> {
        let first = self.rows.len();
        for (row, children) in beam.into_iter().zip(children) {
            let mut path = row.ancestors;
            path.push(self.rows.len());
            self.rows.push(ScratchRow { token: row.token, path, children: children.clone() });
        }
        (self.rows.len() > first).then_some(first)
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
