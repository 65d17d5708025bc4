//! Chooses a strategy's budgets round by round, for every way of drafting, and decides when to give
//! the user new reasons. It never decides a token. It must never read a clock.

use super::DrafterId;
use super::auto_controller::{AutoController, RivalPlan};
use super::choose::Plan;
use super::confidence_controller::ConfidenceController;
use super::controller::{RoundObservation, TreeController};
use super::duo_controller::DuoController;
use super::model_arm::ModelArm;
use super::overrides::TreeOverrides;
use super::reason::Reason;
use super::search_space::SearchSpace;
use super::strategy::{Sizing, Strategy};
use super::verify_times::VerifyTimes;
use super::{Learned, Prefer};
use crate::speculate::{Budget, Method};

/// The controller of one strategy.
#[derive(Clone, Debug)]
pub struct BudgetController {
    rule: Rule,
    /// The choice for which reasons were last given.
    reported: Option<(Budget, TreeOverrides)>,
}

/// How budgets are chosen.
#[derive(Clone, Debug)]
enum Rule {
    /// Trees drafted before each pass.
    Tree(TreeController),
    /// Sequences drafted during each pass.
    Duo(DuoController),
    /// Trees cut to what pays off.
    Confidence(ConfidenceController),
    /// Whichever drafter pays best.
    Auto(Box<AutoController>),
}

impl BudgetController {
    /// Starts from `plan`, in the space for which it was made. Its reasons count as already given.
    pub fn new(strategy: &Strategy, plan: &Plan, space: SearchSpace) -> Self {
        let rule = match (strategy.sizing, strategy.method) {
            _ if strategy.draft == DrafterId::Auto => {
                let show = space.prefer == Prefer::Show;
                Rule::Auto(Box::new(AutoController::new(plan, space.overrides, show)))
            }
            (Sizing::After, _) => {
                Rule::Confidence(ConfidenceController::new(plan, space.overrides))
            }
            (_, Method::Sequences { .. }) => Rule::Duo(DuoController::new(plan, space.overrides)),
            (_, Method::Tree | Method::Search) => Rule::Tree(TreeController::new(plan, space)),
        };
        let mut controller = Self { rule, reported: None };
        controller.reported = Some(controller.current());
        controller
    }

    /// The budget of the next round: fixed values are used unchanged, the others are chosen. Call
    /// it before every round; changed overrides take effect at once.
    pub fn budget(&mut self, overrides: &TreeOverrides) -> Budget {
        match &mut self.rule {
            Rule::Tree(controller) => controller.budget(overrides),
            Rule::Duo(controller) => controller.budget(overrides),
            Rule::Confidence(controller) => controller.budget(overrides),
            Rule::Auto(controller) => controller.budget(overrides),
        }
    }

    /// T_V for cutting the drafted tree, if its size is chosen in that way.
    pub fn verify_times(&self) -> Option<VerifyTimes> {
        match &self.rule {
            Rule::Confidence(controller) => controller.verify_times(),
            Rule::Auto(controller) => controller.verify_times(),
            Rule::Tree(_) | Rule::Duo(_) => None,
        }
    }

    /// Lets `auto` also choose a model drafter, whose plan was made in `space`.
    pub fn with_model(&mut self, kind: DrafterId, plan: &Plan, space: SearchSpace) {
        if let Rule::Auto(controller) = &mut self.rule {
            controller.with_model(ModelArm::new(kind, plan, space));
            self.reported = Some(self.current());
        }
    }

    /// The model drafter for rounds in which the first one promises less. Call after
    /// [`Self::budget`].
    pub fn rival(&mut self, overrides: &TreeOverrides) -> Option<RivalPlan> {
        match &mut self.rule {
            Rule::Auto(controller) => controller.rival(overrides),
            Rule::Tree(_) | Rule::Duo(_) | Rule::Confidence(_) => None,
        }
    }

    /// What the next start should know, if anything was learned for it.
    pub fn learned(&self) -> Option<Learned> {
        match &self.rule {
            Rule::Auto(controller) => Some(controller.learned()),
            Rule::Tree(_) | Rule::Duo(_) | Rule::Confidence(_) => None,
        }
    }

    /// Continues from what an earlier start has learned.
    pub fn recall(&mut self, learned: &Learned) {
        if let Rule::Auto(controller) = &mut self.rule {
            controller.recall(learned);
        }
    }

    /// Begins an answer to a prompt of `context` positions, the first `reused` of which are those
    /// of the previous text.
    pub fn begin_answer(&mut self, context: usize, reused: usize) {
        match &mut self.rule {
            Rule::Auto(controller) => controller.begin_answer(context, reused),
            Rule::Tree(_) | Rule::Duo(_) | Rule::Confidence(_) => {}
        }
    }

    /// Learns from a round, speculative or not.
    pub fn observe(&mut self, round: &RoundObservation<'_>) {
        match &mut self.rule {
            Rule::Tree(controller) => controller.observe(round),
            Rule::Duo(controller) => controller.observe(round),
            Rule::Confidence(controller) => {
                controller.observe(round);
            }
            Rule::Auto(controller) => controller.observe(round),
        }
    }

    /// The reasons for the current choice.
    pub fn reasons(&self) -> Vec<Reason> {
        match &self.rule {
            Rule::Tree(controller) => controller.reasons(),
            Rule::Duo(controller) => controller.reasons(),
            Rule::Confidence(controller) => controller.reasons(),
            Rule::Auto(controller) => controller.reasons(),
        }
    }

    /// [`Self::reasons`], if the choice is another than when last asked.
    pub fn take_new_reasons(&mut self) -> Option<Vec<Reason>> {
        let now = Some(self.current());
        if std::mem::replace(&mut self.reported, now) == now {
            return None;
        }
        Some(self.reasons())
    }

    /// Makes the next [`Self::take_new_reasons`] return the reasons, changed or not.
    pub fn repeat_reasons(&mut self) {
        self.reported = None;
    }

    /// The current choice, and the overrides under which it was made.
    pub fn current(&self) -> (Budget, TreeOverrides) {
        match &self.rule {
            Rule::Tree(controller) => controller.current(),
            Rule::Duo(controller) => controller.current(),
            Rule::Confidence(controller) => controller.current(),
            Rule::Auto(controller) => controller.current(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{CostInputs, GammaReason, Prefer, Setting, choose};

    #[test]
    fn reasons_are_given_once_for_each_choice() {
        let inputs = CostInputs::for_tests();
        let overrides = TreeOverrides::default();
        let space =
            SearchSpace { overrides, blocks: Some((0, 0)), prefer: Prefer::Speed, always: false };
        let plan = choose(&inputs, &space);
        for strategy in ["pld", "duo", "context"].map(|name| Strategy::named(name).unwrap()) {
            let mut controller = BudgetController::new(strategy, &plan, space);
            assert_eq!(controller.take_new_reasons(), None, "they were given with the plan");
            let fixed = TreeOverrides { gamma: Setting::Fixed(5), ..overrides };
            assert_eq!(controller.budget(&fixed).shape.gamma, 5);
            let reasons = controller.take_new_reasons().unwrap();
            let fixed = match reasons[0] {
                Reason::Gamma(5, GammaReason::Fixed) => true,
                Reason::DuoGamma { gamma: 5, fixed, .. } => fixed,
                _ => false,
            };
            assert!(fixed, "{reasons:?}");
            assert_eq!(controller.take_new_reasons(), None, "nothing has changed since");
            controller.repeat_reasons();
            assert_eq!(controller.take_new_reasons(), Some(reasons));
        }
    }
}
