//! The controller of the strategy `auto`: it decides who drafts in each round. The draft from the
//! context costs almost nothing and knows in advance what it promises, so it comes first. A model
//! drafter runs if it has recently given more tokens per millisecond than that promise, and nothing
//! is drafted if nothing pays. The controller never decides a token. It must never read a clock.
//!
//! A drafter that has lost is tried again from time to time: a trial may begin once the time that
//! it is expected to lose has been earned, at the fraction [`EARNED`] of the time of all rounds. In
//! the same way, a round without a draft is inserted if all rounds have one, because the rate that
//! drafts are compared with must stay current.

use super::choose::Plan;
use super::confidence_controller::ConfidenceController;
use super::controller::RoundObservation;
use super::learned::LearnedRound;
use super::model_arm::ModelArm;
use super::overrides::TreeOverrides;
use super::pace::{Ease, Mean, Pace, Tally};
use super::reason::Reason;
use super::{DrafterId, Learned, VerifyTimes};
use crate::speculate::{Budget, Shape};

/// The fraction of the time that trials may lose.
const EARNED: f64 = 0.01;
/// In plain rounds: the time that trials may lose before anything is earned, and the most that may
/// be saved up.
const FIRST_CREDIT: f64 = 8.0;
const MOST_CREDIT: f64 = 16.0;
/// The number of rounds in an answer before the first trial: a short answer is over before the
/// trial could pay.
const SETTLED: u64 = 6;
/// The largest fraction of the answer's time so far that a trial may lose. The rest of the answer
/// is expected to be as long again, and in it the winner would have to make up for the loss.
const AT_STAKE: f64 = 0.5;
/// How many rounds with a draft precede one without.
const DRAFTED: u64 = 8;
/// How many rounds a trial has, not counting those in which the drafter first reads what it has
/// missed.
const TRIAL: usize = 3;
/// The draft from the context pauses if its rate is below this fraction of the plain rate, provided
/// that drafting takes more than this fraction of a plain round; otherwise pausing would save
/// nothing.
const RESTS_BELOW: f64 = 0.99;
const RESTS_ABOVE: f64 = 0.02;
/// The weight of a newly measured time.
const NEAR: f64 = 0.1;
/// How many rounds the first pause has; each pause that follows immediately is twice as long.
const FIRST_REST: u64 = 16;
const LONGEST_REST: u64 = 128;
/// A model may draft a tree for display if this takes at most this factor more.
const SHOWN_FOR: f64 = 1.02;

/// A model drafter that drafts in rounds in which it is the better choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RivalPlan {
    /// Which drafter.
    pub kind: DrafterId,
    /// The budget of its tree.
    pub budget: Budget,
    /// It drafts if the context promises fewer tokens per millisecond than this.
    pub rate: f64,
    /// T_V, for computing what the context promises.
    pub verify_times: VerifyTimes,
}

/// Chooses who drafts.
#[derive(Clone, Debug)]
pub struct AutoController {
    context: ConfidenceController,
    /// Rounds whose draft came from the context, even if none of it was worth its time.
    pace: Pace,
    /// The same rounds; those before the last pause and in other answers count less.
    tally: Tally,
    /// T_D of these rounds.
    draft_ms: f64,
    /// For how many more rounds the draft from the context pauses.
    resting: u64,
    rest: u64,
    models: Vec<ModelArm>,
    /// How well models draft this text.
    ease: Ease,
    /// The model on trial and how many rounds it has left.
    trial: Option<(usize, usize)>,
    /// The time of a round without a draft as measured at the start, and how all passes have
    /// changed since; what is learned is expressed in this unit. The time of a root alone is
    /// learned separately from it, so learned times expressed in the current time would grow or
    /// shrink from start to start.
    unit_ms: f64,
    /// How many milliseconds trials may lose.
    credit_ms: f64,
    /// Rounds since the last one without a draft, and their time.
    drafted: (u64, f64),
    /// Rounds of this answer, and their time.
    rounds: u64,
    answer_ms: f64,
    /// Whether a tree is wanted for display.
    show: bool,
    /// How many positions the text has.
    position: usize,
}

impl AutoController {
    /// Starts from the plan of the draft from the context.
    pub(super) fn new(plan: &Plan, overrides: TreeOverrides, show: bool) -> Self {
        let context = ConfidenceController::new(plan, overrides);
        let plain_ms = 1.0 / context.times().plain_rate();
        Self {
            context,
            pace: Pace::new(Mean { tokens: 1.0, ms: plain_ms }),
            tally: Tally::default(),
            draft_ms: 0.0,
            resting: 0,
            rest: FIRST_REST,
            models: Vec::new(),
            ease: Ease::default(),
            trial: None,
            unit_ms: plain_ms,
            credit_ms: FIRST_CREDIT * plain_ms,
            drafted: (0, 0.0),
            rounds: 0,
            answer_ms: 0.0,
            show,
            position: 0,
        }
    }

