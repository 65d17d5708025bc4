//! What the controllers of all strategies have in common: each chooses its strategy's budgets round
//! by round. A controller never decides a token: with any budget, the text is the target's own. It
//! has no clock and no randomness, so the same overrides and rounds give the same budgets.

use std::fmt::Debug;

use super::arm::Arm;
use super::auto_controller::AutoController;
use super::choose::Plan;
use super::confidence_controller::ConfidenceController;
use super::duo_controller::DuoController;
use super::learned::Learned;
use super::model_arm::ModelArm;
use super::overrides::{Prefer, TreeOverrides};
use super::reason::Reason;
use super::search_space::SearchSpace;
use super::strategy::{Schedule, Sizing, Strategy};
use super::tree_controller::TreeController;
use super::verify_times::VerifyTimes;
use crate::speculate::{Budget, DrafterId, Method, Tree};

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
    /// How many draft steps that was, one after the other, for sequences.
    pub steps: usize,
    /// What else took time in the round: acceptance, commit, text.
    pub other_ms: f64,
    /// Who drafted the tree.
    pub draft: DrafterId,
    /// Committed positions after the round.
    pub context: usize,
}

impl RoundObservation<'_> {
    /// Committed tokens.
    pub fn tokens(&self) -> f64 {
        self.accepted.len() as f64 + 1.0
    }

    /// The whole round.
    pub fn total_ms(&self) -> f64 {
        self.draft_ms.unwrap_or(0.0) + self.verify_ms + self.other_ms
    }
}

#[cfg(test)]
impl<'a> RoundObservation<'a> {
    /// A round that takes no time.
    pub(super) fn for_tests(budget: Budget, tree: &'a Tree, accepted: &'a [usize]) -> Self {
        Self {
            budget,
            tree,
            accepted,
            draft_ms: None,
            verify_ms: 0.0,
            overlap_ms: 0.0,
            steps: 0,
            other_ms: 0.0,
            draft: DrafterId::None,
            context: 0,
        }
    }
}

/// Chooses the budgets of one strategy.
pub trait Controller: Debug + Send {
    /// The budget of the next round: fixed values are used unchanged, the others are chosen. Call
    /// it before every round; changed overrides take effect at once.
    fn budget(&mut self, overrides: &TreeOverrides) -> Budget;

    /// Learns from a round, speculative or not; `times` is T_V as learned from all rounds up to
    /// this one.
    fn observe(&mut self, round: &RoundObservation<'_>, times: &VerifyTimes);

    /// The current choice, and the overrides under which it was made.
    fn current(&self) -> (Budget, TreeOverrides);

    /// The reasons for the current choice.
    fn reasons(&self) -> Vec<Reason>;

    /// c of DuoDecoding: the time of one pass of the target over that of one draft step.
    fn duo_c(&self) -> Option<f64> {
        None
    }

    /// T_V for cutting the drafted tree, if its size is chosen in that way.
    fn verify_times(&self) -> Option<VerifyTimes> {
        None
    }

    /// The path probability below which nothing is drafted further, because a pass takes longer
    /// than it would save.
    fn least_pass(&self) -> f64 {
        0.0
    }

    /// The model drafter, on this schedule, for rounds in which the first drafter's tree promises
    /// less. Call after [`Self::budget`].
    fn model_arm(&mut self, _overrides: &TreeOverrides, _schedule: Schedule) -> Option<Arm> {
        None
    }

    /// Begins an answer to a prompt with this many positions of context, the first of which are
    /// reused, because they are those of the previous text.
    fn begin_answer(&mut self, _context: usize, _reused: usize) {}

    /// What the next start should know, if anything was learned for it.
    fn learned(&self) -> Option<Learned> {
        None
    }

    /// Continues from what an earlier start has learned.
    fn recall(&mut self, _learned: &Learned) {}
}

impl Strategy {
    /// The strategy's controller. It starts from `plan`, in the space for which that was made;
    /// `auto` also chooses from `models`.
    pub fn controller(
        &self,
        plan: &Plan,
        space: SearchSpace,
        models: Vec<ModelArm>,
    ) -> Box<dyn Controller> {
        let overrides = space.overrides;
        match (self.draft, self.sizing, self.method) {
            (DrafterId::Auto, ..) => {
                let show = space.prefer == Prefer::Show;
                Box::new(AutoController::new(plan, overrides, models, show))
            }
            (_, Sizing::After, _) => Box::new(ConfidenceController::new(plan, overrides)),
            (.., Method::Sequences { .. }) => Box::new(DuoController::new(plan, overrides)),
            (.., Method::Tree | Method::Search) => Box::new(TreeController::new(plan, space)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{
        CostInputs, DraftSize, DuoGammaReason, GammaReason, Measured, Reason, Setting,
        TreeOverrides, choose,
    };

    #[test]
    fn fixed_values_are_used_at_once_and_given_as_reasons() {
        let inputs = CostInputs::for_tests();
        let overrides = TreeOverrides::default();
        let space = SearchSpace::new(overrides, Some(DraftSize::NOTHING));
        let plan = choose(&inputs, &Measured::default(), &space);
        for name in ["pld", "duo", "context", "auto"] {
            let strategy = Strategy::named(name).unwrap();
            let mut controller = strategy.controller(&plan, space, Vec::new());
            let before = controller.current();
            let fixed = TreeOverrides { gamma: Setting::Fixed(5), ..overrides };
            assert_eq!(controller.budget(&fixed).shape.gamma, 5, "{name}");
            assert_ne!(controller.current(), before, "{name}");
            let reasons = controller.reasons();
            let is_fixed = reasons.iter().any(|reason| match reason {
                Reason::Gamma(5, why) => *why == GammaReason::Fixed,
                Reason::DuoGamma { gamma: 5, why, .. } => *why == DuoGammaReason::Fixed,
                _ => false,
            });
            assert!(is_fixed, "{name}: {reasons:?}");
        }
    }
}
