//! The live controller: from the rounds themselves to the next round's tree.
//!
//! It never decides a token: whatever it picks, the text is the target's own. Given the same
//! overrides and rounds it makes the same picks (no clock, no chance).

use super::choose::{Pick, Plan, SearchSpace, rate};
use super::overrides::TreeOverrides;
use super::{AcceptanceHistories, Costs, Prefer, reasons};
use crate::speculate::Tree;

/// Rounds between two decisions.
const EVERY: u64 = 8;
/// A change must promise this much more speed than what is in use.
const MARGIN: f64 = 1.05;
/// Rounds of a probe, which tries speculation again after a stretch without it.
const PROBE: u64 = 10;
/// Older rounds of each M that a probe is weighed against.
const KEPT: usize = 4;
/// Plain rounds before the first probe; each probe that fails doubles the wait, to at most
/// [`LONGEST_WAIT`].
const FIRST_WAIT: u64 = 48;
const LONGEST_WAIT: u64 = 768;

/// What a controller learns from: one round.
#[derive(Clone, Copy, Debug)]
pub struct RoundObservation<'a> {
    /// What the round was allowed to spend.
    pub pick: Pick,
    /// The tree that was checked.
    pub tree: &'a Tree,
    /// Accepted nodes, root's child first.
    pub accepted: &'a [usize],
    /// T_D, milliseconds; `None` where it held work of earlier rounds too.
    pub draft_ms: Option<f64>,
    /// T_V, milliseconds.
    pub verify_ms: f64,
}

/// Chooses γ, M, width and depth round by round, as far as they are automatic.
#[derive(Clone, Debug)]
pub struct Controller {
    space: SearchSpace,
    costs: Costs,
    histories: AcceptanceHistories,
    current: Pick,
    /// Rounds seen since the last decision.
    since: u64,
    /// Plain rounds since speculation was last tried.
    plain: u64,
    wait: u64,
    probe_left: u64,
    /// What is true whatever is chosen, said before the reasons.
    preface: Vec<String>,
    /// What the reasons were last given for.
    reported: Option<(Pick, TreeOverrides)>,
}

impl Controller {
    /// Starts from the plan, in the space it was made for. `preface` is said before the reasons:
    /// where the draft runs, for one.
    pub fn new(plan: &Plan, space: SearchSpace, preface: Vec<String>) -> Self {
        Self {
            preface,
            reported: Some((plan.pick, space.overrides)),
            space,
            costs: plan.costs.clone(),
            histories: AcceptanceHistories::default(),
            current: plan.pick,
            since: 0,
            plain: 0,
            wait: FIRST_WAIT,
            probe_left: 0,
        }
    }

    /// What the next round may spend: held values as they are, the rest as it is best. Call before
    /// every round; a changed wish acts at once.
    pub fn pick(&mut self, overrides: &TreeOverrides) -> Pick {
        if *overrides != self.space.overrides {
            self.space.overrides = *overrides;
            self.probe_left = 0;
            self.current = self.best().0;
            self.since = 0;
        }
        self.current
    }

    /// Learns from a round, speculative or not, and decides anew now and then.
    pub fn observe(&mut self, round: &RoundObservation<'_>) {
        let nodes = round.tree.len();
        self.costs.learn_verify(nodes, round.verify_ms);
        // A tree that was asked for and not made (speculation off, draft lost) says nothing of it.
        if let Some(ms) = round.draft_ms
            && (nodes > 1 || round.pick.shape.gamma <= 1)
        {
            self.costs.learn_draft(&round.pick.shape, round.pick.blocks, ms);
        }
        if nodes > 1 {
            self.histories.note(&round.pick, round.tree, round.accepted);
        }
        self.since += 1;
        if self.current.shape.gamma > 1 {
            self.plain = 0;
        } else {
            self.plain += 1;
        }
        if self.probe_left > 0 {
            self.probe_left -= 1;
            if self.probe_left == 0 {
                self.end_probe();
            }
        } else if self.plain >= self.wait && self.may_speculate() {
            self.histories.fade(KEPT);
            self.current = self.best_tree();
            self.probe_left = PROBE;
        } else if self.since >= EVERY {
            self.decide();
        }
    }

    /// Makes [`Self::take_new_reasons`] speak the next time, changed or not.
    pub fn repeat_reasons(&mut self) {
        self.reported = None;
    }

    /// [`Self::reasons`] with their preface, if there is another choice than when last asked.
    pub fn take_new_reasons(&mut self) -> Option<Vec<String>> {
        let now = Some((self.current, self.space.overrides));
        if std::mem::replace(&mut self.reported, now) == now {
            return None;
        }
        Some(self.preface.iter().cloned().chain(self.reasons()).collect())
    }

    /// Why the current choice, one sentence a line.
    pub fn reasons(&self) -> Vec<String> {
        let rounds = self.histories.rounds();
        let basis = match rounds {
            0 => "No round with a tree has been seen yet.".to_owned(),
            1 => "Learned from the last round with a tree.".to_owned(),
            n => format!("Learned from the last {n} rounds with a tree."),
        };
        reasons::explain(
            &self.current,
            &self.space,
            &self.costs,
            |p| self.histories.omega(p),
            &basis,
        )
    }

    /// Tokens per second expected of the current choice.
    pub fn expected(&self) -> f64 {
        rate(&self.costs, &self.current, self.histories.omega(&self.current))
    }

    fn best(&self) -> (Pick, f64) {
        self.space.best(&self.costs, self.histories.omegas())
    }

    fn decide(&mut self) {
        self.since = 0;
        let (best, promised) = self.best();
        if best != self.current && promised > self.expected() * MARGIN {
            self.current = best;
            self.plain = 0;
        }
    }

    fn may_speculate(&self) -> bool {
        self.costs.can_draft() && !self.space.overrides.gamma.is_fixed()
    }

    /// The best pick that has a tree.
    fn best_tree(&self) -> Pick {
        let trees = SearchSpace { prefer: Prefer::Show, ..self.space };
        trees.best(&self.costs, self.histories.omegas()).0
    }

    fn end_probe(&mut self) {
        self.current = self.best().0;
        self.since = 0;
        self.plain = 0;
        self.wait = if self.current.shape.gamma > 1 {
            FIRST_WAIT
        } else {
            (self.wait * 2).min(LONGEST_WAIT)
        };
    }
}