    /// Adds a model drafter.
    pub(super) fn with_model(&mut self, arm: ModelArm) {
        self.models.push(arm);
    }

    /// The budget of the draft from the context: nothing while it pauses.
    pub(super) fn budget(&mut self, overrides: &TreeOverrides) -> Budget {
        let budget = self.context.budget(overrides);
        if (self.resting > 0 || self.is_plain_due()) && !overrides.gamma.is_fixed() {
            return Budget::new(Shape { gamma: 1, ..budget.shape }, 0);
        }
        budget
    }

    pub(super) fn verify_times(&self) -> Option<VerifyTimes> {
        self.context.verify_times()
    }

    /// The model drafter for rounds in which the context promises less.
    pub(super) fn rival(&mut self, overrides: &TreeOverrides) -> Option<RivalPlan> {
        if self.is_plain_due() && !overrides.gamma.is_fixed() {
            return None;
        }
        let verify_times = *self.context.times();
        let (at, rate) = match self.trial {
            Some((at, _)) => (at, f64::INFINITY),
            None => {
                let (at, rate) = self.best_model()?;
                let plain = verify_times.plain_rate();
                let rate = if self.show { rate.max(SHOWN_FOR * plain) } else { rate };
                (rate > plain).then_some((at, rate))?
            }
        };
        let arm = &mut self.models[at];
        Some(RivalPlan { kind: arm.kind, budget: arm.budget(overrides), rate, verify_times })
    }

    /// Begins an answer to a prompt of `context` positions, the first `reused` of which are those
    /// of the previous text.
    pub(super) fn begin_answer(&mut self, context: usize, reused: usize) {
        self.pace.begin_answer();
        self.models.iter_mut().for_each(|arm| arm.begin_answer(reused));
        (self.resting, self.rest) = (0, FIRST_REST);
        self.tally.fade();
        self.ease.fade();
        self.tell_ease();
        (self.rounds, self.answer_ms) = (0, 0.0);
        // A trial that was not finished says nothing about this text.
        self.trial = None;
        self.position = context;
    }

