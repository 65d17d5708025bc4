//! Which controller a strategy has. It must never choose a budget.

use super::auto_controller::AutoController;
use super::choose::Plan;
use super::confidence_controller::ConfidenceController;
use super::controller::Controller;
use super::duo_controller::DuoController;
use super::model_arm::ModelArm;
use super::overrides::Prefer;
use super::search_space::SearchSpace;
use super::strategy::{Sizing, Strategy};
use super::tree_controller::TreeController;
use crate::speculate::{DrafterId, Method};

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
    use crate::plan::{CostInputs, GammaReason, Reason, Setting, TreeOverrides, choose};

    #[test]
    fn fixed_values_are_used_at_once_and_given_as_reasons() {
        let inputs = CostInputs::for_tests();
        let overrides = TreeOverrides::default();
        let space =
            SearchSpace { overrides, blocks: Some((0, 0)), prefer: Prefer::Speed, always: false };
        let plan = choose(&inputs, &space);
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
                Reason::DuoGamma { gamma: 5, fixed, .. } => *fixed,
                _ => false,
            });
            assert!(is_fixed, "{name}: {reasons:?}");
        }
    }
}
