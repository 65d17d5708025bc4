//! A model drafter as an arm of the strategy `auto`: its tree, its pace, and when it is tried again
//! after it has lost. It must not depend on the other arms.

use super::controller::{Controller, RoundObservation};
use super::learned::LearnedRound;
use super::pace::{Mean, Pace};
use super::search_space::SearchSpace;
use super::tree_controller::TreeController;
use super::{DrafterId, LearnedArm, Plan, VerifyTimes};

/// How many tokens a drafter can read along with its draft in almost no time; with more to read,
/// the round's time says nothing about other rounds.
const FEW: usize = 16;
/// The most rounds over which reading what a drafter has missed must pay off. An answer is expected
/// to continue for as many rounds as it has had: a short answer is over before the reading has paid
/// off.
const HORIZON: f64 = 32.0;
/// The weight of a newly measured time.
const NEAR: f64 = 0.25;
/// How many rounds pass before an arm that has lost is first tried again; each failed trial
/// doubles the wait.
const FIRST_WAIT: u64 = 24;
const LONGEST_WAIT: u64 = 384;

/// A drafter that takes time.
#[derive(Clone, Debug)]
pub struct ModelArm {
    pub(super) kind: DrafterId,
    /// Its index in the engine.
    pub(super) drafter: usize,
    /// Chooses its tree.
    pub(super) tree: TreeController,
    pace: Pace,
    /// T_D of a round in which there was little to read.
    draft_ms: f64,
    /// Milliseconds for each token that it has missed.
    read_ms: f64,
    /// How often that was measured.
    readings: f64,
    /// How many positions the text had when it last drafted.
    known: usize,
    /// Whether it has drafted in this answer, and how many rounds the answer has had.
    joined: bool,
    rounds: f64,
    /// How many rounds ago it last drafted, and how many must pass before a trial.
    pub(super) since: u64,
    pub(super) wait: u64,
    /// Whether it has ever drafted.
    pub(super) tried: bool,
}

impl ModelArm {
    /// The engine's drafter of this index starts from the plan; `space` leaves it no choice but to
    /// draft.
    pub fn new(kind: DrafterId, drafter: usize, plan: &Plan, space: SearchSpace) -> Self {
        let ms = plan.costs.round_ms(&plan.budget.shape, plan.budget.blocks);
        let tokens = (plan.expected * ms / 1e3).max(1.0);
        Self {
            kind,
            drafter,
            tree: TreeController::new(plan, space),
            pace: Pace::new(Mean { tokens, ms: ms.max(f64::MIN_POSITIVE) }),
            draft_ms: (ms - plan.costs.verify_ms(plan.budget.shape.gamma)).max(0.0),
            read_ms: plan.costs.row_ms(plan.budget.blocks),
            readings: 0.0,
            known: 0,
            joined: false,
            rounds: 0.0,
            since: 0,
            wait: FIRST_WAIT,
            tried: false,
        }
    }

    /// Begins another answer, to a text whose first `reused` positions are those of the previous
    /// text.
    pub(super) fn begin_answer(&mut self, reused: usize) {
        self.pace.begin_answer();
        self.joined = false;
        self.rounds = 0.0;
        // Another text may suit it better.
        self.wait = self.wait.min(2 * FIRST_WAIT);
        self.known = self.known.min(reused);
    }

    /// As [`Pace::slow_down`].
    pub(super) fn slow_down(&mut self, factor: f64) {
        self.pace.slow_down(factor);
        self.draft_ms *= factor;
        self.read_ms *= factor;
    }

    /// The average number of accepted tokens per round, once it is known.
    pub(super) fn accepted(&self) -> Option<f64> {
        self.pace.is_known().then(|| self.pace.long().tokens - 1.0)
    }

    /// Notes that a round passed in which this drafter did not draft.
    pub(super) fn pass(&mut self) {
        self.since += 1;
        self.rounds += 1.0;
    }

    /// Learns from a round that it drafted for, which took `ms` in all. Returns whether the round
    /// was typical, that is, not much had to be read first.
    pub(super) fn observe(
        &mut self,
        round: &RoundObservation<'_>,
        ms: f64,
        times: &VerifyTimes,
    ) -> bool {
        let before = round.context.saturating_sub(round.accepted.len() + 1);
        let missed = before.saturating_sub(self.known);
        let steady = self.joined && missed <= FEW;
        let draft_ms = round.draft_ms.unwrap_or(self.draft_ms);
        self.known = round.context;
        self.joined = true;
        self.since = 0;
        self.tried = true;
        self.rounds += 1.0;
        if steady {
            self.draft_ms += NEAR * (draft_ms - self.draft_ms);
            self.pace.note(round.tokens(), ms);
        } else if missed > FEW {
            let each = (draft_ms - self.draft_ms).max(0.0) / missed as f64;
            self.read_ms += NEAR.max(1.0 / (1.0 + self.readings)) * (each - self.read_ms);
            self.readings += 1.0;
        }
        let draft_ms = if steady { round.draft_ms } else { None };
        self.tree.observe(&RoundObservation { draft_ms, ..*round }, times);
        steady
    }

    /// How many milliseconds it would read before its next draft, at `context` positions.
    fn reading(&self, context: usize) -> f64 {
        let missed = context.saturating_sub(self.known);
        if missed > FEW { missed as f64 * self.read_ms } else { 0.0 }
    }

    /// Its expected tokens per millisecond at `context` positions of a text in which `share` of its
    /// average acceptance is expected.
    pub(super) fn rate(&self, context: usize, share: f64) -> f64 {
        let Mean { tokens, ms } = self.pace.expected_in(share);
        tokens / (ms + self.reading(context) / self.rounds.clamp(1.0, HORIZON))
    }

    /// The expected regret of `rounds` rounds of it, ms: how much longer they take than the other
    /// arms would for their tokens, at `rate` tokens per millisecond, and the reading first.
    pub(super) fn regret(&self, rounds: usize, rate: f64, context: usize, share: f64) -> f64 {
        let Mean { tokens, ms } = self.pace.expected_in(share);
        let regret = rounds as f64 * (ms - tokens / rate) + self.reading(context);
        regret.max(0.0)
    }

    /// Ends a trial.
    pub(super) fn judged(&mut self, won: bool) {
        self.wait = if won { FIRST_WAIT } else { (2 * self.wait).min(LONGEST_WAIT) };
    }

    /// For the next start; `plain_ms` is the time of a round without a draft.
    pub(super) fn learned(&self, plain_ms: f64) -> LearnedArm {
        let round = LearnedRound::of(&self.pace, plain_ms);
        LearnedArm { kind: self.kind, round, read: self.read_ms / plain_ms, since: self.since }
    }

    pub(super) fn recall(&mut self, learned: &LearnedArm, plain_ms: f64) {
        if learned.round.seen > 0.0 {
            self.pace = learned.round.at(plain_ms);
            self.read_ms = learned.read * plain_ms;
            self.tried = true;
            self.wait = 2 * FIRST_WAIT;
            self.since = learned.since.min(LONGEST_WAIT);
        }
    }
}
