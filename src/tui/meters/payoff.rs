//! How much faster than plain decoding an answer is. It is measured against the plain rounds of
//! this run once there are enough of them. Until then it is estimated from the passes that were
//! timed while loading, corrected by how much slower the latest rounds were. Must never know how it
//! is drawn.

use std::cmp::Ordering;

use super::AnswerMeters;
use crate::decode::Round;
use crate::plan::VerifyTimes;
use crate::tui::theme::Styles;
use ratatui::style::Style;

/// What a token takes in plain decoding.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlainPace {
    /// Milliseconds per token; the latest rounds count most.
    ms: f64,
    /// Plain rounds seen with the models in use.
    rounds: usize,
    /// How much longer the latest passes took than while loading, as a factor; 0 before the first.
    /// A long context and a busy machine slow all of them.
    slower: f64,
    /// Passes from which this is known.
    passes: usize,
}

/// How a speed compares with plain decoding, when the factor is written with one digit. `ratio`:
/// 2.0 is twice as fast, which is greater.
pub(crate) fn compared(ratio: f64) -> Ordering {
    (ratio * 10.0).round().total_cmp(&10.0)
}

/// Speed over that of plain decoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speedup {
    /// 2.0: twice as fast.
    pub ratio: f64,
    /// Whether plain rounds were seen; else it is an estimate.
    pub measured: bool,
    /// Whether trees are drafted to be looked at, even if they cost more than they save.
    pub for_show: bool,
}

impl Speedup {
    /// `2.1×`, an estimate as `about 2.1×`.
    pub fn factor(self) -> String {
        let about = if self.measured { "" } else { "about " };
        format!("{about}{:.1}×", self.ratio)
    }

    /// `2.1× plain`, an estimate as `about 2.1× plain`.
    pub fn words(self) -> String {
        format!("{} plain", self.factor())
    }

    /// Why it is below 1, where the settings ask for that.
    pub fn reason(self) -> Option<&'static str> {
        (self.for_show && compared(self.ratio).is_lt()).then_some(", tree kept for show")
    }
}

impl PlainPace {
    /// Plain rounds that make a measurement.
    const ENOUGH: usize = 8;
    /// Rounds over which the mean is taken.
    const LONG: usize = 32;
    /// Passes that tell how slow the machine is now.
    const NOW: usize = 8;
    /// Trees may take this many times as long as while loading, where there were few positions,
    /// though nothing became slower. Only what exceeds this counts as slower, so that the estimate
    /// promises too little rather than too much.
    const UNSURE: f64 = 1.35;

    /// Notes a round: as a measurement if it was one of plain decoding, with the root alone and one
    /// token. The time of a drafter that ran next to it is not part of plain decoding. `timed`:
    /// (nodes, milliseconds) of the target's passes while loading.
    pub fn note(&mut self, round: &Round, timed: &[(usize, f64)]) {
        // A pass takes longer while a drafter is at work.
        if round.timing.ahead_ms == 0.0 && round.timing.verify_ms > 0.0 && timed.len() > 1 {
            let times = VerifyTimes::of(timed);
            let slower = round.timing.verify_ms / times.at(round.tree.len());
            self.passes += 1;
            self.slower += (slower - self.slower) / self.passes.min(Self::NOW) as f64;
        }
        let ms = round.timing.verify_ms + round.timing.other_ms;
        if round.tree.len() != 1 || round.committed.len() != 1 || ms <= 0.0 {
            return;
        }
        self.rounds += 1;
        self.ms += (ms - self.ms) / self.rounds.min(Self::LONG) as f64;
    }

    /// Milliseconds per token in plain decoding, and whether they were measured; `pass_ms` is what
    /// a pass over one token took while loading.
    fn token_ms(&self, meters: &AnswerMeters, pass_ms: Option<f64>) -> Option<(f64, bool)> {
        if self.rounds >= Self::ENOUGH {
            return Some((self.ms, true));
        }
        // Plain decoding needs time for sampling and text too.
        let summary = &meters.summary;
        let other = summary.timing.other_ms / summary.rounds.max(1) as f64;
        let slower = (self.slower / Self::UNSURE).max(1.0);
        pass_ms.filter(|ms| *ms > 0.0).map(|ms| (ms * slower + other, false))
    }

    /// How much faster than plain decoding the answer is; `None` if nothing was drafted or the
    /// speed of plain decoding is not known.
    pub fn speedup(&self, meters: &AnswerMeters, pass_ms: Option<f64>) -> Option<Speedup> {
        let rate = meters.summary.tokens_per_second;
        if !meters.drafted || rate <= 0.0 {
            return None;
        }
        let (ms, measured) = self.token_ms(meters, pass_ms)?;
        let ratio = rate * ms / 1e3;
        // No round is shorter than a plain one, so τ is the largest possible gain. A plain pass
        // that was timed on a busy machine would promise more.
        let most = if measured { f64::INFINITY } else { meters.summary.tau };
        Some(Speedup { ratio: ratio.min(most), measured, for_show: false })
    }
}

/// Stands next to the rate while the answer is slowed: the text comes later than the rate says.
pub(crate) const SLOWED: &str = "slowed for watching";

