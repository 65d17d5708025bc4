//! Sequences drafted after a tail that has not been verified yet, and which of them is adopted.

use crate::speculate::Tree;

/// Sequences drafted ahead.
#[derive(Clone, Debug, PartialEq)]
pub struct SequencesAhead {
    /// The path below the root after which the sequences continue.
    tail: Vec<u32>,
    /// The sequences as branches under the tail's last token.
    sequences: Tree,
}

/// The sequence that the target's token begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Adopted {
    /// Its number; 0 is the draft's favourite.
    pub sequence: usize,
    /// The next tree: the target's token with the rest of the sequence below it.
    pub tree: Tree,
}

impl SequencesAhead {
    /// `sequences` are the branches under the last token of `tail`, or under the root if there is
    /// no tail.
    pub fn new(tail: Vec<u32>, sequences: Tree) -> Self {
        Self { tail, sequences }
    }

    /// The tail of a tree that is about to be checked: from the root, always the first child. For a
    /// chain, it is all of it.
    pub fn tail(tree: &Tree) -> Vec<u32> {
        let down = |&node: &usize| tree.children(node).next();
        let path = std::iter::successors(tree.children(0).next(), down);
        path.map(|node| tree.nodes()[node].token).collect()
    }

    /// The sequences, best first: tokens with the draft's log-probabilities.
    pub fn sequences(&self) -> impl Iterator<Item = Vec<(u32, f32)>> + '_ {
        let down = |&node: &usize| self.sequences.children(node).next();
        let drafted = |node: usize| {
            let drafted = self.sequences.nodes()[node];
            (drafted.token, drafted.log_prob)
        };
        let firsts = self.sequences.children(0);
        firsts.map(move |first| std::iter::successors(Some(first), down).map(drafted).collect())
    }

    /// The sequence to continue with after the target's pass, which committed the tokens `won`: the
    /// accepted tokens and the target's own, the new root. `None` unless the whole tail was
    /// accepted and the root begins one of the sequences.
    pub fn adopt(&self, won: &[u32]) -> Option<Adopted> {
        let (&root, accepted) = won.split_last()?;
        if accepted != self.tail {
            return None;
        }
        let mut branches = self.sequences.children(0).enumerate();
        let holds = |&(_, node): &(usize, usize)| self.sequences.nodes()[node].token == root;
        let (sequence, mut node) = branches.find(holds)?;
        let mut tree = Tree::root(root);
        let mut end = 0;
        while let Some(next) = self.sequences.children(node).next() {
            let drafted = self.sequences.nodes()[next];
            end = tree.push(end, drafted.token, drafted.log_prob);
            node = next;
        }
        Some(Adopted { sequence, tree })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(tokens: &[u32]) -> Tree {
        let mut tree = Tree::root(tokens[0]);
        tokens[1..].iter().fold(0, |parent, &token| tree.push(parent, token, -0.5));
        tree
    }

    fn sequences(end: u32, branches: &[&[u32]]) -> Tree {
        let mut tree = Tree::root(end);
        for branch in branches {
            branch.iter().fold(0, |parent, &token| tree.push(parent, token, -0.5));
        }
        tree
    }

    #[test]
    fn the_tail_is_the_chain_below_the_root() {
        assert_eq!(SequencesAhead::tail(&chain(&[7, 8, 9])), [8, 9]);
        assert_eq!(SequencesAhead::tail(&Tree::root(7)), [0; 0]);
        // In any other tree it is the first path; at worst it turns out wrong.
        assert_eq!(SequencesAhead::tail(&sequences(7, &[&[1, 2], &[3, 4]])), [1, 2]);
    }

    #[test]
    fn a_sequence_is_adopted_behind_a_tail_that_held() {
        let ahead = SequencesAhead::new(vec![8, 9], sequences(9, &[&[1, 2, 3], &[4, 5, 6]]));
        let adopted = ahead.adopt(&[8, 9, 4]).unwrap();
        assert_eq!((adopted.sequence, adopted.tree), (1, chain(&[4, 5, 6])));
        assert_eq!(ahead.adopt(&[8, 9, 1]).unwrap().sequence, 0);
        let tokens = |all: Vec<(u32, f32)>| all.iter().map(|pair| pair.0).collect::<Vec<_>>();
        assert_eq!(ahead.sequences().map(tokens).collect::<Vec<_>>(), [[1, 2, 3], [4, 5, 6]]);
        // A token with which no sequence begins.
        assert_eq!(ahead.adopt(&[8, 9, 2]), None);
        // The tail was rejected, early or at its last token, or the text continued beyond what was
        // drafted.
        assert_eq!(ahead.adopt(&[1]), None);
        assert_eq!(ahead.adopt(&[8, 1]), None);
        assert_eq!(ahead.adopt(&[8, 3, 1]), None);
        assert_eq!(ahead.adopt(&[8, 9, 1, 2]), None);
        // Nothing was committed: the answer ended.
        assert_eq!(ahead.adopt(&[]), None);
    }

    #[test]
    fn sequences_of_one_token_leave_no_tail() {
        let ahead = SequencesAhead::new(Vec::new(), sequences(3, &[&[1], &[2]]));
        assert_eq!(ahead.adopt(&[2]).unwrap().tree, Tree::root(2));
    }
}
