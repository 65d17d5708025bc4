//! The controller of drafters that know how likely their tokens are: each round verifies as much of
//! the tree as pays off.

use super::choose::Plan;
use super::controller::{Controller, RoundObservation};
use super::overrides::{Setting, TreeOverrides};
use super::reason::{GammaReason, Reason};
use super::verify_times::VerifyTimes;
use crate::speculate::{Budget, Shape};

/// The largest tree that is drafted to choose from.
const GAMMA: usize = 48;
/// The most children of a node.
const WIDTH: usize = 6;
/// The weight of a new rate in the displayed one.
const NEAR: f64 = 0.1;

/// The largest tree to choose from, and recent results for display.
#[derive(Clone, Debug)]
pub(super) struct ConfidenceController {
    pub(super) times: VerifyTimes,
    overrides: TreeOverrides,
    /// Running means of tokens and nodes per round, x̄ += NEAR · (x − x̄).
    tokens: f64,
    nodes: f64,
    rounds: u64,
}

impl ConfidenceController {
    /// Starts from the times of a plan.
    pub(super) fn new(plan: &Plan, overrides: TreeOverrides) -> Self {
        Self { times: plan.costs.verify, overrides, tokens: 1.0, nodes: 1.0, rounds: 0 }
    }
}

impl Controller for ConfidenceController {
    /// The largest budget of the next round.
    fn budget(&mut self, overrides: &TreeOverrides) -> Budget {
        self.overrides = *overrides;
        self.current().0
    }

    /// T_V for cutting the tree; `None` if the user has fixed γ.
    fn verify_times(&self) -> Option<VerifyTimes> {
        match self.overrides.gamma {
            Setting::Fixed(_) => None,
            Setting::Auto => Some(self.times),
        }
    }

    fn observe(&mut self, round: &RoundObservation<'_>, times: &VerifyTimes) {
        self.times = *times;
        self.tokens += NEAR * (round.tokens() - self.tokens);
        self.nodes += NEAR * (round.tree.len() as f64 - self.nodes);
        self.rounds += 1;
    }

    fn current(&self) -> (Budget, TreeOverrides) {
        let TreeOverrides { gamma, width, depth, .. } = self.overrides;
        let shape = Shape { gamma: gamma.or(GAMMA), width: width.or(WIDTH), depth: depth.or(0) };
        (Budget::new(shape, 0), self.overrides)
    }

    fn reasons(&self) -> Vec<Reason> {
        let gamma = match self.overrides.gamma {
            Setting::Fixed(gamma) => Reason::Gamma(gamma, GammaReason::Fixed),
            Setting::Auto => {
                Reason::GammaByTime { one_ms: self.times.at(1), eight_ms: self.times.at(8) }
            }
        };
        let lately = (self.rounds > 0).then_some((self.nodes, self.tokens));
        vec![gamma, Reason::Lately(lately)]
    }
}
