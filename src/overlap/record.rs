//! What a drafter made while the target verified a round's tree, as a part of the round's record:
//! sequences (DuoDecoding), or trees for the possible outcomes of the round (`--overlap`). It must
//! not depend on how it was drafted.

use crate::draft::Outcome;
use crate::speculate::Tree;
use crate::speculate::duo::SequencesAhead;
use serde::{Deserialize, Serialize};

/// Sequences drafted ahead in one round, after the tree that was being verified.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SequencesRecord {
    /// γ: the budget of tokens that the sequences share.
    pub gamma: usize,
    /// c: the time of one pass of the target over that of one draft step; `None` while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c: Option<f64>,
    /// The k sequences, the draft's favourite first.
    pub sequences: Vec<Vec<SequenceToken>>,
    /// The number (from 0) of the sequence that begins with the round's bonus token, after a tail
    /// that was accepted completely: it is the next round's tail. `None` if there is no such
    /// sequence, or nothing follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<usize>,
}

/// One token of a sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SequenceToken {
    /// Token id.
    pub token: u32,
    /// Display text, as in a round's labels.
    pub label: String,
    /// The draft's log-probability of it after what precedes it.
    pub log_prob: f32,
}

/// A tree drafted ahead for one outcome of a round: the path that might be accepted, and the token
/// after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutcomeRecord {
    /// The node of the round's tree at which that path ends; 0 if nothing is accepted.
    pub node: usize,
    /// The draft's log-probability of the outcome.
    pub log_prob: f32,
    /// The tree for the next round; its root is the token after the path.
    pub tree: Tree,
    /// Display text of each node's token, as in a round's labels.
    pub labels: Vec<String>,
    /// Whether this was the outcome of the round. Whether the next round could use it is in that
    /// round's `drafted_ahead`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub came: bool,
}

impl OutcomeRecord {
    /// What was drafted for an outcome that has not been confirmed yet.
    pub(crate) fn new(ahead: &Outcome, label: &dyn Fn(u32) -> String) -> Self {
        let Outcome { node, log_prob, ref tree } = *ahead;
        let labels = tree.nodes().iter().map(|node| label(node.token)).collect();
        Self { node, log_prob, tree: tree.clone(), labels, came: false }
    }
}

impl SequencesRecord {
    /// The record of sequences with the budget `gamma`. `won` are the tokens that the round
    /// committed, with the bonus token last; empty if the answer ended with the round.
    pub(crate) fn new(
        gamma: usize,
        ahead: &SequencesAhead,
        won: &[u32],
        label: &dyn Fn(u32) -> String,
    ) -> Self {
        let token = |&(token, log_prob): &(u32, f32)| {
            let label = label(token);
            SequenceToken { token, label, log_prob }
        };
        let sequences = ahead.sequences.iter().map(|all| all.iter().map(token).collect());
        let adopted = ahead.adopt(won).map(|adopted| adopted.sequence);
        Self { gamma, c: None, sequences: sequences.collect(), adopted }
    }

    /// k: the number of sequences.
    pub fn k(&self) -> usize {
        self.sequences.len()
    }

    /// How many draft steps they took, one after the other: a token of every sequence in each, and
    /// one more for the token of the first that decides how many there are.
    pub fn steps(&self) -> usize {
        let longest = self.sequences.iter().map(Vec::len).max().unwrap_or(0);
        longest + usize::from(self.k() > 1)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn the_sequences_of_a_budget_are_drafted_side_by_side() {
        assert_eq!(sequences(6, &[&[1, 2, 3, 4, 5, 6]], None).steps(), 6);
        assert_eq!(sequences(6, &[&[1, 2, 3], &[4, 5, 6]], None).steps(), 4);
    }

    /// A record of sequences whose tokens have the probability 1/2 and are labelled by their
    /// numbers.
    pub(crate) fn sequences(
        gamma: usize,
        tokens: &[&[u32]],
        adopted: Option<usize>,
    ) -> SequencesRecord {
        let token =
            |&token: &u32| SequenceToken { token, label: format!("<{token}>"), log_prob: -0.7 };
        let sequences = tokens.iter().map(|all| all.iter().map(token).collect()).collect();
        SequencesRecord { gamma, c: None, sequences, adopted }
    }
}
