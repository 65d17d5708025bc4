//! The controller of drafters that know how likely their tokens are. It keeps T_V, and each round
//! verifies as much of the tree as pays off. It never decides a token.

use super::choose::Plan;
use super::overrides::{Setting, TreeOverrides};
use super::reason::{GammaReason, Reason};
use super::{RoundObservation, VerifyTimes};
use crate::speculate::{Budget, Shape};

/// The largest tree that is drafted to choose from.
const GAMMA: usize = 48;
/// The most children of a node.
const WIDTH: usize = 6;
/// The weight of a new rate in the displayed one.
const NEAR: f64 = 0.1;

/// Keeps T_V and the results.
#[derive(Clone, Debug)]
pub struct ConfidenceController {
    times: VerifyTimes,
    overrides: TreeOverrides,
    /// Mean number of tokens and nodes in recent rounds.
    tokens: f64,
    nodes: f64,
    rounds: u64,
}

impl ConfidenceController {
    /// Starts from the times of a plan.
    pub fn new(plan: &Plan, overrides: TreeOverrides) -> Self {
        let times = VerifyTimes::of(&plan.costs);
        Self { times, overrides, tokens: 1.0, nodes: 1.0, rounds: 0 }
    }

    /// The largest budget of the next round.
    pub fn budget(&mut self, overrides: &TreeOverrides) -> Budget {
        self.overrides = *overrides;
        self.current().0
    }

    /// T_V for cutting the tree; `None` if the user has fixed γ.
    pub fn verify_times(&self) -> Option<VerifyTimes> {
        (!self.overrides.gamma.is_fixed()).then_some(self.times)
    }

    /// T_V.
    pub(super) fn times(&self) -> &VerifyTimes {
        &self.times
    }

    /// Learns from a round. Returns the factor by which the machine seems to have slowed down
    /// ([`VerifyTimes::learn`]).
    pub fn observe(&mut self, round: &RoundObservation<'_>) -> f64 {
        let slower = self.times.learn(round.tree.len(), round.verify_ms);
        self.times.learn_other(round.other_ms);
        self.tokens += NEAR * (round.accepted.len() as f64 + 1.0 - self.tokens);
        self.nodes += NEAR * (round.tree.len() as f64 - self.nodes);
        self.rounds += 1;
        slower
    }

    pub(super) fn current(&self) -> (Budget, TreeOverrides) {
        let TreeOverrides { gamma, width, depth, .. } = self.overrides;
        let shape = Shape { gamma: gamma.or(GAMMA), width: width.or(WIDTH), depth: depth.or(0) };
        (Budget::new(shape, 0), self.overrides)
    }

    /// The reasons.
    pub fn reasons(&self) -> Vec<Reason> {
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
