//! One planner for every strategy. Each strategy has its own controller with its own T_D and
//! acceptance history, so that it does not learn from another strategy's rounds. Only T_V is
//! learned from the rounds of all strategies, because it is the target's; but apart for those that
//! draft during its passes, which take longer. It must never decide a token.

use super::{Controls, Planner};
use crate::decode::{Round, RoundOptions};
use crate::files::CachedValue;
use crate::load::{LoadReason, Strategies, StrategyController};
use crate::messages;
use crate::overlap::SequencesRecord;
use crate::plan::{DrafterId, RoundObservation, Schedule, Setting, Strategy, TreeOverrides};
use crate::speculate::Budget;

/// The strategies that can run here, and the current one.
#[derive(Debug)]
pub struct StrategyPlanner {
    strategies: Strategies,
    /// The index of the current strategy's controller.
    current: usize,
    /// Whether it drafts during the target's passes.
    overlaps: bool,
    /// Whether no round has been run since switching to the strategy.
    fresh: bool,
    /// The choice for which reasons were last given; `None` if they are to be given again.
    reported: Option<(Budget, TreeOverrides)>,
}

impl StrategyPlanner {
    /// Plans for these strategies, continuing from what was learned earlier. The reasons for the
    /// first choice count as already given.
    pub fn new(strategies: Strategies) -> Self {
        let mut planner =
            Self { strategies, current: 0, overlaps: false, fresh: true, reported: None };
        planner.current = planner.wanted(None);
        let Strategies { controllers, learned, .. } = &mut planner.strategies;
        planner.reported = controllers.get(planner.current).map(|each| each.controller.current());
        if let Some(known) = learned.as_mut().and_then(CachedValue::read) {
            for each in controllers {
                each.controller.recall(&known);
            }
        }
        planner
    }

    /// The index of a strategy's controller. The screen does not offer strategies that cannot run,
    /// and loading refuses them, so the default one is used instead of any other.
    fn wanted(&self, strategy: Option<&'static Strategy>) -> usize {
        let Strategies { controllers, default, .. } = &self.strategies;
        let at = |name| controllers.iter().position(|each| each.strategy.name == name);
        strategy.and_then(|strategy| at(strategy.name)).or_else(|| at(default.name)).unwrap_or(0)
    }
}

impl Planner for StrategyPlanner {
    fn begin_answer(&mut self, context: usize, reused: usize) {
        for each in &mut self.strategies.controllers {
            each.controller.begin_answer(context, reused);
        }
    }

    fn choose(&mut self, controls: &Controls) -> RoundOptions {
        let wanted = self.wanted(controls.strategy);
        if wanted != self.current {
            self.current = wanted;
            self.fresh = true;
            self.reported = None;
        }
        let StrategyController { strategy, drafter, controller, .. } =
            &mut self.strategies.controllers[wanted];
        let overrides = strategy.overrides(&controls.tree);
        let budget = controller.budget(&overrides);
        let schedule = strategy.schedule_with(controls.overlap);
        self.overlaps = schedule == Schedule::Overlap;
        let arm = controller.model_arm(&overrides, schedule);
        RoundOptions {
            budget: Budget { method: strategy.method_with(&controls.tree), ..budget },
            speculate: controls.speculate && drafter.is_some(),
            sampler: controls.sampler,
            drafter: drafter.unwrap_or_default(),
            strategy: strategy.name,
            // The first drafter of `auto` takes no time that could be saved.
            schedule: if strategy.draft == DrafterId::Auto {
                Schedule::Alternate
            } else {
                schedule
            },
            coupled: controls.coupled,
            verify_times: controller.verify_times(),
            // The user's own γ is drafted as a whole.
            least_pass: match controls.tree.gamma {
                Setting::Auto => controller.least_pass(),
                Setting::Fixed(_) => 0.0,
            },
            duo_c: controller.duo_c(),
            arm,
        }
    }

    fn observe(&mut self, round: &Round) {
        // A drafter that was just switched to, or for which the text is new, first reads what it
        // has missed; `auto` accounts for that itself, for each of its drafters.
        let fresh = std::mem::replace(&mut self.fresh, false) || round.index == 0;
        let Strategies { controllers, drafters, times, .. } = &mut self.strategies;
        let controller = &mut controllers[self.current];
        let steady = !fresh || controller.strategy.draft == DrafterId::Auto;
        let draft = round.drafter.and_then(|at| drafters.get(at).copied());
        let observation = RoundObservation {
            budget: round.budget,
            tree: &round.tree,
            accepted: &round.accepted,
            draft_ms: steady.then_some(round.timing.target_idle_ms()),
            verify_ms: round.timing.verify_ms,
            overlap_ms: round.timing.ahead_ms + round.timing.wait_ms,
            steps: round.ahead.as_ref().map_or(0, SequencesRecord::steps),
            other_ms: round.timing.other_ms,
            draft: draft.unwrap_or(DrafterId::None),
            context: round.context,
        };
        let times = &mut times[usize::from(self.overlaps)];
        times.learn(observation.tree.len(), observation.verify_ms, observation.other_ms);
        controller.controller.observe(&observation, times);
    }

    fn answered(&mut self) {
        let Strategies { controllers, learned: file, .. } = &mut self.strategies;
        let learned = controllers[self.current].controller.learned();
        if let (Some(file), Some(learned)) = (file, learned) {
            file.write(learned);
        }
    }

