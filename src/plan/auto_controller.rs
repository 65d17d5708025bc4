//! The controller of the strategy `auto`: who drafts in each round. The draft from the context
//! costs next to nothing and knows beforehand what it promises, so it comes first; a model drafter
//! runs where it has lately given more tokens a millisecond than that promise; nobody drafts where
//! nothing pays. It never decides a token. Must never read a clock.
//!
//! What lost is tried again from time to time: a trial may begin once the time that it is expected
//! to lose has been earned, at [`EARNED`] of all rounds' time. In the same way a round without a
//! draft is slipped in where all have one: what they are compared with must not grow old.

use super::choose::Plan;
use super::confidence_controller::ConfidenceController;
use super::controller::RoundObservation;
use super::learned::LearnedRound;
use super::model_arm::ModelArm;
use super::overrides::TreeOverrides;
use super::pace::{Ease, Mean, Pace, Tally};
use super::{DraftKind, Learned, VerifyTimes};
use crate::speculate::{Budget, Shape};

/// Share of the time that trials may lose.
const EARNED: f64 = 0.01;
/// Plain rounds whose time trials may lose before anything is earned, and at most at once.
const FIRST_CREDIT: f64 = 8.0;
const MOST_CREDIT: f64 = 16.0;
/// Rounds that an answer has had before a trial: a short one is over before it could pay.
const SETTLED: u64 = 6;
/// Most of the time of the answer so far that a trial may lose: as much again is to be expected of
/// the answer, in which the winner would have to bring it back.
const AT_STAKE: f64 = 0.5;
/// Rounds with a draft before one without.
const DRAFTED: u64 = 8;
/// Rounds of a trial, those left out in which the drafter first reads what it has missed.
const TRIAL: usize = 3;
/// The draft from the context rests when it gives less than this share of the plain rate, if
/// drafting takes more than this share of a plain round: there is nothing to be saved otherwise.
const RESTS_BELOW: f64 = 0.99;
const RESTS_ABOVE: f64 = 0.02;
/// How much of a measured time is taken over.
const NEAR: f64 = 0.1;
/// Rounds of a rest; each that follows at once is twice as long.
const FIRST_REST: u64 = 16;
const LONGEST_REST: u64 = 128;
/// A tree to look at is drafted by a model where it may cost this much more.
const SHOWN_FOR: f64 = 1.02;

/// A model drafter that is to draft where it is the better one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RivalPlan {
    /// Which one.
    pub kind: DraftKind,
    /// What its tree may spend.
    pub budget: Budget,
    /// It drafts where the context promises fewer tokens a millisecond.
    pub rate: f64,
    /// T_V, to know what the context promises.
    pub verify_times: VerifyTimes,
}

/// Chooses who drafts.
#[derive(Clone, Debug)]
pub struct AutoController {
    context: ConfidenceController,
    /// Rounds whose draft came from the context, be it that none of it was worth its time.
    pace: Pace,
    /// These rounds, those before the last rest and of other answers counting less.
    tally: Tally,
    /// T_D of these.
    draft_ms: f64,
    /// Rounds that the draft from the context still rests.
    resting: u64,
    rest: u64,
    models: Vec<ModelArm>,
    /// How well models draft this text.
    ease: Ease,
    /// The model on trial and its rounds left.
    trial: Option<(usize, usize)>,
    /// A round without a draft as it was measured at the start, and what all passes have changed
    /// since: what is learned is told in it. What a root alone takes is learned beside that, so a
    /// time told in those of today would grow or shrink from start to start.
    unit_ms: f64,
    /// Milliseconds that trials may lose.
    credit_ms: f64,
    /// Rounds since the last without a draft, and their time.
    drafted: (u64, f64),
    /// Rounds of this answer, and their time.
    rounds: u64,
    answer_ms: f64,
    /// Whether a tree is wanted for its own sake.
    show: bool,
    /// Positions of the text.
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

    /// With a model drafter.
    pub(super) fn with_model(&mut self, arm: ModelArm) {
        self.models.push(arm);
    }

    /// What the draft from the context may spend: nothing while it rests.
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

    /// An answer to a prompt of `context` positions begins, of which the first `reused` are those
    /// of the text before.
    pub(super) fn begin_answer(&mut self, context: usize, reused: usize) {
        self.pace.begin_answer();
        self.models.iter_mut().for_each(|arm| arm.begin_answer(reused));
        (self.resting, self.rest) = (0, FIRST_REST);
        self.tally.fade();
        self.ease.fade();
        self.tell_ease();
        (self.rounds, self.answer_ms) = (0, 0.0);
        // One that was left unfinished says nothing of this text.
        self.trial = None;
        self.position = context;
    }

