//! Adds up what an answer takes. Must never know how it is drawn.

use crate::decode::Summary;

pub use crate::chat::AnswerTotals;

impl AnswerTotals {
    /// With another part.
    pub fn with(self, part: &Summary) -> Self {
        let decoded = part.tau * part.rounds as f64;
        // So that one part alone has the rate that its summary says.
        let seconds =
            if part.tokens_per_second > 0.0 { decoded / part.tokens_per_second } else { 0.0 };
        Self {
            tokens: self.tokens + part.tokens,
            rounds: self.rounds + part.rounds,
            decoded: self.decoded + decoded.round() as usize,
            micros: self.micros + (seconds * 1e6).round() as u64,
            lacks_beginning: self.lacks_beginning,
        }
    }

    /// Rounds that plain decoding takes for the same tokens: one for each, and none for those that
    /// come with the prefills.
    pub fn plain_rounds(&self) -> usize {
        self.decoded
    }

    /// As a summary of one part.
    pub(crate) fn summary(&self) -> Summary {
        Summary {
            tokens: self.tokens,
            rounds: self.rounds,
            tau: self.decoded as f64 / self.rounds.max(1) as f64,
            tokens_per_second: self.tokens_per_second(),
            ..Summary::default()
        }
    }
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