    fn take_new_reasons(&mut self) -> Option<Vec<String>> {
        let StrategyController { controller, preface, .. } =
            &self.strategies.controllers[self.current];
        let now = Some(controller.current());
        if std::mem::replace(&mut self.reported, now) == now {
            return None;
        }
        let reasons = controller.reasons().into_iter().map(LoadReason::Plan);
        let all: Vec<LoadReason> = preface.iter().cloned().chain(reasons).collect();
        Some(messages::load_reasons(&all))
    }

    fn repeat_reasons(&mut self) {
        self.reported = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Timing;
    use crate::model::Traffic;
    use crate::plan::{CostInputs, DraftSize, Measured, SearchSpace, Setting, VerifyTimes, choose};
    use crate::speculate::{Shape, Tree};

    fn controller(name: &str, drafter: Option<usize>) -> StrategyController {
        let strategy = Strategy::named(name).unwrap();
        let drafts = strategy.draft != DrafterId::None;
        let mut inputs = CostInputs::for_tests();
        if !drafts {
            inputs.draft = None;
        }
        let overrides = strategy.overrides(&TreeOverrides::default());
        let space = SearchSpace::new(overrides, drafts.then_some(DraftSize::NOTHING));
        let plan = choose(&inputs, &Measured::default(), &space);
        let preface = vec![LoadReason::Text(name.to_owned())];
        let controller = strategy.controller(&plan, space, Vec::new());
        StrategyController { strategy, drafter, controller, preface }
    }

    #[test]
    fn a_strategy_is_taken_up_with_its_own_size_and_reasons() {
        let controllers = vec![
            controller("plain", None),
            controller("pld", Some(0)),
            controller("lookahead", Some(1)),
        ];
        let drafters = vec![DrafterId::Lookup, DrafterId::Lookahead];
        let pld = Strategy::named("pld").unwrap();
        let times = [VerifyTimes::of(&[(1, 10.0), (64, 40.0)]); 2];
        let strategies = Strategies { controllers, drafters, default: pld, times, learned: None };
        let mut planning = StrategyPlanner::new(strategies);
        let with = |name| Controls { strategy: Strategy::named(name), ..Controls::default() };
        let first = planning.choose(&Controls::default());
        assert_eq!((first.strategy, first.drafter, first.speculate), ("pld", 0, true));
        assert_eq!(planning.take_new_reasons(), None, "the reasons were given while loading");

        let other = planning.choose(&with("lookahead"));
        assert_eq!((other.strategy, other.drafter), ("lookahead", 1));
        assert_eq!(Some(other.budget.shape), Strategy::named("lookahead").unwrap().shape);
        let reasons = planning.take_new_reasons();
        assert_eq!(
            reasons.as_ref().unwrap()[0],
            "Drafts are looked up in lookahead, as you chose."
        );
        assert_eq!(planning.take_new_reasons(), None);
        planning.repeat_reasons();
        assert_eq!(planning.take_new_reasons(), reasons);
        let held = Controls {
            tree: TreeOverrides { gamma: Setting::Fixed(7), ..TreeOverrides::default() },
            ..with("lookahead")
        };
        assert_eq!(planning.choose(&held).budget.shape.gamma, 7);

        let plain = planning.choose(&with("plain"));
        assert_eq!((plain.speculate, plain.budget.shape.gamma), (false, 1));
        let missing = planning.choose(&with("rest"));
        assert_eq!(missing.strategy, "pld", "what cannot run is not taken up");
    }

    /// A round that verified two nodes in `verify_ms`.
    fn round(verify_ms: f64) -> Round {
        let mut tree = Tree::root(0);
        tree.push(0, 1, -0.1);
        Round {
            index: 1,
            tree,
            labels: Vec::new(),
            accepted: Vec::new(),
            bonus: 0,
            bonus_label: String::new(),
            committed: Vec::new(),
            budget: Budget::new(Shape { gamma: 2, width: 1, depth: 0 }, 0),
            strategy: String::new(),
            speculative: true,
            drafter: Some(0),
            drafted_ahead: false,
            ahead: None,
            outcomes: Vec::new(),
            timing: Timing { verify_ms, ..Timing::default() },
            traffic: Traffic::default(),
            context: 10,
            finish: None,
        }
    }

    #[test]
    fn passes_during_which_a_model_drafts_say_nothing_of_passes_alone() {
        let start = VerifyTimes::of(&[(1, 10.0), (64, 40.0)]);
        let mut planning = StrategyPlanner::new(Strategies {
            controllers: vec![controller("small-model", Some(0))],
            drafters: vec![DrafterId::SmallModel],
            default: Strategy::named("small-model").unwrap(),
            times: [start; 2],
            learned: None,
        });
        let mut after = |overlap, verify_ms| {
            planning.choose(&Controls { overlap, ..Controls::default() });
            for _ in 0..20 {
                planning.observe(&round(verify_ms));
            }
            planning.strategies.times
        };
        let [alone, overlapped] = after(true, 40.0);
        assert_eq!(alone, start);
        assert!(overlapped.at(2) > 30.0, "{}", overlapped.at(2));
        let [alone, unchanged] = after(false, 20.0);
        assert!((15.0..25.0).contains(&alone.at(2)), "{}", alone.at(2));
        assert_eq!(unchanged, overlapped);
    }
}
