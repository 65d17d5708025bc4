//! γ for drafting while the target verifies (DuoDecoding): as much as the draft can make in the
//! time of a pass, which is the paper's γ = c. It depends on measured times, which follow the
//! rounds as the context grows; if the user prefers, on the measured acceptance rate too.

use super::choose::Plan;
use super::controller::{Controller, RoundObservation};
use super::overrides::{DuoBudget, GAMMA, TreeOverrides};
use super::reason::{DuoGammaReason, Reason};
use super::verify_times::VerifyTimes;
use crate::speculate::duo::{self, MOST_SEQUENCES};
use crate::speculate::{Budget, Shape};

/// How many rounds there are between two decisions.
const EVERY: u64 = 8;
/// The weight of a deviation in T_d.
const NEAR: f64 = 0.15;
/// The factor by which the weight of older tokens falls with every further token.
const FADE: f64 = 0.98;
/// After how many drafted tokens their acceptance rate is considered known.
const ENOUGH: f64 = 8.0;
/// The acceptance rate assumed before that. The largest budget that is ready in time can be a loss
/// where every checked token costs time, and short answers end before the rounds have shown it.
const EXPECTED: f64 = 0.7;

/// Chooses γ and keeps the times on which it is based.
#[derive(Clone, Debug)]
pub(super) struct DuoController {
    /// T_t.
    times: VerifyTimes,
    /// T_d, milliseconds of one draft step.
    step_ms: f64,
    /// Accepted and verified drafted tokens, with lower weight for older ones. Their ratio is the
    /// acceptance rate, Σ FADEⁱ·rightᵢ / Σ FADEⁱ over the verified tokens, the latest first.
    right: f64,
    checked: f64,
    /// Whether the whole tail was accepted in the previous round.
    held: bool,
    overrides: TreeOverrides,
    gamma: usize,
    rounds: u64,
}

impl DuoController {
    /// Starts from the times of a plan, in which the draft's time is taken as that of one token.
    pub(super) fn new(plan: &Plan, overrides: TreeOverrides) -> Self {
        let step = Shape { gamma: 2, width: 1, depth: 0 };
        let mut controller = Self {
            step_ms: plan.costs.draft_ms(&step, plan.budget.blocks),
            times: plan.costs.verify,
            right: 0.0,
            checked: 0.0,
            held: false,
            overrides,
            gamma: 1,
            rounds: 0,
        };
        controller.decide();
        controller
    }

    /// The acceptance rate, once enough tokens have been verified.
    fn acceptance_rate(&self) -> Option<f64> {
        (self.checked >= ENOUGH).then_some(self.right / self.checked)
    }

    /// c: T_V(1) over T_d.
    fn c(&self) -> f64 {
        self.times.at(1) / self.step_ms.max(f64::MIN_POSITIVE)
    }

    fn decide(&mut self) {
        let budget = match self.overrides.duo_budget {
            DuoBudget::C => duo::paper_budget(self.c()).min(GAMMA.most),
            DuoBudget::Acceptance => {
                let right = self.acceptance_rate().unwrap_or(EXPECTED);
                duo::budget(self.step_ms, |nodes| self.times.at(nodes), right)
            }
        };
        self.gamma = self.overrides.gamma.or(budget);
    }

    /// Learns T_d from what was drafted during a pass.
    fn learn_step(&mut self, round: &RoundObservation<'_>) {
        if round.overlap_ms > 0.0 && round.steps > 1 && round.draft_ms.is_some() {
            let step_ms = round.overlap_ms / round.steps as f64;
            let off = step_ms / self.step_ms.max(f64::MIN_POSITIVE) - 1.0;
            // It is bounded, because one stalled round must not overturn it.
            self.step_ms *= 1.0 + NEAR * off.clamp(-0.5, 1.0);
        }
    }

    /// Learns the acceptance rate.
    fn learn_acceptance(&mut self, round: &RoundObservation<'_>) {
        let nodes = round.tree.len();
        // The root of a tail is a drafted token too, which the target also chose.
        let right = round.accepted.len() + usize::from(nodes > 1);
        let wrong = round.accepted.len() + 1 < nodes || (nodes == 1 && self.held);
        for right in std::iter::repeat_n(1.0, right).chain(wrong.then_some(0.0)) {
            self.right = self.right * FADE + right;
            self.checked = self.checked * FADE + 1.0;
        }
        self.held = round.accepted.len() + 1 == nodes && round.overlap_ms > 0.0;
    }
}