    /// Learns from a round.
    pub(super) fn observe(&mut self, round: &RoundObservation<'_>) {
        self.rounds += 1;
        self.position = round.context;
        // Rounds with a draft and without are not timed at the same moment, and a machine's speed
        // wavers by more than what drafting wins.
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

    /// Tells the models how well this text can be drafted.
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
        // A trial whose drafter does not draft, since it has no room or has failed, is over.
        if let Some((at, _)) = self.trial.take() {
            self.models[at].judged(false);
        }
        if round.draft == DraftKind::None {
            self.resting = self.resting.saturating_sub(1);
            return;
        }
        let tokens = round.accepted.len() as f64 + 1.0;
        self.pace.note(tokens, ms);
        self.tally.note(tokens, ms);
        self.draft_ms += NEAR * (round.draft_ms.unwrap_or(0.0) - self.draft_ms);
        let plain = self.context.times().plain_rate();
        let costs = self.draft_ms * plain > RESTS_ABOVE;
        // A round's tokens differ so much that a few poor ones are no proof, and a rest that was
        // begun without one loses what the draft wins.
        let (most, bound) = (self.tally.may_have(), RESTS_BELOW * plain);
        if self.show || !costs || most.is_infinite() {
            return;
        }
        if self.context_rate().max(most) < bound {
            self.resting = self.rest;
            self.rest = (2 * self.rest).min(LONGEST_REST);
            // What it does after the rest counts more than what it did before.
            self.pace.begin_answer();
            self.tally.fade();
        } else if self.context_rate() >= bound {
            self.rest = FIRST_REST;
        }
    }

    /// Whether what a round without a draft loses has been earned since the last.
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

    /// The model with the most tokens a millisecond.
    fn best_model(&self) -> Option<(usize, f64)> {
        let rates = self.models.iter().map(|arm| arm.rate(self.position)).enumerate();
        rates.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Tokens a millisecond that can be had without this model.
    fn rate_without(&self, at: usize) -> f64 {
        let own = self.context_rate().max(self.context.times().plain_rate());
        let others = self.models.iter().enumerate().filter(|&(other, _)| other != at);
        others.map(|(_, arm)| arm.rate(self.position)).fold(own, f64::max)
    }

    /// Tries the likeliest of the models that lose and have waited, if what that may lose is
    /// earned.
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

    /// The budget of whoever drafts mostly, for telling whether the choice has changed.
    pub(super) fn current(&self) -> (Budget, TreeOverrides) {
        let (budget, overrides) = self.context.current();
        match self.leader() {
            Some(at) => (self.models[at].current(), overrides),
            None => (budget, overrides),
        }
    }

    /// The model that drafts mostly, if one does.
    fn leader(&self) -> Option<usize> {
        let (at, rate) = self.best_model()?;
        (self.show || rate > self.rate_without(at)).then_some(at)
    }

    /// Why, one sentence a line.
    pub(super) fn reasons(&self) -> Vec<String> {
        let plain = self.context.times().plain_rate();
        let mut lines = vec![format!(
            "Each round is drafted by whoever gives the most tokens a second: the context lately \
             {}, nobody {}.",
            per_second(self.context_rate()),
            per_second(plain),
        )];
        for arm in &self.models {
            let rate = per_second(arm.rate(self.position));
            lines.push(format!("{} {rate} tokens/s.", name(arm.kind)));
        }
        match self.leader() {
            Some(at) => lines.extend(self.models[at].reasons()),
            None => lines.extend(self.context.reasons()),
        }
        lines
    }

    /// What the next start should know.
    pub(super) fn learned(&self) -> Learned {
        Learned {
            context: LearnedRound::of(&self.pace, self.unit_ms),
            arms: self.models.iter().map(|arm| arm.learned(self.unit_ms)).collect(),
            credit: (self.credit_ms / self.unit_ms).max(0.0),
        }
    }

    /// Goes on from what an earlier start has learned.
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

fn name(kind: DraftKind) -> &'static str {
    match kind {
        DraftKind::Head => "The draft head:",
        _ => "The small model:",
    }
}

fn per_second(rate: f64) -> String {
    format!("{:.0}", 1e3 * rate)
}
