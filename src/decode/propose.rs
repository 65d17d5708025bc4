//! A round's tree: who drafts it, within which room, and which of two drafters' trees is verified.
//! Nothing here decides a token.

use super::generation::{Generation, milliseconds};
use super::options::RoundOptions;
use crate::draft::{Budget, DraftRequest, Drafter};
use crate::plan::{Arm, Schedule};
use crate::speculate::{Coupling, Tree, merged};
use std::time::Instant;

/// A round's tree.
pub(super) struct Drafted {
    pub(super) tree: Tree,
    /// `None` for the root alone, for which no drafter was called.
    pub(super) by: Option<DraftedBy>,
    /// The model's own tree, if this tree was merged from it and another drafter's.
    pub(super) model: Option<Tree>,
}

/// Which drafter made the tree, what it was allowed to spend, and what was requested within the
/// available room.
#[derive(Clone, Copy)]
pub(super) struct DraftedBy {
    pub(super) drafter: usize,
    pub(super) budget: Budget,
    schedule: Schedule,
    pub(super) request: DraftRequest,
    /// Whether the tree was drafted ahead, during the previous pass.
    pub(super) was_ahead: bool,
}

impl Drafted {
    /// Only the root.
    fn nothing(root: u32) -> Self {
        Self { tree: Tree::root(root), by: None, model: None }
    }

    /// Its drafter, if that drafts ahead during the target's pass.
    pub(super) fn overlapping(&self) -> Option<DraftedBy> {
        self.by.filter(|by| by.schedule == Schedule::Overlap)
    }
}

impl Generation<'_> {
    /// The round's tree, within the room of context and answer: the first drafter's tree, or the
    /// arm's if that is expected to give more tokens for its time.
    pub(super) fn draft(&mut self, options: &RoundOptions) -> Drafted {
        let start = Instant::now();
        let root = self.engine.text.last().copied().unwrap_or_default();
        let RoundOptions { drafter, budget, schedule, .. } = *options;
        let first = self.propose(options, drafter, budget, schedule);
        let times = options.verify_times.or(options.arm.map(|arm| arm.verify_times));
        let Some(times) = times else { return first.unwrap_or(Drafted::nothing(root)) };
        let paths = first.as_ref().map(|first| first.tree.paths()).unwrap_or_default();
        let spent = milliseconds(start);
        let (nodes, promised) = match options.verify_times {
            Some(times) => times.best_size(paths, spent),
            None => (
                paths.len() + 1,
                times.rate(1.0 + paths.iter().sum::<f64>(), paths.len() + 1, spent),
            ),
        };
        if let Some(arm) = options.arm.filter(|arm| arm.rate > promised) {
            let Arm { drafter, budget, schedule, .. } = arm;
            if let Some(drafted) = self.propose(options, drafter, budget, schedule) {
                return self.merge(options.drafter, first, drafted, &arm, start);
            }
        }
        let Some(Drafted { tree, mut by, model }) = first else { return Drafted::nothing(root) };
        let tree = tree.most_likely(nodes);
        if let (Some(by), Some(_)) = (&mut by, options.verify_times) {
            // γ is the size that the round verifies, not that of the larger tree from which it was
            // chosen.
            by.budget.shape.gamma = tree.len();
        }
        Drafted { tree, by, model }
    }

    /// Merges the arm's tree with what the first drafter proposed as well: the likeliest nodes of
    /// both, as many as the arm may have, or as pay off in a round that was `begun` then.
    fn merge(
        &self,
        first: usize,
        beside: Option<Drafted>,
        drafted: Drafted,
        arm: &Arm,
        begun: Instant,
    ) -> Drafted {
        let Some(mut by) = drafted.by else { return drafted };
        let drafting = &self.engine.drafting;
        // What is drafted ahead continues from the drafter's own tree.
        if by.schedule == Schedule::Overlap || !drafting.merge(first, by.drafter) {
            return drafted;
        }
        let most = by.request.budget.shape.gamma;
        let beside = beside.map_or_else(|| Tree::root(by.request.root), |beside| beside.tree);
        let mut tree = merged(&drafted.tree, &drafting.rates, &beside, most);
        if arm.cut {
            let (nodes, _) = arm.verify_times.best_size(tree.paths(), milliseconds(begun));
            // Without a node nothing would be learned from what was drafted.
            tree = tree.most_likely(nodes.max(2));
            by.budget.shape.gamma = tree.len();
        }
        Drafted { tree, by: Some(by), model: Some(drafted.tree) }
    }

    /// A drafter's tree; `None` if nothing is to be drafted or there is no room for it.
    fn propose(
        &mut self,
        options: &RoundOptions,
        drafter: usize,
        mut budget: Budget,
        schedule: Schedule,
    ) -> Option<Drafted> {
        let committed = self.engine.target.len();
        let root = self.engine.text.last().copied().unwrap_or_default();
        let room = self.engine.target.capacity() - committed;
        // The bonus token is one of the remaining tokens, so the accepted length is at most one
        // less.
        let left = self.answer.max_tokens - self.summary.tokens - 1;
        let mut asked = budget;
        budget.shape.gamma = budget.shape.gamma.min(room);
        if !options.speculate || budget.shape.gamma <= 1 || left == 0 {
            return None;
        }
        let levels = left.min(self.engine.drafting.room(drafter));
        if levels == 0 {
            return None;
        }
        budget.shape.depth = budget.shape.depth.min(levels - 1);
        let vocab = self.engine.target.vocab();
        let sampled = options.coupled && !options.sampler.is_greedy();
        let coupling = sampled.then_some(Coupling { sampler: options.sampler, root: committed });
        let least_path = match options.verify_times {
            Some(times) if drafter == options.drafter => times.least_path(),
            _ => 0.0,
        };
        let arm = options.arm.filter(|arm| arm.drafter == drafter);
        let least_pass = arm.map_or(options.least_pass, |arm| arm.least_pass);
        let request = DraftRequest { root, budget, coupling, least_path, least_pass };
        let drafting = &mut self.engine.drafting;
        let tree = drafting.propose(drafter, &self.engine.text, &request, vocab);
        let was_ahead = drafting.drafter(drafter).is_some_and(Drafter::was_drafted_ahead);
        if least_pass > 0.0 && tree.len() > 1 {
            // It may have ended earlier.
            asked.shape.depth = tree.height() - 1;
        }
        let by = DraftedBy { drafter, budget: asked, schedule, request, was_ahead };
        Some(Drafted { tree, by: Some(by), model: None })
    }
}
