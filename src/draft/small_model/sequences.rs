//! DuoDecoding with a small model: while the target checks the tail, sequences grow after it; the
//! one that the target's token begins is the next tail (see [`crate::speculate::duo`]).

use super::SmallModel;
use crate::draft::scratch_tree::RowMap;
use crate::draft::{Ahead, AheadRequest, DraftError, DraftRequest};
use crate::speculate::Tree;
use crate::speculate::duo::{Adopted, MOST_SEQUENCES, Sequences, SequencesAhead};

/// The rest of the sequence that the root begins, if one was prepared; otherwise only the root.
/// Nothing is run for it, because drafting is done while the target works.
pub(super) fn as_tail(next: Option<Adopted>, request: &DraftRequest) -> Tree {
    let shape = request.budget.shape;
    let room = shape.gamma.saturating_sub(1).min(shape.depth + 1);
    let mut tree = Tree::root(request.root);
    let rest = next.into_iter().flat_map(|next| next.rest).take(room);
    rest.fold(0, |parent, (token, log_prob)| tree.push(parent, token, log_prob));
    tree
}

impl SmallModel {
    /// Continues after the tail of the tree with sequences of γ tokens in all, `fixed` of them or
    /// as many as the draft's confidence suggests. A target that finishes earlier waits: a round
    /// takes as long as the slower of the two, and the budget is chosen so that this is seldom the
    /// draft.
    pub(super) fn go_on(
        &mut self,
        ahead: &AheadRequest<'_>,
        fixed: Option<usize>,
    ) -> Result<Ahead, DraftError> {
        let &AheadRequest { tree, request, grown: told, .. } = ahead;
        let tail = SequencesAhead::tail(tree);
        let so_far = |sequences: &Sequences| {
            let sequences = sequences.so_far().map(<[_]>::to_vec).collect();
            SequencesAhead { tail: tail.clone(), sequences }
        };
        let tell = |sequences: &Sequences| {
            if let Some(told) = told {
                told(Ahead { sequences: Some(so_far(sequences)), ..Ahead::default() });
            }
        };
        self.state.rank_for(MOST_SEQUENCES, request.coupling.as_ref());
        self.state.catch_up()?;
        if !self.state.is_ready() {
            return Ok(Ahead::default());
        }
        let mut end = None;
        for &token in &tail {
            // The tokens of an adopted sequence were run when it was drafted, all except the last.
            let Some(rows) = self.state.extend(&[(end, token)])? else {
                return Ok(Ahead::default());
            };
            end = rows.first().copied();
        }
        let gamma = request.budget.shape.gamma;
        let mut sequences = Sequences::new(gamma, fixed, self.state.after(end));
        tell(&sequences);
        let mut grown = RowMap::below(end);
        while !sequences.beam().is_empty() {
            let candidates = self.state.step(&mut grown, sequences.beam())?;
            sequences.expand(&candidates);
            tell(&sequences);
        }
        tracing::trace!(gamma, k = sequences.count(), rows = sequences.rows(), "drafted ahead");
        self.prepared = Some(so_far(&sequences));
        Ok(Ahead { sequences: self.prepared.clone(), ..Ahead::default() })
    }
}
