//! The controller of draft trees: it chooses γ, k, D and M of the next round from the measured
//! acceptance and times of earlier rounds.
//!
//! It never decides a token: with any budget, the text is the target's own. Given the same
//! overrides and rounds, it makes the same budgets (it uses no clock and no randomness).

use super::choose::Plan;
use super::overrides::TreeOverrides;
use super::reason::{Basis, Reason};
use super::search_space::{SearchSpace, rate};
use super::{AcceptanceHistories, Costs, DrafterId, Prefer, reasons};
use crate::speculate::{Budget, Tree};

/// How many rounds there are between two decisions.
const EVERY: u64 = 8;
/// The factor of speed that a change must promise over the current budget.
const MARGIN: f64 = 1.05;
/// How many rounds a probe has, which tries speculation again after a period without it.
const PROBE: u64 = 10;
/// How many older rounds of each M a probe is weighed against.
const KEPT: usize = 4;
/// How many plain rounds precede the first probe; each failed probe doubles the wait, up to
/// [`LONGEST_WAIT`].
const FIRST_WAIT: u64 = 48;
const LONGEST_WAIT: u64 = 768;

/// One round, from which a controller learns.
#[derive(Clone, Copy, Debug)]
pub struct RoundObservation<'a> {
    /// What the round was allowed to spend.
    pub budget: Budget,
    /// The tree that was checked.
    pub tree: &'a Tree,
    /// The accepted nodes, starting with the root's child.
    pub accepted: &'a [usize],
    /// T_D in milliseconds; `None` if it included work of earlier rounds.
    pub draft_ms: Option<f64>,
    /// T_V, milliseconds.
    pub verify_ms: f64,
    /// How long the drafter worked at the same time as the target, including the time that the
    /// target waited for it.
    pub overlap_ms: f64,
    /// What else took time in the round: acceptance, commit, text.
    pub other_ms: f64,
    /// Who drafted the tree.
    pub draft: DrafterId,
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
    /// How many rounds there were since the last decision.
    since: u64,
    /// How many plain rounds there were since speculation was last tried.
    plain: u64,
    wait: u64,
    probe_left: u64,
}

impl TreeController {
    /// Starts from the plan, in the space for which it was made.
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

    /// The budget of the next round: fixed values are used unchanged, the others are chosen. Call
    /// it before every round; changed overrides take effect at once.
    pub fn budget(&mut self, overrides: &TreeOverrides) -> Budget {
        if *overrides != self.space.overrides {
            self.space.overrides = *overrides;
            self.probe_left = 0;
            self.current = self.best().0;
            self.since = 0;
        }
        self.current
    }

    /// Learns from a round, speculative or not, and decides again every few rounds.
    pub fn observe(&mut self, round: &RoundObservation<'_>) {
        let nodes = round.tree.len();
        self.costs.learn_verify(nodes, round.verify_ms);
        // A tree that was requested but not made (speculation off, draft lost) says nothing about
        // its time.
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

    /// The current choice and the overrides under which it was made.
    pub(super) fn current(&self) -> (Budget, TreeOverrides) {
        (self.current, self.space.overrides)
    }

    /// The reasons for the current choice.
    pub fn reasons(&self) -> Vec<Reason> {
        let basis = Basis::Rounds(self.histories.rounds());
        let omega = |budget: &Budget| self.histories.omega(budget);
        reasons::explain(&self.current, &self.space, &self.costs, omega, basis)
    }

    /// The expected tokens per second of the current choice.
    pub fn expected(&self) -> f64 {
        rate(&self.costs, &self.current, self.histories.omega(&self.current))
    }

    fn best(&self) -> (Budget, f64) {
        self.space.best(&self.costs, self.histories.omegas())
    }

    /// Moves to a better budget next to the current one. If nothing is drafted, or drafting nothing
    /// may be best, it considers all budgets.
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
