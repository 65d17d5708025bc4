//! The tree attention mask: which rows of a pass a row attends to. It depends on a tree only
//! through the parents of its rows.

/// The attention mask of a pass over a draft tree: each row attends to the committed positions and
/// to the rows on its path from the root, including itself. A causal mask is the mask of a chain.
///
/// It is stored as lists of visible rows, because attention sums over a row's path in order; a
/// matrix of flags would have to be searched for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeMask {
    /// Rows in flight before the first row of this pass.
    first: usize,
    /// Where each row's path begins in `nodes`, followed by the end of the last path.
    starts: Vec<usize>,
    /// The visible rows of every row, one path after the other.
    nodes: Vec<u32>,
    /// Whether every row sees all rows, the later ones too.
    both_ways: bool,
}

impl TreeMask {
    /// The mask of a tree given by each row's parent; a row that is its own parent begins a path
    /// (the root, node 0).
    ///
    /// # Panics
    /// If a parent comes after its child.
    pub fn tree(parents: impl IntoIterator<Item = usize>) -> Self {
        let mut mask = Self { starts: vec![0], ..Self::default() };
        for (row, parent) in parents.into_iter().enumerate() {
            assert!(parent <= row, "row {row} before its parent {parent}");
            if parent < row {
                mask.nodes.extend_from_within(mask.starts[parent]..mask.starts[parent + 1]);
            }
            mask.nodes.push(row as u32);
            mask.starts.push(mask.nodes.len());
        }
        mask
    }

    /// The causal mask, for rows that follow one another as in a prompt: each row sees all rows
    /// before it.
    pub fn causal(rows: usize) -> Self {
        Self::tree((0..rows).map(|row| row.saturating_sub(1)))
    }

    /// The mask of one level of a tree when each level runs in a pass of its own. `first` rows of
    /// the levels above are in flight; each row sees the rows in its list (ascending), then itself.
    ///
    /// # Panics
    /// If a row sees one that is not of a level above.
    pub fn level<'a>(first: usize, ancestors: impl IntoIterator<Item = &'a [usize]>) -> Self {
        let mut mask = Self { first, starts: vec![0], ..Self::default() };
        for (row, ancestors) in ancestors.into_iter().enumerate() {
            assert!(ancestors.iter().all(|&node| node < first), "{ancestors:?} of {first}");
            mask.nodes.extend(ancestors.iter().map(|&node| node as u32));
            mask.nodes.push((first + row) as u32);
            mask.starts.push(mask.nodes.len());
        }
        mask
    }

    /// The mask of rows that follow one another and all see each other, the later ones too.
    pub fn both_ways(rows: usize) -> Self {
        let nodes = (0..rows).flat_map(|_| 0..rows as u32).collect();
        let starts = (0..=rows).map(|row| row * rows).collect();
        Self { first: 0, starts, nodes, both_ways: true }
    }

    /// The mask of rows that see only the committed positions, and are all at the one after those.
    pub fn of_prefix(rows: usize) -> Self {
        Self { starts: vec![0; rows + 1], ..Self::default() }
    }

    /// How many rows are in flight before this pass, which is also the index of its first row.
    pub fn first(&self) -> usize {
        self.first
    }

    /// How many rows this pass has.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Whether this pass has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows in flight that `row` attends to, from the root to itself, or all or none of them.
    pub fn visible(&self, row: usize) -> &[u32] {
        &self.nodes[self.starts[row]..self.starts[row + 1]]
    }

    /// How many rows in flight `row` attends to before itself.
    pub fn depth(&self, row: usize) -> usize {
        if self.both_ways { row } else { self.visible(row).len().saturating_sub(1) }
    }

    /// The length of the longest common prefix of the paths of `rows`.
    pub(super) fn common_prefix(&self, rows: std::ops::RangeInclusive<usize>) -> usize {
        let first = self.visible(*rows.start());
        rows.skip(1).fold(first.len(), |common, row| {
            let path = self.visible(row);
            (0..common.min(path.len())).take_while(|&i| path[i] == first[i]).count()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_sees_its_path_from_the_root() {
        let mask = TreeMask::tree([0, 0, 0, 1, 3]);
        let expected: [&[u32]; 5] = [&[0], &[0, 1], &[0, 2], &[0, 1, 3], &[0, 1, 3, 4]];
        assert_eq!(mask.len(), 5);
        for (row, path) in expected.iter().enumerate() {
            assert_eq!(mask.visible(row), *path);
        }
        assert_eq!(mask.common_prefix(3..=4), 3);
        assert_eq!(mask.common_prefix(1..=3), 1);
    }

    #[test]
    fn rows_that_see_each_other_still_follow_one_another() {
        let mask = TreeMask::both_ways(3);
        assert_eq!(mask.len(), 3);
        for row in 0..3 {
            assert_eq!((mask.visible(row), mask.depth(row)), (&[0, 1, 2][..], row));
        }
    }

    #[test]
    fn rows_that_see_only_what_is_committed_are_all_at_the_next_position() {
        let mask = TreeMask::of_prefix(3);
        assert_eq!((mask.len(), mask.common_prefix(0..=2)), (3, 0));
        assert!((0..3).all(|row| mask.visible(row).is_empty() && mask.depth(row) == 0));
    }

    #[test]
    fn a_causal_mask_is_that_of_a_chain() {
        assert_eq!(TreeMask::causal(3), TreeMask::tree([0, 0, 1]));
        assert!(TreeMask::causal(0).is_empty());
    }
}
