//! The draft from the context as an arm of the strategy `auto`: its pace, and when it pauses. It
//! must not depend on the other arms.

use super::choose::Plan;
use super::confidence_controller::ConfidenceController;
use super::controller::{Controller, RoundObservation};
use super::overrides::TreeOverrides;
use super::pace::{Mean, Pace, Tally};
use super::{DrafterId, VerifyTimes};

/// The draft pauses if its rate is below this fraction of the plain rate, provided that drafting
/// takes more than this fraction of a plain round; otherwise pausing would save nothing.
const PAUSES_BELOW: f64 = 0.99;
const PAUSES_ABOVE: f64 = 0.02;
/// The weight of a newly measured time.
const NEAR: f64 = 0.1;
/// How many rounds the first pause has; each pause that follows immediately is twice as long.
const FIRST_PAUSE: u64 = 16;
const LONGEST_PAUSE: u64 = 128;

/// A drafter that takes almost no time.
#[derive(Clone, Debug)]
pub(super) struct ContextArm {
    /// Chooses its tree.
    pub(super) tree: ConfidenceController,
    /// Rounds whose draft came from the context, even if none of it was worth its time.
    pub(super) pace: Pace,
    /// The same rounds; those before the last pause and in other answers count less.
    tally: Tally,
    /// T_D of these rounds.
    draft_ms: f64,
    /// For how many more rounds it pauses, and how many the next pause has.
    pub(super) paused: u64,
    next_pause: u64,
}

impl ContextArm {
    pub(super) fn new(plan: &Plan, overrides: TreeOverrides) -> Self {
        let tree = ConfidenceController::new(plan, overrides);
        let ms = 1.0 / tree.times.plain_rate();
        Self {
            tree,
            pace: Pace::new(Mean { tokens: 1.0, ms }),
            tally: Tally::default(),
            draft_ms: 0.0,
            paused: 0,
            next_pause: FIRST_PAUSE,
        }
    }

    /// T_V.
    pub(super) fn times(&self) -> &VerifyTimes {
        &self.tree.times
    }

    /// Its expected tokens per millisecond.
    pub(super) fn rate(&self) -> f64 {
        let Mean { tokens, ms } = self.pace.expected();
        tokens / ms
    }

    /// The same without any draft, the baseline.
    pub(super) fn plain_rate(&self) -> f64 {
        self.times().plain_rate()
    }

    pub(super) fn begin_answer(&mut self) {
        self.pace.begin_answer();
        self.tally.fade();
        self.paused = 0;
        self.next_pause = FIRST_PAUSE;
    }

    /// Takes over T_V after a round, in which everything became `slower` by this factor.
    pub(super) fn follow_machine(
        &mut self,
        round: &RoundObservation<'_>,
        times: &VerifyTimes,
        slower: f64,
    ) {
        self.tree.observe(round, times);
        self.pace.slow_down(slower);
        self.tally.slow_down(slower);
    }

    /// Learns from a round of `ms` for which no model drafted, and begins a pause if it loses and
    /// `may_pause`.
    pub(super) fn observe(&mut self, round: &RoundObservation<'_>, ms: f64, may_pause: bool) {
        if round.draft == DrafterId::None {
            self.paused = self.paused.saturating_sub(1);
            return;
        }
        self.pace.note(round.tokens(), ms);
        self.tally.note(round.tokens(), ms);
        self.draft_ms += NEAR * (round.draft_ms.unwrap_or(0.0) - self.draft_ms);
        if may_pause && self.draft_ms * self.plain_rate() > PAUSES_ABOVE {
            self.judge();
        }
    }

    /// Begins a pause if it loses. The tokens of rounds vary so much that a few poor rounds prove
    /// nothing, and a pause that begins without proof loses what the draft gains.
    fn judge(&mut self) {
        let most = self.tally.may_have();
        let least = PAUSES_BELOW * self.plain_rate();
        if most.is_infinite() {
            return;
        }
        if self.rate().max(most) < least {
            self.paused = self.next_pause;
            self.next_pause = (2 * self.next_pause).min(LONGEST_PAUSE);
            // What it does after the pause counts more than what it did before.
            self.pace.begin_answer();
            self.tally.fade();
        } else if self.rate() >= least {
            self.next_pause = FIRST_PAUSE;
        }
    }
}
