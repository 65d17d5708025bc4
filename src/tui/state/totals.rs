//! What an answer took, all its parts together: one that was cut off goes on in another job, whose
//! totals begin anew. Must never know how it is drawn.

use crate::decode::Summary;

/// What an answer took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AnswerTotals {
    /// Its tokens.
    pub tokens: usize,
    /// Target passes after the prefills.
    pub rounds: usize,
    /// Rounds that were not decoded but predicted, in a replay.
    pub predicted: usize,
    /// Tokens that rounds gave: the others are the prefills'.
    won: f64,
    /// Milliseconds of all rounds.
    ms: f64,
    /// Whether what it took before it went on is not known: that was in another run.
    pub lacks_beginning: bool,
}

impl AnswerTotals {
    /// Those of an answer of another run.
    pub const UNKNOWN: Self =
        Self { tokens: 0, rounds: 0, predicted: 0, won: 0.0, ms: 0.0, lacks_beginning: true };

    /// With another part.
    pub fn with(self, part: &Summary) -> Self {
        Self {
            tokens: self.tokens + part.tokens,
            rounds: self.rounds + part.rounds,
            predicted: self.predicted + part.predicted,
            won: self.won + part.tau * part.rounds as f64,
            ms: self.ms + milliseconds(part),
            lacks_beginning: self.lacks_beginning,
        }
    }

    /// Rounds that plain decoding takes for the same tokens: one for each, and none for those that
    /// come with the prefills.
    pub fn plain_rounds(&self) -> usize {
        self.won.round() as usize
    }

    /// Committed tokens per second of decoding, prefills excluded.
    pub fn tokens_per_second(&self) -> f64 {
        if self.ms > 0.0 { self.won * 1e3 / self.ms } else { 0.0 }
    }
}

/// Milliseconds of the rounds, so that one part alone has the rate that its summary says.
fn milliseconds(part: &Summary) -> f64 {
    let won = part.tau * part.rounds as f64;
    if part.tokens_per_second > 0.0 { won * 1e3 / part.tokens_per_second } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(tokens: usize, rounds: usize, tokens_per_second: f64) -> Summary {
        let tau = (tokens - 1) as f64 / rounds as f64;
        Summary { tokens, rounds, tau, tokens_per_second, ..Summary::default() }
    }

    #[test]
    fn parts_add_up_and_the_rate_is_that_of_all_their_time() {
        let one = AnswerTotals::default().with(&part(101, 40, 50.0));
        assert_eq!((one.tokens, one.rounds, one.lacks_beginning), (101, 40, false));
        assert_eq!(one.plain_rounds(), 100);
        assert!((one.tokens_per_second() - 50.0).abs() < 1e-9);
        // 100 tokens in two seconds, then 100 in one.
        let all = one.with(&part(101, 60, 100.0));
        assert_eq!((all.tokens, all.rounds, all.plain_rounds()), (202, 100, 200));
        assert!((all.tokens_per_second() - 200.0 / 3.0).abs() < 1e-9);
        assert!(AnswerTotals::UNKNOWN.with(&part(5, 2, 1.0)).lacks_beginning);
        assert_eq!(AnswerTotals::default().tokens_per_second(), 0.0);
    }
}
