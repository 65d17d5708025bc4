//! Drafting ahead: the next round's trees, while the target verifies this one (`--overlap`).
//!
//! A round ends at some node of its tree with a token that is not a child of that node: this is an
//! outcome. The head estimates the probability of an outcome as that of the node (the product down
//! to it) times that of the token below it. Starting with the likeliest, each outcome gets the tree
//! that would be grown after it, with the head's own outputs instead of the target's features. Its
//! rows are scratch rows after those of the tree itself. Because the rows of a level already are
//! the pairs (own output, token), the tree of an outcome is simply this tree grown further. After
//! the target's pass, the tree of the actual outcome is used unchanged and the rest is dropped; the
//! target's true features are prefilled during its next pass.

use std::sync::atomic::Ordering;

use super::FeatureHead;
use crate::draft::outcome::{Hypothesis, OUTCOMES, after_accepting, take_likeliest};
use crate::draft::scratch_tree::{GrowingTree, RowMap};
use crate::draft::{Ahead, AheadRequest, Budget, DraftRequest, Outcome};
use crate::model::head::HeadError;
use crate::speculate::SamplerSettings;

/// Trees for possible outcomes.
#[derive(Debug)]
pub(super) struct DraftedAhead {
    /// How many pairs were observed before the outcomes.
    pairs: usize,
    budget: Budget,
    coupled: Option<SamplerSettings>,
    outcomes: Vec<GrowingOutcome>,
}

#[derive(Debug)]
struct GrowingOutcome {
    /// The tokens that it commits: accepted tokens, then the next root.
    tokens: Vec<u32>,
    /// The tree below the last of them.
    growing: GrowingTree,
}

impl FeatureHead {
    /// The outcomes for which trees are ready: the tokens that each commits after the last pair.
    pub fn drafted_ahead(&self) -> impl Iterator<Item = &[u32]> {
        let outcomes = self.drafted_ahead.iter().flat_map(|drafted_ahead| &drafted_ahead.outcomes);
        outcomes.map(|outcome| outcome.tokens.as_slice())
    }

    /// Grows trees for the likeliest outcomes of `tree` until it is stopped.
    pub(super) fn draft_outcomes(&mut self, ahead: &AheadRequest<'_>) -> Result<Ahead, HeadError> {
        let &AheadRequest { tree, request, stop, grown: told } = ahead;
        self.settle(request)?;
        let mut drafted = Ahead::default();
        self.drafted_ahead = Some(DraftedAhead {
            pairs: self.tokens.len(),
            budget: request.budget,
            coupled: request.coupling.map(|coupling| coupling.sampler),
            outcomes: Vec::new(),
        });
        let candidates = self.scratch.children(None);
        let mut hypotheses: Vec<Hypothesis> = after_accepting(tree, 0, None, candidates).collect();
        while drafted.outcomes.len() < OUTCOMES && !stop.load(Ordering::Acquire) {
            let Some(likeliest) = take_likeliest(&mut hypotheses) else { break };
            let Hypothesis { node, token, row, score } = likeliest;
            let next = token.unwrap_or(tree.nodes()[node].token);
            let depth = tree.nodes()[node].depth + usize::from(token.is_some());
            let Some(row) = self.run(next, row, request, depth)? else { break };
            let candidates = self.scratch.children(Some(row));
            if token.is_none() {
                hypotheses.extend(after_accepting(tree, node, Some(row), candidates));
                continue;
            }
            let growth = request.growth(candidates);
            let mut growing = GrowingTree { growth, rows: RowMap::below(Some(row)) };
            while !growing.growth.beam().is_empty() && !stop.load(Ordering::Acquire) {
                self.advance(&mut growing, request, depth)?;
            }
            let tokens = [&tree.tokens_to(node)[..], &[next]].concat();
            let grown = growing.growth.clone().finish(next);
            drafted.outcomes.push(Outcome { node, log_prob: score, tree: grown });
            if let Some(drafted_ahead) = &mut self.drafted_ahead {
                drafted_ahead.outcomes.push(GrowingOutcome { tokens, growing });
            }
            if let Some(told) = told {
                told(drafted.clone());
            }
        }
        Ok(drafted)
    }

    /// The tree grown for the actual outcome, if it was drafted ahead under the same request.
    pub(super) fn take_drafted_ahead(&mut self, request: &DraftRequest) -> Option<GrowingTree> {
        let DraftedAhead { pairs, budget, coupled, outcomes } = self.drafted_ahead.take()?;
        let came = self.tokens.get(pairs..)?;
        let asked = request.coupling.map(|coupling| coupling.sampler);
        if budget != request.budget || coupled != asked {
            return None;
        }
        let growing = outcomes.into_iter().find(|outcome| outcome.tokens == came)?.growing;
        // A tree that has hardly begun is better grown again, from the target's own features.
        let well_grown = 2 * growing.growth.levels() > request.budget.shape.depth + 1;
        (well_grown || growing.growth.beam().is_empty()).then_some(growing)
    }

    /// Brings the stable rows up to the last pair, unless they already are.
    fn settle(&mut self, request: &DraftRequest) -> Result<(), HeadError> {
        let blocks = self.blocks_for(request.budget.blocks);
        if self.settled != Some((self.tokens.len(), blocks)) {
            self.plant(request)?;
        }
        Ok(())
    }

    /// The row of `token` at `depth` below `source`, which is run if it has not been; `None` if
    /// there is no room.
    fn run(
        &mut self,
        token: u32,
        source: Option<usize>,
        request: &DraftRequest,
        depth: usize,
    ) -> Result<Option<usize>, HeadError> {
        if let Some(row) = self.scratch.find(token, source) {
            return Ok(Some(row));
        }
        let row = self.scratch.row(token, source);
        let (row, _) = self.step(vec![row], request, depth + 1)?;
        Ok(row)
    }
}
