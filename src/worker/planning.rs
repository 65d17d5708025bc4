//! One planner for every strategy: each has its own controller, with costs and ledgers of its own,
//! so that what is learned of one says nothing wrong of another.

use super::{Chosen, Controls, Planner};
use crate::decode::Round;
use crate::draft::Budget;
use crate::plan::{Controller, Pick, Seen, Strategy, Wishes};

/// A strategy that can run here.
#[derive(Clone, Debug)]
pub struct Stand {
    /// The row of the table.
    pub strategy: &'static Strategy,
    /// Its drafter's place in the engine; `None` for the target alone.
    pub drafter: Option<usize>,
    /// Chooses its trees.
    pub controller: Controller,
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

    /// The strategies that can run here.
    pub fn strategies(&self) -> impl Iterator<Item = &'static Strategy> {
        self.stands.iter().map(|stand| stand.strategy)
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
            self.stands[wanted].controller.tell_again();
        }
        let Stand { strategy, drafter, controller } = &mut self.stands[wanted];
        let &Controls { gamma, blocks, width, depth, .. } = controls;
        let wishes = strategy.wishes(&Wishes { gamma, blocks, width, depth });
        let Pick { shape, blocks } = controller.pick(&wishes);
        let budget = Budget { shape, blocks, method: strategy.method };
        Chosen { strategy: *strategy, drafter: *drafter, budget }
    }

    fn observe(&mut self, round: &Round) {
        // Whoever has just been taken up has first to read what it missed.
        let steady = !std::mem::replace(&mut self.fresh, false);
        self.stands[self.current].controller.observe(&Seen {
            pick: Pick { shape: round.budget.shape, blocks: round.budget.blocks },
            tree: &round.tree,
            accepted: &round.accepted,
            draft_ms: steady.then_some(round.timing.target_idle_ms()),
            verify_ms: round.timing.verify_ms,
        });
    }

    fn news(&mut self) -> Option<Vec<String>> {
        self.stands[self.current].controller.news()
    }
}
