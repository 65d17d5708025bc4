//! The controller of the strategy `auto`: a bandit. In each round it pulls one of several arms:
//! plain decoding (the baseline), the draft from the context, or a model drafter. An arm's rate is
//! its tokens per millisecond. The regret of a round is the time that it takes longer than
//! the best other arm would have taken for its tokens.
//!
//! The draft from the context costs almost nothing and knows in advance what it promises, so it
//! comes first: a model drafts in the rounds in which its rate is above that promise, and nothing
//! is drafted if nothing pays.
//!
//! Exploration is conservative (Wu, Shariff, Lattimore and Szepesvári 2016, "Conservative
//! Bandits"): an arm that seems worse is tried again only within an exploration budget, so that the
//! regret of all trials is at most the fraction [`EXPLORED`] (their α) of the time of all rounds.
//! The paper's confidence bounds are replaced by waits that double with each failed trial, because
//! rates change with the text.

use super::VerifyTimes;
use super::arm::Arm;
use super::choose::Plan;
use super::context_arm::ContextArm;
use super::controller::{Controller, RoundObservation};
use super::learned::{Learned, LearnedRound};
use super::model_arm::ModelArm;
use super::overrides::TreeOverrides;
use super::pace::Ease;
use super::reason::Reason;
use super::strategy::Schedule;
use crate::speculate::{Budget, Shape};

/// The fraction of the time of all rounds that exploration may cost: α.
const EXPLORED: f64 = 0.01;
/// The exploration budget before anything is earned, and the most that may be saved up, in rounds
/// without a draft.
const FIRST_BUDGET: f64 = 8.0;
const MOST_BUDGET: f64 = 16.0;
/// The number of rounds in an answer before the first trial: a short answer is over before the
/// trial could pay.
const SETTLED: u64 = 6;
/// The largest regret of a trial, as a fraction of the answer's time so far. The rest of the answer
/// is expected to be as long again, and in it the winner would have to make up for the loss.
const MOST_REGRET: f64 = 0.5;
/// How many rounds with a draft precede one without.
const DRAFTED: u64 = 8;
/// How many rounds a trial has, not counting those in which the drafter first reads what it has
/// missed.
const TRIAL: usize = 3;
/// How many times as many nodes are drafted as pay off on average, and at most how many: where the
/// draft is sure, more of them are verified.
const DRAFTED_FOR_ONE: usize = 2;
const MOST_DRAFTED: usize = 32;
/// A model may draft a tree for display if this takes at most this factor more.
const SHOWN_FOR: f64 = 1.02;

/// A model that is being tried.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// Its index.
    arm: usize,
    /// How many rounds are left.
    left: usize,
}

/// Rounds and their time.
#[derive(Clone, Copy, Debug, Default)]
struct Elapsed {
    rounds: u64,
    ms: f64,
}

impl Elapsed {
    fn add(&mut self, ms: f64) {
        self.rounds += 1;
        self.ms += ms;
    }
}

/// Chooses who drafts.
#[derive(Clone, Debug)]
pub(super) struct AutoController {
    context: ContextArm,
    models: Vec<ModelArm>,
    /// How well models draft this text.
    ease: Ease,
    trial: Option<Trial>,
    /// The exploration budget: the regret in milliseconds that trials may have.
    budget_ms: f64,
    /// The time of a round without a draft as measured at the start; what is learned is expressed
    /// in this unit, which changes only as all passes do. The time of a root alone is learned
    /// separately from it, so learned times expressed in the current time would grow or shrink from
    /// start to start.
    unit_at_start_ms: f64,
    /// The rounds since the last one without a draft.
    drafted: Elapsed,
    /// The rounds of this answer.
    answer: Elapsed,
    /// Whether a tree is wanted for display.
    show: bool,
    /// How many positions the text has.
    position: usize,
}

impl AutoController {
    /// Starts from the plan of the draft from the context.
    pub(super) fn new(
        plan: &Plan,
        overrides: TreeOverrides,
        models: Vec<ModelArm>,
        show: bool,
    ) -> Self {
        let context = ContextArm::new(plan, overrides);
        let plain_ms = 1.0 / context.plain_rate();
        Self {
            context,
            models,
            ease: Ease::default(),
            trial: None,
            budget_ms: FIRST_BUDGET * plain_ms,
            unit_at_start_ms: plain_ms,
            drafted: Elapsed::default(),
            answer: Elapsed::default(),
            show,
            position: 0,
        }
    }

