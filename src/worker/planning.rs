//! One planner for every strategy: each has its own controller, with costs and ledgers of its own,
//! so that what is learned of one says nothing wrong of another.

use super::{Chosen, Controls, Planner};
use crate::decode::Round;
use crate::draft::Budget;
use crate::plan::{Controller, Pacing, Pick, Seen, Strategy, Wishes};

/// A strategy that can run here.
#[derive(Clone, Debug)]
pub struct Stand {
    /// The row of the table.
    pub strategy: &'static Strategy,
    /// Its drafter's place in the engine; `None` for the target alone.
    pub drafter: Option<usize>,
    /// Chooses its trees.
    pub controller: Controller,
    /// Chooses its budget instead, where it drafts sequences while the target checks.
    pub pacing: Option<Pacing>,
}

impl Stand {
    fn pick(&mut self, wishes: &Wishes) -> Pick {
        match &mut self.pacing {
            Some(pacing) => pacing.pick(wishes),
            None => self.controller.pick(wishes),
        }
    }

    fn observe(&mut self, seen: &Seen<'_>, beside_ms: f64) {
        match &mut self.pacing {
            Some(pacing) => pacing.observe(seen, beside_ms),
            None => self.controller.observe(seen),
        }
    }

    fn tell_again(&mut self) {
        match &mut self.pacing {
            Some(pacing) => pacing.tell_again(),
            None => self.controller.tell_again(),
        }
    }

    fn news(&mut self) -> Option<Vec<String>> {
        match &mut self.pacing {
            Some(pacing) => pacing.news(),
            None => self.controller.news(),
        }
    }
}

/// The strategies that can run here and which of them is in use.
#[derive(Clone, Debug)]
pub struct Planning {
    stands: Vec<Stand>,
    /// Used when none is asked for.
    default: usize,
    current: usize,
    /// Whether the strategy in use has just been taken up.
    fresh: bool,
}

impl Planning {
    /// Plans for `stands`, of which `default` is used when none is asked for. There must be one.
    pub fn new(stands: Vec<Stand>, default: &'static Strategy) -> Self {
        let at = |stand: &Stand| stand.strategy.name == default.name;
        let default = stands.iter().position(at).unwrap_or(0);
        Self { stands, default, current: default, fresh: true }
    }

    fn wanted(&self, strategy: Option<&'static Strategy>) -> usize {
        let Some(strategy) = strategy else { return self.default };
        // The screen offers none that is missing, and loading refuses it.
        let at = self.stands.iter().position(|stand| stand.strategy.name == strategy.name);
        at.unwrap_or(self.default)
    }
}

impl Planner for Planning {
    fn choose(&mut self, controls: &Controls) -> Chosen {
        let wanted = self.wanted(controls.strategy);
        if wanted != self.current {
            self.current = wanted;
            self.fresh = true;
            self.stands[wanted].tell_again();
        }
        let stand = &mut self.stands[wanted];
        let &Controls { gamma, blocks, width, depth, .. } = controls;
        let user = Wishes { gamma, blocks, width, depth };
        let strategy = stand.strategy;
        let Pick { shape, blocks } = stand.pick(&strategy.wishes(&user));
        let budget = Budget { shape, blocks, method: strategy.method_with(&user) };
        Chosen { strategy, drafter: stand.drafter, budget }
    }

    fn observe(&mut self, round: &Round) {
        // Whoever has just been taken up has first to read what it missed.
        let steady = !std::mem::replace(&mut self.fresh, false);
        let seen = Seen {
            pick: Pick { shape: round.budget.shape, blocks: round.budget.blocks },
            tree: &round.tree,
            accepted: &round.accepted,
            draft_ms: steady.then_some(round.timing.target_idle_ms()),
            verify_ms: round.timing.verify_ms,
        };
        let timing = round.timing;
        self.stands[self.current].observe(&seen, timing.ahead_ms + timing.wait_ms);
    }

    fn news(&mut self) -> Option<Vec<String>> {
        self.stands[self.current].news()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Choice, DraftKind, DraftSize, Facts, Power, Prefer, Space, TargetSize};
    use crate::plan::{choose, correct};

    fn stand(name: &str, drafter: Option<usize>) -> Stand {
        let strategy = Strategy::named(name).unwrap();
        let power = Power { multiply_adds: 1e10, bandwidth: 1e10, overhead: 1e-6 };
        let drafts = strategy.draft != DraftKind::None;
        let target = TargetSize { weights: 1_000_000, bytes: 2_000_000, layers: 4 };
        let draft = drafts.then_some((DraftSize::NOTHING, power));
        let facts = Facts { verifier: power, target, draft };
        let space = Space {
            wishes: strategy.wishes(&Wishes::default()),
            blocks: drafts.then_some((0, 0)),
            prefer: Prefer::Speed,
        };
        let plan = correct(choose(&facts, &space), &Default::default(), &space);
        let controller = Controller::new(&plan, space, vec![format!("{name} it is.")]);
        Stand { strategy, drafter, controller, pacing: None }
    }

    #[test]
    fn a_strategy_is_taken_up_with_its_own_size_and_reasons() {
        let stands = vec![stand("plain", None), stand("pld", Some(0)), stand("lookahead", Some(1))];
        let mut planning = Planning::new(stands, Strategy::named("pld").unwrap());
        let with = |name| Controls { strategy: Strategy::named(name), ..Controls::default() };
        let first = planning.choose(&Controls::default());
        assert_eq!((first.strategy.name, first.drafter), ("pld", Some(0)));
        assert_eq!(planning.news(), None, "the reasons were given while loading");

        let other = planning.choose(&with("lookahead"));
        assert_eq!((other.strategy.name, other.drafter), ("lookahead", Some(1)));
        assert_eq!(Some(other.budget.shape), other.strategy.shape);
        assert_eq!(planning.news().unwrap()[0], "lookahead it is.");
        assert_eq!(planning.news(), None);
        let held = Controls { gamma: Choice::Held(7), ..with("lookahead") };
        assert_eq!(planning.choose(&held).budget.shape.gamma, 7);

        let plain = planning.choose(&with("plain"));
        assert_eq!((plain.drafter, plain.budget.shape.gamma), (None, 1));
        let missing = planning.choose(&with("rest"));
        assert_eq!(missing.strategy.name, "pld", "what cannot run is not taken up");
    }
}
