//! Drafting ahead with a small model while the target verifies its tree: it drafts after the
//! likeliest outcomes, each an accepted path with the bonus token after it. The rows stay as
//! scratch rows, so the next tree reuses those of the actual outcome.

use super::SmallModel;
use crate::draft::outcome::{Hypothesis, OUTCOMES, after_accepting, take_likeliest};
use crate::draft::{Ahead, AheadRequest, DraftError, Outcome, is_set};

impl SmallModel {
    /// Drafts after the likeliest outcomes of verifying `tree`, one after the other, until `stop`.
    pub(super) fn draft_outcomes(&mut self, ahead: &AheadRequest<'_>) -> Result<Ahead, DraftError> {
        let &AheadRequest { tree, request, stop, grown: told } = ahead;
        let mut hypotheses: Vec<Hypothesis> =
            after_accepting(tree, 0, None, self.state.after(None)).collect();
        let mut drafted = Ahead::default();
        while drafted.outcomes.len() < OUTCOMES && !is_set(Some(stop)) {
            let Some(likeliest) = take_likeliest(&mut hypotheses) else { break };
            let Hypothesis { node, token, row, score } = likeliest;
            let next = token.unwrap_or(tree.nodes()[node].token);
            let rows = self.state.extend(&[(row, next)])?;
            // If there is no room for a row, there is none for the rows after it.
            let Some(row) = rows.and_then(|rows| rows.first().copied()) else { break };
            if token.is_none() {
                let candidates = self.state.after(Some(row));
                hypotheses.extend(after_accepting(tree, node, Some(row), candidates));
            } else {
                let tree = self.grow(request, Some(row), Some(stop))?.finish(next);
                drafted.outcomes.push(Outcome { node, log_prob: score, tree });
                if let Some(told) = told {
                    told(drafted.clone());
                }
            }
        }
        Ok(drafted)
    }
}
