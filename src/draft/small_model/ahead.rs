//! Drafting ahead with a small model while the target verifies its tree: behind the likeliest
//! outcomes, each an accepted path and the bonus token after it. The rows stay as scratch rows, so
//! the next tree reuses those of the actual outcome.

use std::sync::atomic::AtomicBool;

use super::{SmallModel, is_set};
use crate::draft::{DraftError, DraftRequest};
use crate::speculate::Tree;

/// Outcomes that trees are grown for: each takes as long as drafting in turn does.
const OUTCOMES: usize = 4;

/// A possible step of the acceptance walk.
struct Hypothesis {
    /// Log-probability, from the root on.
    score: f32,
    /// The node up to which the tree is right.
    node: usize,
    /// The token after it, if it is one that no child holds: that makes an outcome. `None`: how it
    /// goes on behind `node` is not decided.
    token: Option<u32>,
    /// The row that the token (or the node's own) follows; `None` is the text.
    row: Option<usize>,
}

impl SmallModel {
    /// Drafts behind the likeliest outcomes of verifying `tree`, one after the other, until `stop`.
    pub(super) fn draft_outcomes(
        &mut self,
        tree: &Tree,
        request: &DraftRequest,
        stop: &AtomicBool,
    ) -> Result<(), DraftError> {
        let mut hypotheses = self.after_accepting(tree, 0, None);
        let mut grown = 0;
        while grown < OUTCOMES && !is_set(Some(stop)) {
            let likelier =
                |&a: &usize, &b: &usize| hypotheses[a].score.total_cmp(&hypotheses[b].score);
            let Some(best) = (0..hypotheses.len()).max_by(likelier) else { break };
            let Hypothesis { node, token, row, .. } = hypotheses.swap_remove(best);
            let next = token.unwrap_or(tree.nodes()[node].token);
            let rows = self.state.extend(&[(row, next)])?;
            // Without room for a row there is none for what would follow it.
            let Some(row) = rows.and_then(|rows| rows.first().copied()) else { break };
            if token.is_none() {
                hypotheses.extend(self.after_accepting(tree, node, Some(row)));
            } else {
                self.grow(request, Some(row), Some(stop))?;
                grown += 1;
            }
        }
        Ok(())
    }

    /// What may come once `node`, whose row is `row`, is accepted.
    fn after_accepting(&self, tree: &Tree, node: usize, row: Option<usize>) -> Vec<Hypothesis> {
        let nodes = tree.nodes();
        let accepted =
            |node: usize| Hypothesis { score: nodes[node].score, node, token: None, row };
        let others = self.state.after(row).iter();
        let others = others.filter(|&&(token, _)| tree.child(node, token).is_none());
        let other = |&(token, log_prob): &(u32, f32)| {
            let score = nodes[node].score + log_prob;
            Hypothesis { score, node, token: Some(token), row }
        };
        tree.children(node).map(accepted).chain(others.map(other)).collect()
    }
}
