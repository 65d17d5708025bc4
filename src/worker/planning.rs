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