    /// The time of a round without a draft, as far as all passes have changed since the start.
    fn unit_ms(&self) -> f64 {
        self.unit_at_start_ms * self.context.times().slowdown()
    }

    /// Takes over T_V. Rounds with and without a draft are not timed at the same moment, and the
    /// machine's speed varies by more than drafting gains, so earlier times change with it.
    fn follow_machine(&mut self, round: &RoundObservation<'_>, times: &VerifyTimes) {
        let slower = times.slowdown() / self.context.times().slowdown();
        self.context.follow_machine(round, times, slower);
        for arm in &mut self.models {
            arm.slow_down(slower);
        }
    }

    /// Counts a round that took `ms`, of which a fraction is earned for exploration.
    fn count(&mut self, round: &RoundObservation<'_>, ms: f64) {
        self.answer.add(ms);
        if round.tree.len() > 1 {
            self.drafted.add(ms);
        } else {
            self.drafted = Elapsed::default();
        }
        let most = MOST_BUDGET / self.context.plain_rate();
        self.budget_ms = (self.budget_ms + EXPLORED * ms).min(most);
    }

    /// A model's rate here and now, in a text that models draft as well as this one.
    fn rate(&self, arm: &ModelArm) -> f64 {
        arm.rate(self.position, self.ease.share())
    }

    /// Learns from a round for which a model drafted.
    fn observe_model(&mut self, at: usize, round: &RoundObservation<'_>, ms: f64) {
        let others = self.rate_without(at);
        if let Some(expected) = self.models[at].accepted() {
            self.ease.note(round.accepted.len() as f64, expected);
        }
        let steady = self.models[at].observe(round, ms, self.context.times());
        let Some(Trial { left, .. }) = self.trial.filter(|trial| trial.arm == at) else { return };
        self.budget_ms -= ms - round.tokens() / others;
        let left = left - usize::from(steady);
        self.trial = (left > 0).then_some(Trial { arm: at, left });
        if left == 0 {
            let won = self.rate(&self.models[at]) > others;
            self.models[at].judged(won);
        }
    }

    /// Learns from a round for which no model drafted.
    fn observe_context(&mut self, round: &RoundObservation<'_>, ms: f64) {
        // A trial is over if its drafter does not draft, because it has no room or has failed.
        if let Some(Trial { arm, .. }) = self.trial.take() {
            self.models[arm].judged(false);
        }
        self.context.observe(round, ms, !self.show);
    }

    /// Whether the regret of a round without a draft has been earned since the last one. Such a
    /// round is inserted if all rounds have a draft, because the baseline must stay current.
    fn is_plain_due(&self) -> bool {
        let plain = self.context.plain_rate();
        let best = self.best_model().map_or(0.0, |(_, rate)| rate).max(self.context.rate());
        let regret = (best / plain - 1.0) / plain;
        let Elapsed { rounds, ms } = self.drafted;
        !self.show && self.trial.is_none() && rounds >= DRAFTED && EXPLORED * ms >= regret
    }

    /// The model with the highest rate.
    fn best_model(&self) -> Option<(usize, f64)> {
        let rates = self.models.iter().map(|arm| self.rate(arm)).enumerate();
        rates.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The highest rate of the other arms.
    fn rate_without(&self, at: usize) -> f64 {
        let own = self.context.rate().max(self.context.plain_rate());
        let others = self.models.iter().enumerate().filter(|&(other, _)| other != at);
        others.map(|(_, arm)| self.rate(arm)).fold(own, f64::max)
    }

    /// Tries the most promising of the models that have lost and waited, if its expected regret is
    /// within the budget.
    fn begin_trial(&mut self) {
        if self.answer.rounds < SETTLED {
            return;
        }
        let most = self.budget_ms.min(MOST_REGRET * self.answer.ms);
        let rate = |at: usize| self.rate(&self.models[at]);
        let may = |&at: &usize| {
            let arm = &self.models[at];
            let others = self.rate_without(at);
            (!arm.tried || arm.since >= arm.wait)
                && rate(at) <= others
                && arm.regret(TRIAL, others, self.position, self.ease.share()) <= most
        };
        let likeliest =
            (0..self.models.len()).filter(may).max_by(|&a, &b| rate(a).total_cmp(&rate(b)));
        self.trial = likeliest.map(|arm| Trial { arm, left: TRIAL });
    }

    /// The model that drafts most, if there is one.
    fn leader(&self) -> Option<&ModelArm> {
        let (at, rate) = self.best_model()?;
        (self.show || rate > self.rate_without(at)).then(|| &self.models[at])
    }
}

impl Controller for AutoController {
    /// The budget of the draft from the context: nothing while it pauses.
    fn budget(&mut self, overrides: &TreeOverrides) -> Budget {
        let budget = self.context.tree.budget(overrides);
        if (self.context.paused > 0 || self.is_plain_due()) && !overrides.gamma.is_fixed() {
            return Budget::new(Shape { gamma: 1, ..budget.shape }, 0);
        }
        budget
    }

