//! Possible outcomes of a round that is being verified, for drafting ahead: where the acceptance
//! walk may end, and with which token. It must not depend on what a drafter runs for an outcome.

use crate::speculate::Tree;
use crate::speculate::duo::SequencesAhead;

/// What was drafted ahead of a round's end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ahead {
    /// Sequences after the tail (DuoDecoding).
    pub sequences: Option<SequencesAhead>,
    /// Trees for possible outcomes of the round.
    pub outcomes: Vec<Outcome>,
}

/// What was drafted for one outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The node of the verified tree at which the accepted path ends.
    pub node: usize,
    /// The draft's log-probability of the outcome.
    pub log_prob: f32,
    /// The tree for the following round; its root is the token after the path.
    pub tree: Tree,
}

/// How many outcomes get a tree: each takes as long as drafting in turn does.
pub(super) const OUTCOMES: usize = 4;

/// A possible step of the acceptance walk.
pub(super) struct Hypothesis {
    /// The log-probability, from the root on.
    pub(super) score: f32,
    /// The node up to which the tree is right.
    pub(super) node: usize,
    /// The token after it, if no child of the node holds it: then this is an outcome. `None` if
    /// only the node is accepted and its continuation is not decided.
    pub(super) token: Option<u32>,
    /// The draft's row that the token, or the node's own, follows; `None` is the committed text.
    pub(super) row: Option<usize>,
}

/// What may come after `node`, of row `row`, has been accepted: its children, and the draft's other
/// `candidates` after it with their log-probabilities.
pub(super) fn after_accepting<'a>(
    tree: &'a Tree,
    node: usize,
    row: Option<usize>,
    candidates: &'a [(u32, f32)],
) -> impl Iterator<Item = Hypothesis> + 'a {
    let nodes = tree.nodes();
    let accepted =
        move |node: usize| Hypothesis { score: nodes[node].score, node, token: None, row };
    let others = candidates.iter().filter(move |(token, _)| tree.child(node, *token).is_none());
    let other = move |&(token, log_prob): &(u32, f32)| {
        let score = nodes[node].score + log_prob;
        Hypothesis { score, node, token: Some(token), row }
    };
    tree.children(node).map(accepted).chain(others.map(other))
}

/// Takes the likeliest hypothesis; of equal ones, the one found later.
pub(super) fn take_likeliest(hypotheses: &mut Vec<Hypothesis>) -> Option<Hypothesis> {
    let likelier = |&a: &usize, &b: &usize| hypotheses[a].score.total_cmp(&hypotheses[b].score);
    let best = (0..hypotheses.len()).max_by(likelier)?;
    Some(hypotheses.swap_remove(best))
}
