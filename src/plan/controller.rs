//! The controller of draft trees: γ, k, D and M of the next round from the measured acceptance and
//! times of those before.
//!
//! It never decides a token: whatever it budgets, the text is the target's own. Given the same
//! overrides and rounds it makes the same budgets (no clock, no chance).

use super::choose::Plan;
use super::overrides::TreeOverrides;
use super::search_space::{SearchSpace, rate};
use super::{AcceptanceHistories, Costs, DraftKind, Prefer, reasons};
use crate::speculate::{Budget, Tree};

/// Rounds between two decisions.
const EVERY: u64 = 8;
/// A change must promise this much more speed than what is in use.
const MARGIN: f64 = 1.05;
/// Rounds of a probe, which tries speculation again after a stretch without it.
const PROBE: u64 = 10;
/// Older rounds of each M that a probe is weighed against.
const KEPT: usize = 4;
/// Plain rounds before the first probe; each probe that fails doubles the wait, to at most
/// [`LONGEST_WAIT`].
const FIRST_WAIT: u64 = 48;
const LONGEST_WAIT: u64 = 768;

/// What a controller learns from: one round.
#[derive(Clone, Copy, Debug)]
pub struct RoundObservation<'a> {
    /// What the round was allowed to spend.
    pub budget: Budget,
    /// The tree that was checked.
    pub tree: &'a Tree,
    /// Accepted nodes, root's child first.
    pub accepted: &'a [usize],
    /// T_D, milliseconds; `None` where it held work of earlier rounds too.
    pub draft_ms: Option<f64>,
    /// T_V, milliseconds.
    pub verify_ms: f64,
    /// How long the drafter worked beside the target, the target's wait for it included.
    pub overlap_ms: f64,
    /// What else the round took: acceptance, commit, text.
    pub other_ms: f64,
    /// Who drafted the tree.
    pub draft: DraftKind,
    /// Committed positions after the round.
    pub context: usize,
}

impl RoundObservation<'_> {
    /// The whole round.
    pub fn total_ms(&self) -> f64 {
        self.draft_ms.unwrap_or(0.0) + self.verify_ms + self.other_ms
    }
}

/// Chooses γ, M, width and depth round by round, as far as they are automatic.
#[derive(Clone, Debug)]
pub struct TreeController {
    space: SearchSpace,
    costs: Costs,
    histories: AcceptanceHistories,
    current: Budget,
    /// Rounds seen since the last decision.
    since: u64,
    /// Plain rounds since speculation was last tried.
    plain: u64,
    wait: u64,
    probe_left: u64,
}

impl TreeController {
    /// Starts from the plan, in the space it was made for.
    pub fn new(plan: &Plan, space: SearchSpace) -> Self {
        Self {
            space,
            costs: plan.costs.clone(),
            histories: AcceptanceHistories::default(),
            current: plan.budget,
            since: 0,
            plain: 0,
            wait: FIRST_WAIT,
            probe_left: 0,
        }
    }

    /// What the next round may spend: fixed values as they are, the rest as it is best. Call before
    /// every round; changed overrides act at once.
    pub fn budget(&mut self, overrides: &TreeOverrides) -> Budget {
        if *overrides != self.space.overrides {
            self.space.overrides = *overrides;
            self.probe_left = 0;
            self.current = self.best().0;
            self.since = 0;
        }
        self.current
    }

    /// Learns from a round, speculative or not, and decides anew now and then.
    pub fn observe(&mut self, round: &RoundObservation<'_>) {
        let nodes = round.tree.len();
        self.costs.learn_verify(nodes, round.verify_ms);
        // A tree that was asked for and not made (speculation off, draft lost) says nothing of it.
        if let Some(ms) = round.draft_ms
            && (nodes > 1 || round.budget.shape.gamma <= 1)
        {
            self.costs.learn_draft(&round.budget.shape, round.budget.blocks, ms);
        }
        if nodes > 1 {
            self.histories.note(&round.budget, round.tree, round.accepted);
        }
        self.since += 1;
        if self.current.shape.gamma > 1 {
            self.plain = 0;
        } else {
            self.plain += 1;
        }
        if self.probe_left > 0 {
            self.probe_left -= 1;
            if self.probe_left == 0 {
                self.end_probe();
            }
        } else if self.plain >= self.wait && self.may_speculate() {
            self.histories.fade(KEPT);
            self.current = self.best_tree();
            self.probe_left = PROBE;
        } else if self.since >= EVERY {
            self.decide();
        }
    }

    /// The choice in force and what it was made under.
    pub(super) fn current(&self) -> (Budget, TreeOverrides) {
        (self.current, self.space.overrides)
    }

    /// Why the current choice, one sentence a line.
    pub fn reasons(&self) -> Vec<String> {
        let rounds = self.histories.rounds();
        let basis = match rounds {
            0 => "No round with a tree has been seen yet.".to_owned(),
            1 => "Learned from the last round with a tree.".to_owned(),
            n => format!("Learned from the last {n} rounds with a tree."),
        };
        reasons::explain(
            &self.current,
            &self.space,
            &self.costs,
            |p| self.histories.omega(p),
            &basis,
        )
    }

    /// Tokens per second expected of the current choice.
    pub fn expected(&self) -> f64 {
        rate(&self.costs, &self.current, self.histories.omega(&self.current))
    }

    fn best(&self) -> (Budget, f64) {
        self.space.best(&self.costs, self.histories.omegas())
    }

    /// Steps to a better budget next to the current one; where nothing is drafted, or nothing might
    /// be, all are looked at.
    fn decide(&mut self) {
        self.since = 0;
        let (best, promised) = if self.space.always && self.current.shape.gamma > 1 {
            let near = self.space.near(&self.current);
            SearchSpace::best_of(near, &self.costs, self.histories.omegas())
        } else {
            self.best()
        };
        if best != self.current && promised > self.expected() * MARGIN {
            self.current = best;
            self.plain = 0;
        }
    }

    fn may_speculate(&self) -> bool {
        self.costs.can_draft() && !self.space.overrides.gamma.is_fixed()
    }

    /// The best budget that has a tree.
    fn best_tree(&self) -> Budget {
        let trees = SearchSpace { prefer: Prefer::Show, ..self.space };
        trees.best(&self.costs, self.histories.omegas()).0
    }

    fn end_probe(&mut self) {
        self.current = self.best().0;
        self.since = 0;
        self.plain = 0;
        self.wait = if self.current.shape.gamma > 1 {
            FIRST_WAIT
        } else {
            (self.wait * 2).min(LONGEST_WAIT)
        };
    }
}