    fn verify_times(&self) -> Option<VerifyTimes> {
        self.context.tree.verify_times()
    }

    fn model_arm(&mut self, overrides: &TreeOverrides, schedule: Schedule) -> Option<Arm> {
        if self.is_plain_due() && !overrides.gamma.is_fixed() {
            return None;
        }
        let (at, rate) = match self.trial {
            Some(Trial { arm, .. }) => (arm, f64::INFINITY),
            None => {
                let (at, rate) = self.best_model()?;
                let plain = self.context.plain_rate();
                let rate = if self.show { rate.max(SHOWN_FOR * plain) } else { rate };
                (rate > plain).then_some((at, rate))?
            }
        };
        let verify_times = *self.context.times();
        let arm = &mut self.models[at];
        let mut budget = arm.tree.budget(overrides);
        let cut = !self.show && !overrides.gamma.is_fixed();
        if cut {
            budget.shape.gamma = (DRAFTED_FOR_ONE * budget.shape.gamma).min(MOST_DRAFTED);
        }
        Some(Arm {
            drafter: arm.drafter,
            budget,
            schedule,
            rate,
            verify_times,
            least_pass: if cut { arm.tree.least_pass() } else { 0.0 },
            cut,
        })
    }

    fn begin_answer(&mut self, context: usize, reused: usize) {
        self.context.begin_answer();
        for arm in &mut self.models {
            arm.begin_answer(reused);
        }
        self.ease.fade();
        self.answer = Elapsed::default();
        // A trial that was not finished says nothing about this text.
        self.trial = None;
        self.position = context;
    }

    fn observe(&mut self, round: &RoundObservation<'_>, times: &VerifyTimes) {
        self.follow_machine(round, times);
        self.position = round.context;
        let ms = round.total_ms();
        if !(ms.is_finite() && ms > 0.0) {
            return;
        }
        self.count(round, ms);
        let drafted = self.models.iter().position(|arm| arm.kind == round.draft);
        for (at, arm) in self.models.iter_mut().enumerate() {
            if Some(at) != drafted {
                arm.pass();
            }
        }
        match drafted {
            Some(at) => self.observe_model(at, round, ms),
            None => self.observe_context(round, ms),
        }
        if self.trial.is_none() {
            self.begin_trial();
        }
    }

    /// The budget of the arm that drafts most, to detect whether the choice has changed.
    fn current(&self) -> (Budget, TreeOverrides) {
        let (context, overrides) = self.context.tree.current();
        let budget = self.leader().map_or(context, |arm| arm.tree.current().0);
        (budget, overrides)
    }

    fn reasons(&self) -> Vec<Reason> {
        let rate = |arm: &ModelArm| (arm.kind, 1e3 * self.rate(arm));
        let mut reasons = vec![Reason::Sources {
            context: 1e3 * self.context.rate(),
            models: self.models.iter().map(rate).collect(),
            plain: 1e3 * self.context.plain_rate(),
        }];
        reasons.extend(match self.leader() {
            Some(arm) => arm.tree.reasons(),
            None => self.context.tree.reasons(),
        });
        reasons
    }

    fn learned(&self) -> Option<Learned> {
        let unit_ms = self.unit_ms();
        Some(Learned {
            context: LearnedRound::of(&self.context.pace, unit_ms),
            arms: self.models.iter().map(|arm| arm.learned(unit_ms)).collect(),
            budget: (self.budget_ms / unit_ms).max(0.0),
        })
    }

    fn recall(&mut self, learned: &Learned) {
        let unit_ms = self.unit_ms();
        self.context.pace = learned.context.at(unit_ms);
        self.budget_ms = learned.budget.min(MOST_BUDGET) * unit_ms;
        for arm in &mut self.models {
            if let Some(known) = learned.arms.iter().find(|known| known.kind == arm.kind) {
                arm.recall(known, unit_ms);
            }
        }
        self.trial = None;
    }
}
