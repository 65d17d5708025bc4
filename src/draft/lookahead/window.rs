//! The window of Jacobi iterations: up to [`REACH`] rows of tokens; each pass of the target
//! computes the next row.
//!
//! Cell (ℓ, c) sees the text, row 0 up to column c, and the rows up to ℓ in column c. As a tree,
//! this means: row 0 is a chain from the root, which is its column 0, and (ℓ, c) is a child of (ℓ −
//! 1, c). Its depth ℓ + c is the position that the method gives it.

use super::REACH;
use super::pool::Ngram;
use crate::speculate::{Tree, argmax};

/// The rows, all of the same length. Row 0 begins with the key of column 0, which was the root when
/// the window was last laid out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    rows: Vec<Vec<u32>>,
}

impl Window {
    /// A window that will have `columns` columns when all its rows exist. The first row is longer
    /// by one for each row to come, because each of them costs it a column.
    pub(super) fn new(columns: usize, mut seed: impl FnMut() -> u32) -> Self {
        if columns == 0 {
            return Self::default();
        }
        Self { rows: vec![(0..columns + REACH - 1).map(|_| seed()).collect()] }
    }

    /// How many columns it has, or will have when all its rows exist.
    pub(super) fn columns(&self) -> usize {
        self.rows.first().map_or(0, |row| row.len() + self.rows.len() - REACH)
    }

    /// Removes columns on the right.
    pub(super) fn narrow(&mut self, columns: usize) {
        let away = self.columns().saturating_sub(columns);
        if columns == 0 {
            self.rows.clear();
        }
        for row in self.rows.iter_mut() {
            row.truncate(row.len() - away);
        }
    }

    /// The most nodes that a window of `columns` columns adds to a tree.
    pub(super) fn cost(columns: usize) -> usize {
        let nodes = |rows: usize| rows * (columns + REACH - rows);
        if columns == 0 { 0 } else { (1..=REACH).map(nodes).max().unwrap_or(0) - 1 }
    }

    /// Adds the cells to `tree`; a cell that equals an existing node shares that node. Returns the
    /// node of each column's last row.
    pub(super) fn lay(&mut self, tree: &mut Tree, log_prob: f32) -> Vec<usize> {
        let Some(first) = self.rows.first_mut() else { return Vec::new() };
        first[0] = tree.nodes()[0].token;
        let mut last = Vec::with_capacity(first.len());
        let mut above = 0;
        for (column, &token) in first.iter().enumerate() {
            if column > 0 {
                above = grow(tree, above, token, log_prob);
            }
            last.push(above);
        }
        for row in &self.rows[1..] {
            for (node, &token) in last.iter_mut().zip(row) {
                *node = grow(tree, *node, token, log_prob);
            }
        }
        last
    }

    /// Takes the row that the target computed: the argmax after each of the nodes `last`, whose
    /// logits are `[.., vocab]`. Passes the n-gram of every column to `found` once all rows exist.
    pub(super) fn advance(
        &mut self,
        last: &[usize],
        logits: &[f32],
        vocab: usize,
        mut found: impl FnMut(u32, Ngram),
    ) {
        if last.is_empty() || self.rows.first().map(Vec::len) != Some(last.len()) {
            return;
        }
        let next = |&node: &usize| argmax(&logits[node * vocab..(node + 1) * vocab]);
        self.rows.push(last.iter().map(next).collect());
        if self.rows.len() <= REACH {
            // The text is now one token longer, so every column moves one place to the left.
            for row in &mut self.rows {
                row.remove(0);
            }
            return;
        }
        for column in 0..last.len() {
            let key = self.rows[0][column];
            let mut guess = [0; REACH];
            for (token, row) in guess.iter_mut().zip(&self.rows[1..]) {
                *token = row[column];
            }
            found(key, guess);
        }
        self.rows.remove(0);
    }
}

