//! Which rows of a pass see which: each sees the rows on its path from the root. Knows no tree
//! beyond its parents.

/// For every row of a pass the rows it sees, from the root to itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// Rows in flight before the first of this pass.
    first: usize,
    /// Where each row's path begins in `nodes`; one more for the end.
    starts: Vec<usize>,
    nodes: Vec<u32>,
}

impl Paths {
    /// The paths of a tree given by each row's parent; a row that is its own parent begins a path
    /// (the root, node 0).
    ///
    /// # Panics
    /// If a parent comes after its child.
    pub fn tree(parents: impl IntoIterator<Item = usize>) -> Self {
        let mut paths = Self { first: 0, starts: vec![0], nodes: Vec::new() };
        for (row, parent) in parents.into_iter().enumerate() {
            assert!(parent <= row, "row {row} before its parent {parent}");
            if parent < row {
                paths.nodes.extend_from_within(paths.starts[parent]..paths.starts[parent + 1]);
            }
            paths.nodes.push(row as u32);
            paths.starts.push(paths.nodes.len());
        }
        paths
    }

    /// Rows that follow one another, as in a prompt: each sees all before it.
    pub fn chain(rows: usize) -> Self {
        Self::tree((0..rows).map(|row| row.saturating_sub(1)))
    }

    /// One level of a tree whose levels run in passes of their own: `first` rows of the levels
    /// above are in flight, and each row sees those in its list (ascending), then itself.
    ///
    /// # Panics
    /// If a row sees one that is not of a level above.
    pub fn level<'a>(first: usize, ancestors: impl IntoIterator<Item = &'a [usize]>) -> Self {
        let mut paths = Self { first, starts: vec![0], nodes: Vec::new() };
        for (row, ancestors) in ancestors.into_iter().enumerate() {
            assert!(ancestors.iter().all(|&node| node < first), "{ancestors:?} of {first}");
            paths.nodes.extend(ancestors.iter().map(|&node| node as u32));
            paths.nodes.push((first + row) as u32);
            paths.starts.push(paths.nodes.len());
        }
        paths
    }

    /// Rows in flight before this pass's own: the number of its first row among them.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows in flight that `row` sees, root first, itself last.
    pub fn of(&self, row: usize) -> &[u32] {
        &self.nodes[self.starts[row]..self.starts[row + 1]]
    }

    /// How many first rows the paths of all `rows` have in common.
    pub(super) fn common(&self, rows: std::ops::RangeInclusive<usize>) -> usize {
        let first = self.of(*rows.start());
        rows.skip(1).fold(first.len(), |common, row| {
            let path = self.of(row);
            (0..common.min(path.len())).take_while(|&i| path[i] == first[i]).count()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_from_the_root_to_the_row() {
        let paths = Paths::tree([0, 0, 0, 1, 3]);
        let expected: [&[u32]; 5] = [&[0], &[0, 1], &[0, 2], &[0, 1, 3], &[0, 1, 3, 4]];
        assert_eq!(paths.len(), 5);
        for (row, path) in expected.iter().enumerate() {
            assert_eq!(paths.of(row), *path);
        }
        assert_eq!(paths.common(3..=4), 3);
        assert_eq!(paths.common(1..=3), 1);
        assert_eq!(Paths::chain(3), Paths::tree([0, 0, 1]));
        assert!(Paths::chain(0).is_empty());
    }
}
