//! Sequences drafted after a tail that has not been verified yet, and which of them is adopted.

use crate::speculate::Tree;

/// Sequences drafted ahead.
#[derive(Clone, Debug, PartialEq)]
pub struct SequencesAhead {
    /// The path below the root after which the sequences continue.
    pub tail: Vec<u32>,
    /// The sequences, best first: tokens with the draft's log-probabilities.
    pub sequences: Vec<Vec<(u32, f32)>>,
}

/// The sequence that the target's token begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Adopted {
    /// Its number; 0 is the draft's favourite.
    pub sequence: usize,
    /// What follows the target's token: the next tail.
    pub rest: Vec<(u32, f32)>,
}

impl SequencesAhead {
    /// The tail of a tree that is about to be checked: from the root, always the first child. For a
    /// chain, it is all of it.
    pub fn tail(tree: &Tree) -> Vec<u32> {
        let down = |&node: &usize| tree.children(node).next();
        let path = std::iter::successors(tree.children(0).next(), down);
        path.map(|node| tree.nodes()[node].token).collect()
    }

    /// The sequence to continue with after the target's pass, which committed the tokens `won`: the
    /// accepted tokens and the target's own, the new root. `None` unless the whole tail was
    /// accepted and the root begins one of the sequences.
    pub fn adopt(&self, won: &[u32]) -> Option<Adopted> {
        let (&root, accepted) = won.split_last()?;
        if accepted != self.tail {
            return None;
        }
        let begins = |all: &Vec<(u32, f32)>| all.first().is_some_and(|&(token, _)| token == root);
        let sequence = self.sequences.iter().position(begins)?;
        Some(Adopted { sequence, rest: self.sequences[sequence][1..].to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequences(all: &[&[u32]]) -> Vec<Vec<(u32, f32)>> {
        all.iter().map(|all| all.iter().map(|&token| (token, -0.5)).collect()).collect()
    }

    #[test]
    fn the_tail_is_the_chain_below_the_root() {
        let mut tree = Tree::root(7);
        assert_eq!(SequencesAhead::tail(&tree), [0; 0]);
        let first = tree.push(0, 8, -0.5);
        tree.push(first, 9, -0.5);
        assert_eq!(SequencesAhead::tail(&tree), [8, 9]);
        // In any other tree it is the first path; at worst it turns out wrong.
        tree.push(0, 3, -0.5);
        assert_eq!(SequencesAhead::tail(&tree), [8, 9]);
    }

    #[test]
    fn a_sequence_is_adopted_behind_a_tail_that_held() {
        let sequences = sequences(&[&[1, 2, 3], &[4, 5, 6], &[7]]);
        let ahead = SequencesAhead { tail: vec![8, 9], sequences };
        let cases = [
            (&[8, 9, 4][..], Some((1, vec![5, 6]))),
            (&[8, 9, 1], Some((0, vec![2, 3]))),
            // A sequence of one token leaves no tail.
            (&[8, 9, 7], Some((2, vec![]))),
            // A token with which no sequence begins.
            (&[8, 9, 2], None),
            // The tail was rejected, early or at its last token, or the text continued beyond what
            // was drafted.
            (&[1], None),
            (&[8, 1], None),
            (&[8, 3, 1], None),
            (&[8, 9, 1, 2], None),
            // Nothing was committed: the answer ended.
            (&[], None),
        ];
        for (won, want) in cases {
            let tokens = |all: Vec<(u32, f32)>| all.iter().map(|pair| pair.0).collect::<Vec<_>>();
            let adopted = ahead.adopt(won).map(|next| (next.sequence, tokens(next.rest)));
            assert_eq!(adopted, want, "{won:?}");
        }
    }
}
