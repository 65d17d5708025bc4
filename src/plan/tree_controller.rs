//! The controller of draft trees: it chooses γ, k, D and M of the next round from the measured
//! acceptance and times of earlier rounds.
//!
//! A budget's rate is Ω / (T_D + T_V). The controller moves to the neighbour with the best rate if
//! that is [`MARGIN`] times the current one; after a while without speculation it tries a tree for
//! a few rounds.

use super::acceptance_history::AcceptanceHistory;
use super::choose::Plan;
use super::controller::{Controller, RoundObservation};
use super::overrides::TreeOverrides;
use super::reason::{Basis, Reason};
use super::search_space::{SearchSpace, rate};
use super::{Costs, Prefer, VerifyTimes, reasons};
use crate::speculate::Budget;

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

/// Chooses γ, k, D and M.
#[derive(Clone, Debug)]
pub(super) struct TreeController {
    space: SearchSpace,
    costs: Costs,
    history: AcceptanceHistory,
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
    pub(super) fn new(plan: &Plan, space: SearchSpace) -> Self {
        Self {
            space,
            costs: plan.costs.clone(),
            history: AcceptanceHistory::default(),
            current: plan.budget,
            since: 0,
            plain: 0,
            wait: FIRST_WAIT,
            probe_left: 0,
        }
    }

    fn best(&self) -> (Budget, f64) {
        self.space.best(&self.costs, self.history.omega())
    }

    /// Moves to a better budget next to the current one. If nothing is drafted, or drafting nothing
    /// may be best, it considers all budgets.
    fn decide(&mut self) {
        self.since = 0;
        let (best, promised) = if self.space.always && self.current.shape.gamma > 1 {
            let near = self.space.near(&self.current);
            SearchSpace::best_of(near, &self.costs, self.history.omega())
        } else {
            self.best()
        };
        let expected = rate(&self.costs, &self.current, self.history.omega()(&self.current));
        if best != self.current && promised > expected * MARGIN {
            self.current = best;
            self.plain = 0;
        }
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

    /// Learns T_D and Ω.
    fn learn(&mut self, round: &RoundObservation<'_>) {
        let nodes = round.tree.len();
        // A tree that was requested but not made (speculation off, draft lost) says nothing about
        // its time.
        if let Some(ms) = round.draft_ms
            && (nodes > 1 || round.budget.shape.gamma <= 1)
        {
            self.costs.learn_draft(&round.budget.shape, round.budget.blocks, ms);
        }
        if nodes > 1 {
            self.history.note(&round.budget, round.tree, round.accepted);
        }
    }
}

impl Controller for TreeController {
    fn budget(&mut self, overrides: &TreeOverrides) -> Budget {
        if *overrides != self.space.overrides {
            self.space.overrides = *overrides;
            self.probe_left = 0;
            self.current = self.best().0;
            self.since = 0;
        }
        self.current
    }

    /// Decides again every few rounds.
    fn observe(&mut self, round: &RoundObservation<'_>, times: &VerifyTimes) {
        self.costs.verify = *times;
        self.learn(round);
        self.since += 1;
        self.plain = if self.current.shape.gamma > 1 { 0 } else { self.plain + 1 };
        let may_speculate = self.costs.level.is_some() && !self.space.overrides.gamma.is_fixed();
        if self.probe_left > 0 {
            self.probe_left -= 1;
            if self.probe_left == 0 {
                self.end_probe();
            }
        } else if self.plain >= self.wait && may_speculate {
            self.history.fade(KEPT);
            let trees = SearchSpace { prefer: Prefer::Show, ..self.space };
            self.current = trees.best(&self.costs, self.history.omega()).0;
            self.probe_left = PROBE;
        } else if self.since >= EVERY {
            self.decide();
        }
    }

    /// A pass after these paths must be expected to give as many tokens as rounds like these give
    /// in its time. A tree whose size or depth is given, as by a paper, is drafted as a whole.
    fn least_pass(&self) -> f64 {
        let Budget { shape, blocks, .. } = self.current;
        let TreeOverrides { gamma, depth, .. } = self.space.overrides;
        let whole = shape.width > 1 && (gamma.is_fixed() || depth.is_fixed());
        let Some(level) = self.costs.level.as_ref().filter(|level| !whole && !level.whole) else {
            return 0.0;
        };
        let expected = rate(&self.costs, &self.current, self.history.omega()(&self.current));
        level.at(blocks, shape.width) * expected / 1e3
    }

    fn current(&self) -> (Budget, TreeOverrides) {
        (self.current, self.space.overrides)
    }

    fn reasons(&self) -> Vec<Reason> {
        let basis = Basis::Rounds(self.history.rounds());
        let omega = self.history.omega();
        reasons::explain(&self.current, &self.space, &self.costs, omega, basis)
    }
}
