//! Figures of the latest answer and of the machine. Tokens, rounds, times and τ are in the
//! [`Summary`], which every round updates and the worker's own replaces at the end. Must never know
//! how they are drawn.

mod clock;
pub(crate) mod payoff;
pub(crate) mod view;

use std::collections::VecDeque;
use std::time::Duration;

use crate::decode::{PrefillProgress, Round, Summary};
use crate::hardware::Usage;

use clock::ClockSeen;
pub use payoff::{PlainPace, Speedup};

/// What the meters show.
#[derive(Debug, Default)]
pub struct Meters {
    /// Figures of the latest answer.
    pub answer: AnswerMeters,
    /// What a token takes without speculation.
    pub plain: PlainPace,
    /// What the machine is doing.
    pub usage: Option<Usage>,
    /// The GPU, or why there is none.
    pub gpu: String,
    /// The number of its adapter.
    pub adapter: Option<usize>,
    /// Where the clock is on the screen.
    pub clock: ClockSeen,
}

/// Figures of one answer.
#[derive(Clone, Debug, Default)]
pub struct AnswerMeters {
    /// Time of the request.
    asked: Duration,
    /// From the question to the first token.
    pub first_token: Option<Duration>,
    /// How far the prompt has been read, before the first token.
    pub prefill: Option<PrefillProgress>,
    /// Tokens that a prompt which did not fit has without the messages before the last one.
    pub alone: Option<usize>,
    /// Totals so far.
    pub summary: Box<Summary>,
    /// Tokens and milliseconds of the latest rounds.
    recent: VecDeque<(usize, f64)>,
    /// `reached[d]`: rounds that offered a token at depth d + 1, and rounds that accepted one.
    reached: Vec<(usize, usize)>,
    /// Whether any round had more than the root to verify.
    pub drafted: bool,
    /// c of DuoDecoding, as of the latest round.
    pub duo_c: Option<f64>,
    /// How much faster than plain decoding it was, if that is known, once other models are in use:
    /// they have another pace.
    pub settled: Option<Option<Speedup>>,
}

impl AnswerMeters {
    /// Rounds over which "now" is averaged: about a second's worth on a slow machine.
    const NOW: usize = 8;
    /// Rounds of the sparkline; as wide as any panel.
    const SPARK: usize = 120;

    /// Before the first token of an answer that was requested at this time.
    pub fn new(asked: Duration) -> Self {
        Self { asked, ..Self::default() }
    }

    /// The first token came.
    pub fn first(&mut self, now: Duration, summary: Box<Summary>) {
        self.first_token = Some(now.saturating_sub(self.asked));
        self.prefill = None;
        self.summary = summary;
    }

    /// A round was done.
    pub fn round(&mut self, round: &Round) {
        let tokens = round.committed.len();
        let spent = round.timing.total_ms();
        self.summary.count(round);
        self.recent.truncate(Self::SPARK - 1);
        self.recent.push_front((tokens, spent));
        self.drafted |= round.tree.len() > 1;
        self.duo_c = round.ahead.as_ref().and_then(|ahead| ahead.c).or(self.duo_c);
        let deepest = round.tree.nodes().iter().map(|node| node.depth).max().unwrap_or(0);
        if self.reached.len() < deepest {
            self.reached.resize(deepest, (0, 0));
        }
        for (depth, (offered, accepted)) in self.reached.iter_mut().enumerate().take(deepest) {
            *offered += 1;
            *accepted += usize::from(round.accepted.len() > depth);
        }
    }

    /// Tokens per second over the latest rounds.
    pub fn now(&self) -> f64 {
        let latest = self.recent.iter().take(Self::NOW).rev();
        let (tokens, ms) = latest.fold((0, 0.0), |sum, round| (sum.0 + round.0, sum.1 + round.1));
        per_second(tokens, ms)
    }

    /// Whether there is anything of it.
    pub fn begun(&self) -> bool {
        self.summary.prompt_tokens + self.summary.tokens > 0
    }

    /// Tokens that prompt and answer take in the context.
    pub fn context(&self) -> usize {
        let summary = &self.summary;
        self.prefill.map_or(summary.prompt_tokens + summary.tokens, |prefill| prefill.total)
    }

    /// Share of the rounds that drafted so deep which had a token accepted there, depth 1 first.
    pub fn acceptance(&self) -> impl Iterator<Item = f64> {
        self.reached.iter().map(|&(offered, accepted)| accepted as f64 / offered.max(1) as f64)
    }

    /// Tokens per second of the latest rounds, oldest first.
    pub fn rates(&self) -> impl ExactSizeIterator<Item = f64> {
        self.recent.iter().rev().map(|&(tokens, ms)| per_second(tokens, ms))
    }
}

fn per_second(tokens: usize, ms: f64) -> f64 {
    if ms > 0.0 { tokens as f64 * 1000.0 / ms } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Timing;
    use crate::tui::tests::round_of;

    #[test]
    fn only_rounds_count_and_depths_are_shares() {
        let asked = Duration::from_secs(10);
        let mut meters = AnswerMeters::new(asked);
        let first = Summary { prompt_tokens: 30, tokens: 1, ..Summary::default() };
        meters.first(Duration::from_millis(10_500), Box::new(first));
        let mut round = round_of(&[("a", 0, 1.0), ("b", 0, 0.5), ("c", 1, 0.5)], &[1, 2], "d");
        round.timing = Timing {
            draft_ms: 20.0,
            verify_ms: 70.0,
            other_ms: 5.0,
            ahead_ms: 60.0,
            wait_ms: 5.0,
            ..Timing::default()
        };
        meters.round(&round);
        round.accepted.clear();
        round.committed.truncate(1);
        meters.round(&round);
        assert_eq!(meters.first_token, Some(Duration::from_millis(500)));
        let summary = &meters.summary;
        assert_eq!((summary.tokens, summary.rounds, meters.context()), (5, 2, 35));
        assert!((summary.tau - 2.0).abs() < 1e-9);
        assert!((summary.tokens_per_second - 20.0).abs() < 1e-9);
        assert_eq!(meters.acceptance().collect::<Vec<_>>(), [0.5, 0.5]);
        assert_eq!(meters.rates().map(f64::round).collect::<Vec<_>>(), [30.0, 10.0]);
    }
}
