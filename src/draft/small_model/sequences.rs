//! DuoDecoding with a small model: while the target checks the tail, sequences grow after it; the
//! one that the target's token begins is the next tail (see [`crate::speculate::duo`]).

use super::SmallModel;
use crate::draft::draft_state::RowMap;
use crate::draft::{AheadRequest, DraftError, DraftRequest, Grown};
use crate::speculate::Tree;
use crate::speculate::duo::{MOST_SEQUENCES, Sequences, SequencesAhead};

impl SmallModel {
    /// The rest of the sequence that the root begins, if one was prepared; otherwise only the root.
    /// Nothing is run for it, because drafting is done while the target works.
    pub(super) fn adopted(&mut self, request: &DraftRequest) -> Tree {
        let prepared = self.prepared.take();
        let Some(next) = prepared.and_then(|ahead| ahead.adopt(&self.won)) else {
            return Tree::root(request.root);
        };
        let shape = request.budget.shape;
        let room = shape.gamma.saturating_sub(1).min(shape.depth + 1);
        let mut tree = Tree::root(request.root);
        next.tree
            .nodes()
            .iter()
            .skip(1)
            .take(room)
            .fold(0, |parent, node| tree.push(parent, node.token, node.log_prob));
        tree
    }

    /// Continues after the tail of the tree with sequences of γ tokens in all, `fixed` of them or
    /// as many as the draft's confidence suggests. A target that finishes earlier waits: a round
    /// takes as long as the slower of the two, and the budget is chosen so that this is seldom the
    /// draft.
    pub(super) fn go_on(
        &mut self,
        ahead: &AheadRequest<'_>,
        fixed: Option<usize>,
    ) -> Result<(), DraftError> {
        let &AheadRequest { tree, request, grown: told, .. } = ahead;
        let tell = |sequences: &Sequences| {
            if let Some(told) = told {
                told(Grown::Sequences(sequences));
            }
        };
        self.state.rank_for(MOST_SEQUENCES, request.coupling.as_ref());
        self.state.catch_up()?;
        if !self.state.is_ready() {
            return Ok(());
        }
        let tail = SequencesAhead::tail(tree);
        let mut end = None;
        for &token in &tail {
            // The tokens of an adopted sequence were run when it was drafted, all except the last.
            let Some(rows) = self.state.extend(&[(end, token)])? else { return Ok(()) };
            end = rows.first().copied();
        }
        let gamma = request.budget.shape.gamma;
        let mut sequences = Sequences::new(gamma, fixed, self.state.after(end));
        tell(&sequences);
        let mut grown = RowMap::behind(end);
        while !sequences.beam().is_empty() {
            let candidates = self.state.step(&mut grown, sequences.beam())?;
            sequences.expand(&candidates);
            tell(&sequences);
        }
        tracing::trace!(gamma, k = sequences.count(), rows = sequences.rows(), "drafted ahead");
        let last = tail.last().copied().unwrap_or(request.root);
        self.prepared = Some(SequencesAhead::new(tail, sequences.finish(last)));
        self.won.clear();
        Ok(())
    }
}
