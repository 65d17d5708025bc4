//! What a drafter made while the target verified a round's tree, as a part of the round's record:
//! sequences (DuoDecoding), or trees for the possible outcomes of the round (`--overlap`). It must
//! not depend on how it was drafted.

use super::round::Round;
use crate::draft::OutcomeAhead;
use crate::speculate::Tree;
use crate::speculate::duo::SequencesAhead;
use serde::{Deserialize, Serialize};

/// Sequences drafted ahead in one round, after the tree that was being verified.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AheadRecord {
    /// γ: the budget of tokens that the sequences share.
    pub gamma: usize,
    /// The k sequences, the draft's favourite first.
    pub sequences: Vec<Vec<AheadToken>>,
    /// The number (from 0) of the sequence that begins with the round's bonus token, after a tail
    /// that was accepted completely: it is the next round's tail. `None` if there is no such
    /// sequence, or nothing follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<usize>,
}

/// One token of a sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AheadToken {
    /// Token id.
    pub token: u32,
    /// Display text, as in [`Round::labels`].
    pub label: String,
    /// The draft's log-probability of it after what precedes it.
    pub log_prob: f32,
}

/// A tree drafted ahead for one outcome of a round: the path that might be accepted, and the token
/// after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AheadOutcome {
    /// The node of the round's tree at which that path ends; 0 if nothing is accepted.
    pub node: usize,
    /// The draft's log-probability of the outcome.
    pub log_prob: f32,
    /// The tree for the next round; its root is the token after the path.
    pub tree: Tree,
    /// Display text of each node's token, as in [`Round::labels`].
    pub labels: Vec<String>,
    /// Whether this was the outcome of the round. Whether the next round could use it is in that
    /// round's `drafted_ahead`.
    #[serde(default, skip_serializing_if = "super::round::is_false")]
    pub came: bool,
}

impl AheadOutcome {
    /// What was drafted for an outcome that has not been confirmed yet.
    pub(super) fn new(ahead: &OutcomeAhead, label: &dyn Fn(u32) -> String) -> Self {
        let OutcomeAhead { node, log_prob, ref tree } = *ahead;
        let labels = tree.nodes().iter().map(|node| label(node.token)).collect();
        Self { node, log_prob, tree: tree.clone(), labels, came: false }
    }

    /// Checks that it can have been drafted alongside `round`, which it is a part of.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self, round: &Round) -> Result<(), String> {
        if self.node >= round.tree.len() || self.labels.len() != self.tree.len() {
            return Err("a tree was drafted ahead for an outcome that is not in the round's \
                tree"
                .to_owned());
        }
        let Some(root) = self.tree.nodes().first() else {
            return Err("a tree drafted ahead has no root".to_owned());
        };
        let end = round.accepted.last().copied().unwrap_or(0);
        if self.came && (self.node, root.token) != (end, round.bonus) {
            return Err(
                "an outcome is marked as the round's, but the round had another one".to_owned()
            );
        }
        Ok(())
    }
}

/// What the target's choice says about k, after it has judged the first tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedCount {
    /// k.
    pub drafted: usize,
    /// Whether the target chose the first token of the draft's favourite, so that one sequence was
    /// enough.
    pub one_was_enough: bool,
}

impl AheadRecord {
    /// The record of sequences with the budget `gamma`. `won` are the tokens that the round
    /// committed, with the bonus token last; empty if the answer ended with the round.
    pub(super) fn new(
        gamma: usize,
        ahead: &SequencesAhead,
        won: &[u32],
        label: &dyn Fn(u32) -> String,
    ) -> Self {
        let token = |(token, log_prob)| AheadToken { token, label: label(token), log_prob };
        let sequences = ahead.sequences().map(|all| all.into_iter().map(token).collect());
        let adopted = ahead.adopt(won).map(|adopted| adopted.sequence);
        Self { gamma, sequences: sequences.collect(), adopted }
    }

    /// k: the number of sequences.
    pub fn k(&self) -> usize {
        self.sequences.len()
    }

    /// Checks that it can have been drafted alongside `round`, which it is a part of.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self, round: &Round) -> Result<(), String> {
        let tokens: usize = self.sequences.iter().map(Vec::len).sum();
        if tokens > self.gamma {
            return Err(format!("{tokens} tokens were drafted ahead with γ = {}", self.gamma));
        }
        if self.sequences.iter().any(Vec::is_empty) {
            return Err("a sequence drafted ahead has no tokens".to_owned());
        }
        let Some(adopted) = self.adopted else { return Ok(()) };
        let first = self.sequences.get(adopted).and_then(|sequence| sequence.first());
        if first.map(|first| first.token) != Some(round.bonus) || !round.held() {
            return Err(format!(
                "sequence {adopted} was adopted but does not follow the accepted \
                tokens"
            ));
        }
        Ok(())
    }
}

impl Round {
    /// Whether the whole tail was accepted: the path of the first children, which is all of a
    /// chain.
    fn held(&self) -> bool {
        let tokens = self.accepted.iter().filter_map(|&node| self.tree.nodes().get(node));
        let accepted: Vec<u32> = tokens.map(|node| node.token).collect();
        accepted == SequencesAhead::tail(&self.tree)
    }

    /// How k compares with what the target chose; `None` if no sequences were drafted ahead, or if
    /// they were useless because the tail before them was not accepted.
    pub fn judged_count(&self) -> Option<JudgedCount> {
        let ahead = self.ahead.as_ref()?;
        let favourite = ahead.sequences.first()?.first()?.token;
        let judged = self.held() && self.has_bonus();
        judged.then(|| JudgedCount { drafted: ahead.k(), one_was_enough: favourite == self.bonus })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A record of sequences whose tokens have the probability 1/2 and are labelled by their
    /// numbers.
    pub(crate) fn ahead(gamma: usize, tokens: &[&[u32]], adopted: Option<usize>) -> AheadRecord {
        let token =
            |&token: &u32| AheadToken { token, label: format!("<{token}>"), log_prob: -0.7 };
        let sequences = tokens.iter().map(|all| all.iter().map(token).collect()).collect();
        AheadRecord { gamma, sequences, adopted }
    }
}