    /// Learns from a round.
    pub(super) fn observe(&mut self, round: &RoundObservation<'_>) {
        self.rounds += 1;
        self.position = round.context;
        // Rounds with and without a draft are not timed at the same moment, and the machine's speed
        // varies by more than drafting gains.
        let slower = self.context.observe(round);
        self.unit_ms *= slower;
        self.pace.slow_down(slower);
        self.tally.slow_down(slower);
        self.models.iter_mut().for_each(|arm| arm.slow_down(slower));
        let ms = round.total_ms();
        if !(ms.is_finite() && ms > 0.0) {
            return;
        }
        self.answer_ms += ms;
        self.drafted = match (round.tree.len(), self.drafted) {
            (0 | 1, _) => (0, 0.0),
            (_, (rounds, time)) => (rounds + 1, time + ms),
        };
        let most = MOST_CREDIT / self.context.times().plain_rate();
        self.credit_ms = (self.credit_ms + EARNED * ms).min(most);
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

    /// Informs the models how well this text can be drafted.
    fn tell_ease(&mut self) {
        let share = self.ease.share();
        self.models.iter_mut().for_each(|arm| arm.expect(share));
    }

    fn observe_model(&mut self, at: usize, round: &RoundObservation<'_>, ms: f64) {
        let without = self.rate_without(at);
        if let Some(expected) = self.models[at].accepted() {
            self.ease.note(round.accepted.len() as f64, expected);
            self.tell_ease();
        }
        let steady = self.models[at].observe(round, ms);
        let Some((_, left)) = self.trial.filter(|&(on_trial, _)| on_trial == at) else { return };
        self.credit_ms -= ms - (round.accepted.len() as f64 + 1.0) / without;
        let left = left - usize::from(steady);
        self.trial = (left > 0).then_some((at, left));
        if left == 0 {
            let won = self.models[at].rate(self.position) > without;
            self.models[at].judged(won);
        }
    }

    fn observe_context(&mut self, round: &RoundObservation<'_>, ms: f64) {
        // A trial is over if its drafter does not draft, because it has no room or has failed.
        if let Some((at, _)) = self.trial.take() {
            self.models[at].judged(false);
        }
        if round.draft == DrafterId::None {
            self.resting = self.resting.saturating_sub(1);
            return;
        }
        let tokens = round.accepted.len() as f64 + 1.0;
        self.pace.note(tokens, ms);
        self.tally.note(tokens, ms);
        self.draft_ms += NEAR * (round.draft_ms.unwrap_or(0.0) - self.draft_ms);
        let plain = self.context.times().plain_rate();
        let costs = self.draft_ms * plain > RESTS_ABOVE;
        // The tokens of rounds vary so much that a few poor rounds prove nothing, and a pause that
        // begins without proof loses what the draft gains.
        let (most, bound) = (self.tally.may_have(), RESTS_BELOW * plain);
        if self.show || !costs || most.is_infinite() {
            return;
        }
        if self.context_rate().max(most) < bound {
            self.resting = self.rest;
            self.rest = (2 * self.rest).min(LONGEST_REST);
            // What it does after the pause counts more than what it did before.
            self.pace.begin_answer();
            self.tally.fade();
        } else if self.context_rate() >= bound {
            self.rest = FIRST_REST;
        }
    }

    /// Whether enough time has been earned since the last round without a draft to pay for another.
    fn is_plain_due(&self) -> bool {
        let plain = self.context.times().plain_rate();
        let (rounds, time) = self.drafted;
        let best = self.best_model().map_or(0.0, |(_, rate)| rate).max(self.context_rate());
        let loses = (best / plain - 1.0) / plain;
        !self.show && self.trial.is_none() && rounds >= DRAFTED && EARNED * time >= loses
    }

    fn context_rate(&self) -> f64 {
        let Mean { tokens, ms } = self.pace.expected();
        tokens / ms
    }

    /// The model with the most tokens per millisecond.
    fn best_model(&self) -> Option<(usize, f64)> {
        let rates = self.models.iter().map(|arm| arm.rate(self.position)).enumerate();
        rates.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Tokens per millisecond that are possible without this model.
    fn rate_without(&self, at: usize) -> f64 {
        let own = self.context_rate().max(self.context.times().plain_rate());
        let others = self.models.iter().enumerate().filter(|&(other, _)| other != at);
        others.map(|(_, arm)| arm.rate(self.position)).fold(own, f64::max)
    }

    /// Tries the most promising of the models that have lost and waited, if the time that it may
    /// lose has been earned.
    fn begin_trial(&mut self) {
        if self.rounds < SETTLED {
            return;
        }
        let most = self.credit_ms.min(AT_STAKE * self.answer_ms);
        let may = |&at: &usize| {
            let (arm, without) = (&self.models[at], self.rate_without(at));
            arm.may_be_tried()
                && arm.rate(self.position) <= without
                && arm.loss(TRIAL, without, self.position) <= most
        };
        let rate = |at: usize| self.models[at].rate(self.position);
        let likeliest =
            (0..self.models.len()).filter(may).max_by(|&a, &b| rate(a).total_cmp(&rate(b)));
        self.trial = likeliest.map(|at| (at, TRIAL));
    }

    /// The budget of whichever drafter drafts most, to detect whether the choice has changed.
    pub(super) fn current(&self) -> (Budget, TreeOverrides) {
        let (budget, overrides) = self.context.current();
        match self.leader() {
            Some(at) => (self.models[at].current(), overrides),
            None => (budget, overrides),
        }
    }

    /// The model that drafts most, if there is one.
    fn leader(&self) -> Option<usize> {
        let (at, rate) = self.best_model()?;
        (self.show || rate > self.rate_without(at)).then_some(at)
    }

    /// The reasons.
    pub(super) fn reasons(&self) -> Vec<Reason> {
        let rate = |arm: &ModelArm| (arm.kind, 1e3 * arm.rate(self.position));
        let mut reasons = vec![Reason::Sources {
            context: 1e3 * self.context_rate(),
            models: self.models.iter().map(rate).collect(),
            plain: 1e3 * self.context.times().plain_rate(),
        }];
        match self.leader() {
            Some(at) => reasons.extend(self.models[at].reasons()),
            None => reasons.extend(self.context.reasons()),
        }
        reasons
    }

    /// What the next start should know.
    pub(super) fn learned(&self) -> Learned {
        Learned {
            context: LearnedRound::of(&self.pace, self.unit_ms),
            arms: self.models.iter().map(|arm| arm.learned(self.unit_ms)).collect(),
            credit: (self.credit_ms / self.unit_ms).max(0.0),
        }
    }

    /// Continues from what an earlier start has learned.
    pub(super) fn recall(&mut self, learned: &Learned) {
        self.pace = learned.context.at(self.unit_ms);
        self.credit_ms = learned.credit.min(MOST_CREDIT) * self.unit_ms;
        for arm in &mut self.models {
            let known = learned.arms.iter().find(|known| known.kind == arm.kind);
            known.into_iter().for_each(|known| arm.recall(known, self.unit_ms));
        }
        self.trial = None;
    }
}