/// Style of a speed-up: what was measured stands out, an estimate does not.
pub(crate) fn style(speedup: Speedup, styles: &Styles) -> Style {
    if speedup.measured { of(speedup.ratio, styles) } else { styles.dim }
}

/// Style of a measured speed over that of plain decoding: only a gain has the colour of one.
pub(crate) fn of(ratio: f64, styles: &Styles) -> Style {
    match compared(ratio) {
        Ordering::Greater => styles.accepted,
        Ordering::Equal => styles.text,
        Ordering::Less => styles.warning,
    }
}

/// τ, and `–` before the first round.
pub(crate) fn tau(meters: &AnswerMeters) -> String {
    match meters.summary.rounds {
        0 => "–".to_string(),
        _ => format!("{:.2}", meters.summary.tau),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Timing;
    use crate::tui::tests::round_of;

    fn timed(mut round: Round, draft_ms: f64, verify_ms: f64, other_ms: f64) -> Round {
        round.timing = Timing { draft_ms, verify_ms, other_ms, ..Timing::default() };
        round
    }

    /// Three tokens in 50 ms.
    fn drafted() -> Round {
        let round = round_of(&[("a", 0, 1.0), ("b", 0, 0.5), ("c", 1, 0.5)], &[1, 2], "d");
        timed(round, 10.0, 38.0, 2.0)
    }

    /// One token in 40 ms, while a drafter took 5.
    fn plain() -> Round {
        timed(round_of(&[("a", 0, 1.0)], &[], "b"), 5.0, 39.0, 1.0)
    }

    /// After the first token and this round.
    fn meters_of(round: &Round) -> AnswerMeters {
        let mut meters = AnswerMeters::default();
        meters.summary.tokens = 1;
        meters.round(round);
        meters
    }

    fn assert_guess(pace: &PlainPace, meters: &AnswerMeters, pass_ms: f64, wanted: f64) {
        let guess = pace.speedup(meters, Some(pass_ms)).unwrap();
        assert!((guess.ratio - wanted).abs() < 1e-9 && !guess.measured, "{guess:?}");
    }

    #[test]
    fn an_estimate_becomes_a_measurement_with_plain_rounds() {
        let mut pace = PlainPace::default();
        assert_eq!(pace.speedup(&AnswerMeters::default(), Some(30.0)), None, "nothing is decoded");
        let meters = meters_of(&drafted());
        pace.note(&drafted(), &[]);
        assert_eq!(pace.speedup(&meters, None), None, "plain decoding's speed is not known");
        // Plain decoding needs 2 ms for sampling and text too.
        assert_guess(&pace, &meters, 30.0, 60.0 * 0.032);
        for _ in 0..PlainPace::ENOUGH {
            pace.note(&plain(), &[]);
        }
        let found = pace.speedup(&meters, Some(30.0)).unwrap();
        assert!((found.ratio - 60.0 * 0.040).abs() < 1e-9 && found.measured, "{found:?}");
        assert_eq!(found.words(), "2.4× plain");
        assert_eq!(Speedup { measured: false, ..found }.words(), "about 2.4× plain");
        // Only what is slower has a reason.
        for (for_show, ratio, reason) in
            [(false, 0.6, false), (true, 0.6, true), (true, 2.4, false)]
        {
            let speedup = Speedup { for_show, ratio, measured: true };
            assert_eq!(speedup.reason().is_some(), reason, "{speedup:?}");
        }
    }

    #[test]
    fn an_estimate_grows_as_slow_as_the_passes_are_and_stays_below_the_tokens_of_a_round() {
        let meters = meters_of(&drafted());
        let noted = |timed: &[(usize, f64)]| {
            let mut pace = PlainPace::default();
            pace.note(&drafted(), timed);
            pace
        };
        // Three tokens in 50 ms would be six times as fast as one token in 100.
        assert_guess(&noted(&[]), &meters, 100.0, 3.0);
        // 30 ms for the root and its two nodes while loading, and 38 ms now, say nothing yet.
        assert_guess(&noted(&[(1, 15.0), (3, 30.0)]), &meters, 15.0, 60.0 * 0.017);
        // 2.7 times as long counts as twice as slow.
        let timed = [(1, 14.0), (3, 38.0 / (2.0 * PlainPace::UNSURE))];
        let mut pace = noted(&timed);
        assert_guess(&pace, &meters, 15.0, 60.0 * 0.032);
        // A pass that ran next to a drafter says nothing of a pass alone.
        let mut beside = drafted();
        beside.timing = Timing { verify_ms: 380.0, ahead_ms: 5.0, ..Timing::default() };
        pace.note(&beside, &timed);
        assert_guess(&pace, &meters, 15.0, 60.0 * 0.032);
    }

    #[test]
    fn what_is_written_as_1_is_neither_faster_nor_slower() {
        for tenth in 0..40 {
            for part in [-0.049, 0.0, 0.049] {
                let ratio = f64::from(tenth) / 10.0 + part;
                let written: f64 = format!("{ratio:.1}").parse().unwrap();
                assert_eq!(compared(ratio), written.total_cmp(&1.0), "{ratio}");
            }
        }
    }

    #[test]
    fn an_answer_that_was_not_drafted_has_no_speedup() {
        assert_eq!(PlainPace::default().speedup(&meters_of(&plain()), Some(30.0)), None);
    }
}