impl Controller for DuoController {
    /// The budget of the next round: γ tokens in sequences. Their width is k, or its maximum; their
    /// depth has room for a single sequence.
    fn budget(&mut self, overrides: &TreeOverrides) -> Budget {
        if *overrides != self.overrides {
            self.overrides = *overrides;
            self.decide();
        }
        self.current().0
    }

    fn observe(&mut self, round: &RoundObservation<'_>, times: &VerifyTimes) {
        self.times = *times;
        self.learn_step(round);
        self.learn_acceptance(round);
        self.rounds += 1;
        if self.rounds.is_multiple_of(EVERY) {
            self.decide();
        }
    }

    fn current(&self) -> (Budget, TreeOverrides) {
        let gamma = self.gamma;
        let width = self.overrides.width.or(MOST_SEQUENCES);
        let depth = self.overrides.depth.or(gamma.saturating_sub(2));
        (Budget::new(Shape { gamma, width, depth }, 0), self.overrides)
    }

    fn duo_c(&self) -> Option<f64> {
        Some(self.c())
    }

    fn reasons(&self) -> Vec<Reason> {
        let gamma = self.gamma;
        let why = match self.overrides.duo_budget {
            _ if self.overrides.gamma.is_fixed() => DuoGammaReason::Fixed,
            DuoBudget::C => DuoGammaReason::C,
            DuoBudget::Acceptance => DuoGammaReason::Acceptance,
        };
        let gamma = Reason::DuoGamma {
            gamma,
            why,
            step_ms: self.step_ms,
            pass_ms: self.times.at(1),
            verify_ms: self.times.at(gamma),
        };
        let sequences = Reason::DuoSequences(self.overrides.width.fixed());
        vec![gamma, sequences, Reason::Acceptance(self.acceptance_rate())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{
        CostInputs, DraftSize, LevelCost, Measured, SearchSpace, Setting, Strategy, choose,
    };
    use crate::speculate::Tree;

    /// A target with 10 ms per pass, a tenth more for each node, and a draft with `step` ms per
    /// token.
    fn plan(step: f64) -> Plan {
        let space = SearchSpace::new(TreeOverrides::default(), Some(DraftSize::NOTHING));
        let verify = [1, 4, 8, 16, 32, 64].map(|g| (g, 9.9 + 0.1 * g as f64)).to_vec();
        let level = LevelCost { blocks: [0, 0], widths: [1, 10], ms: [[step; 2]; 2], whole: false };
        let found = Measured { verify, level: Some(level) };
        choose(&CostInputs::for_tests(), &found, &space)
    }

    fn chain(tokens: usize) -> Tree {
        let mut tree = Tree::root(1);
        (1..tokens).fold(0, |parent, token| tree.push(parent, token as u32, -0.5));
        tree
    }

    /// Rounds in which `right` of 8 tokens are right, with these times.
    fn rounds(controller: &mut DuoController, count: usize, right: usize, step: f64, pass: f64) {
        let mut next = 1;
        for i in 0..count {
            let overrides = controller.overrides;
            let budget = controller.budget(&overrides);
            let tree = chain(next);
            let accepted: Vec<usize> =
                (1..tree.len()).take_while(|j| (i + j) % 8 < right).collect();
            let all = accepted.len() + 1 == tree.len() && i % 8 < right;
            let gamma = budget.shape.gamma;
            next = if all { gamma } else { 1 };
            let verify_ms = pass + 0.1 * tree.len() as f64;
            let round = RoundObservation {
                draft_ms: Some(0.0),
                verify_ms,
                overlap_ms: step * gamma as f64,
                steps: gamma,
                ..RoundObservation::for_tests(budget, &tree, &accepted)
            };
            let mut times = controller.times;
            times.learn(round.tree.len(), round.verify_ms, 0.0);
            controller.observe(&round, &times);
        }
    }

    /// The budget by the acceptance rate.
    fn by_acceptance() -> TreeOverrides {
        TreeOverrides { duo_budget: DuoBudget::Acceptance, ..TreeOverrides::default() }
    }

    #[test]
    fn the_budget_is_c_unless_the_user_prefers_another_rule() {
        // One pass of 10 ms and one step of 0.45: 22 is not among the budgets of the other rule.
        let space = SearchSpace::new(TreeOverrides::default(), Some(DraftSize::NOTHING));
        let duo = Strategy::named("duo").unwrap();
        let by_default = duo.controller(&plan(0.45), space, Vec::new());
        assert_eq!(by_default.current().0.shape.gamma, 22);
        let mut controller = DuoController::new(&plan(0.45), TreeOverrides::default());
        assert!((controller.duo_c().unwrap() - 10.0 / 0.45).abs() < 1e-9);
        let Reason::DuoGamma { gamma: 22, why: DuoGammaReason::C, step_ms, pass_ms, .. } =
            controller.reasons()[0]
        else {
            panic!("{:?}", controller.reasons());
        };
        assert_eq!((step_ms, pass_ms), (0.45, 10.0));
        rounds(&mut controller, 200, 2, 0.9, 9.9);
        let gamma = controller.gamma;
        assert_eq!(gamma, controller.c() as usize);
        assert!((10..=12).contains(&gamma), "{gamma}");
        assert!(controller.budget(&by_acceptance()).shape.gamma < gamma);
        assert_eq!(controller.budget(&TreeOverrides::default()).shape.gamma, gamma);
    }

    #[test]
    fn by_acceptance_it_is_drafted_in_the_time_of_a_pass_and_no_larger_than_it_pays() {
        let gamma = |step| DuoController::new(&plan(step), by_acceptance()).gamma;
        assert_eq!(gamma(0.5), 12);
        assert_eq!(gamma(0.9), 8);
        assert_eq!(gamma(0.01), 12);
        // A draft that is as slow as its target still has to guess two tokens ahead.
        assert_eq!(gamma(20.0), 4);
    }

    #[test]
    fn it_follows_the_times_as_they_drift() {
        let mut controller = DuoController::new(&plan(0.5), TreeOverrides::default());
        // The draft turns out slower while the target runs.
        rounds(&mut controller, 200, 7, 1.5, 9.9);
        assert!((controller.step_ms - 1.5).abs() < 0.05, "{}", controller.step_ms);
        let slow = controller.gamma;
        assert!(slow <= 6, "{slow}");
        // The context grows, and so does the target's time.
        rounds(&mut controller, 400, 7, 1.5, 60.0);
        assert!(controller.gamma > slow, "{} after {slow}", controller.gamma);
    }

    #[test]
    fn it_learns_the_acceptance_rate() {
        let share = |right| {
            let mut controller = DuoController::new(&plan(0.5), TreeOverrides::default());
            rounds(&mut controller, 300, right, 0.5, 9.9);
            controller.acceptance_rate().unwrap()
        };
        assert_eq!(share(8), 1.0);
        assert_eq!(share(0), 0.0);
        assert!(share(7) > share(4) && share(4) > share(2));
    }

    #[test]
    fn fixed_values_are_kept_and_named() {
        let fixed = TreeOverrides {
            gamma: Setting::Fixed(20),
            width: Setting::Fixed(3),
            depth: Setting::Fixed(5),
            ..TreeOverrides::default()
        };
        let mut controller = DuoController::new(&plan(0.5), TreeOverrides::default());
        let shape = controller.budget(&fixed).shape;
        assert_eq!(shape, Shape { gamma: 20, width: 3, depth: 5 });
        rounds(&mut controller, 50, 2, 0.5, 9.9);
        assert_eq!(controller.budget(&fixed).shape, shape);
        let reasons = controller.reasons();
        assert!(
            matches!(reasons[0], Reason::DuoGamma { gamma: 20, why, step_ms, .. }
                if why == DuoGammaReason::Fixed && (step_ms - 0.5).abs() < 0.01),
            "{reasons:?}"
        );
        assert_eq!(reasons[1], Reason::DuoSequences(Some(3)));
        let free = controller.budget(&TreeOverrides::default()).shape;
        assert_eq!((free.width, free.depth), (MOST_SEQUENCES, free.gamma - 2));
    }
}