/// The child of `parent` that holds `token`, created if there is none.
pub(super) fn grow(tree: &mut Tree, parent: usize, token: u32, log_prob: f32) -> usize {
    match tree.child(parent, token) {
        Some(child) => child,
        None => tree.push(parent, token, log_prob),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VOCAB: usize = 50;

    /// Logits whose argmax after a node is a function of its path.
    fn logits(tree: &Tree) -> Vec<f32> {
        let mut logits = vec![0.0; tree.len() * VOCAB];
        for node in 0..tree.len() {
            logits[node * VOCAB + after(tree, node) as usize] = 1.0;
        }
        logits
    }

    fn after(tree: &Tree, node: usize) -> u32 {
        let path = tree.ancestors(node).map(|i| tree.nodes()[i].token);
        path.fold(7, |sum, token| (sum * 31 + token) % VOCAB as u32)
    }

    #[test]
    fn rows_fill_one_by_one_and_then_move_up() {
        let mut seeds = 10..;
        let mut window = Window::new(7, || seeds.next().unwrap());
        let mut grams = Vec::new();
        for step in 0..6u32 {
            let rows_before = window.rows.clone();
            let mut tree = Tree::root(step);
            let last = window.lay(&mut tree, -1.0);
            assert_eq!(window.columns(), 7);
            assert_eq!(rows_before.len(), (step as usize + 1).min(REACH));
            assert_eq!(last.len(), 7 + REACH - rows_before.len());
            assert!(tree.len() <= 1 + Window::cost(7));
            for (column, &node) in last.iter().enumerate() {
                assert_eq!(tree.nodes()[node].depth, rows_before.len() - 1 + column);
            }
            let laid = window.rows.clone();
            assert_eq!(laid[0][0], step);
            window.advance(&last, &logits(&tree), VOCAB, |key, guess| grams.push((key, guess)));
            let newest = window.rows.last().unwrap();
            let want: Vec<u32> = last.iter().map(|&node| after(&tree, node)).collect();
            if step < REACH as u32 - 1 {
                assert!(grams.is_empty());
                assert_eq!(newest[..], want[1..]);
                assert_eq!(window.rows[0][..], laid[0][1..]);
            } else {
                assert_eq!(newest[..], want);
                assert_eq!(window.rows[0][1..], laid[1][1..]);
                assert_eq!(window.rows[1..REACH - 1], laid[2..]);
                for (column, (key, guess)) in grams.drain(..).enumerate() {
                    let cells: Vec<u32> = laid.iter().map(|row| row[column]).collect();
                    assert_eq!(key, cells[0]);
                    assert_eq!(guess[..REACH - 1], cells[1..]);
                    assert_eq!(guess[REACH - 1], want[column]);
                }
            }
        }
    }

    #[test]
    fn a_window_of_no_columns_is_nothing() {
        let mut window = Window::new(0, || 1);
        let mut tree = Tree::root(3);
        assert!(window.lay(&mut tree, -1.0).is_empty());
        window.advance(&[], &[], VOCAB, |_, _| panic!("an n-gram of nothing"));
        assert_eq!((tree.len(), window.columns(), Window::cost(0)), (1, 0, 0));
    }

    proptest! {
        /// Whatever the columns hold, a cell sees what the method's mask allows.
        #[test]
        fn the_tree_is_the_mask(
            seeds in prop::collection::vec(0u32..4, 40), steps in 0usize..8, columns in 1usize..8,
            narrowed in 1usize..8,
        ) {
            let mut at = seeds.iter().copied().cycle();
            let mut window = Window::new(columns, || at.next().unwrap());
            for step in 0..=steps {
                if step == steps / 2 {
                    window.narrow(narrowed);
                    prop_assert_eq!(window.columns(), columns.min(narrowed));
                }
                let mut tree = Tree::root(step as u32 % 4);
                let last = window.lay(&mut tree, -1.0);
                let rows = &window.rows;
                for (column, &node) in last.iter().enumerate() {
                    let mut path: Vec<u32> =
                        tree.ancestors(node).map(|i| tree.nodes()[i].token).collect();
                    path.reverse();
                    let above = rows[1..].iter().map(|r| &r[column]);
                    let seen = rows[0][..=column].iter().chain(above);
                    prop_assert!(path.iter().eq(seen));
                }
                // Siblings hold different tokens.
                for node in 1..tree.len() {
                    let same = tree.child(tree.nodes()[node].parent, tree.nodes()[node].token);
                    prop_assert_eq!(same, Some(node));
                }
                prop_assert!(tree.len() <= 1 + Window::cost(columns));
                let logits = logits(&tree);
                window.advance(&last, &logits, VOCAB, |_, _| {});
            }
        }
    }
}
