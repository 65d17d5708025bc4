//! How often a claim that a token follows was right, by what the claim rests on: so that claims of
//! different sources can be compared as probabilities.

/// Weight of the first guess, in observations.
const PRIOR: f32 = 4.0;
/// Observations after which the old ones count half: the text changes.
const MEMORY: f32 = 512.0;

/// Length classes of a match.
const LENGTHS: usize = 6;
/// Share classes of a continuation.
const SHARES: usize = 4;
/// Orders, rank classes and gap classes of a recycled token.
const ORDERS: usize = 3;
const RANKS: usize = 4;
const GAPS: usize = 5;

/// Classes of recycled tokens, with the draw's noise and without.
const RECYCLED: usize = 2 * ORDERS * RANKS * GAPS;

/// What a claim rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Claim {
    /// It followed the same phrase before.
    Suffix {
        /// Tokens of the phrase.
        length: usize,
        /// How often it followed.
        count: u32,
        /// How often anything did.
        total: u32,
    },
    /// It followed the same phrase in an earlier chat.
    History {
        /// Tokens of the phrase.
        length: usize,
        /// How often it followed.
        count: u32,
        /// How often anything did.
        total: u32,
    },
    /// The target held it likely in the same context before.
    Recycled {
        /// Tokens of the context.
        order: usize,
        /// Its rank, from 0 on.
        rank: usize,
        /// How far its logit (with the draw's noise, in units of the temperature) lies behind the
        /// best; for the best, how far ahead of the second.
        gap: f32,
        /// Whether the draw's noise is known and counted in.
        coupled: bool,
    },
}

impl Claim {
    /// Its class, and what is expected of that before anything was seen.
    fn class(self) -> (usize, f32) {
        match self {
            Self::History { length, count, total } => {
                let (class, expected) = Self::Suffix { length, count, total }.class();
                // Other chats are of other things.
                (LENGTHS * SHARES + RECYCLED + class, 0.7 * expected)
            }
            Self::Suffix { length, count, total } => {
                let (lengths, expected) = match length {
                    0 | 1 => (0, 0.3),
                    2 => (1, 0.5),
                    3 => (2, 0.65),
                    4..=5 => (3, 0.8),
                    6..=8 => (4, 0.9),
                    _ => (5, 0.95),
                };
                let share = count as f32 / total.max(1) as f32;
                let (shares, sure) = match () {
                    () if total == 1 => (0, 0.9),
                    () if count == total => (1, 1.0),
                    () if share >= 0.5 => (2, share),
                    () => (3, 0.5 * share),
                };
                (lengths * SHARES + shares, expected * sure)
            }
            Self::Recycled { order, rank, gap, coupled } => {
                let ranks = [0, 1, 2, 2, 3, 3, 3, 3][rank.min(7)];
                let gaps = [0.3, 1.0, 2.0, 4.0].iter().filter(|&&least| gap >= least).count();
                let known = [0.3, 0.5, 0.6][order.clamp(1, ORDERS) - 1];
                let expected = match rank {
                    0 => known * (0.5 + 0.125 * gaps as f32),
                    _ => known * 0.3 / (1 + rank) as f32 * (1.0 - 0.2 * gaps as f32),
                };
                let order = order.clamp(1, ORDERS) - 1;
                let noise = usize::from(coupled);
                let class = ((noise * ORDERS + order) * RANKS + ranks) * GAPS + gaps;
                (LENGTHS * SHARES + class, expected)
            }
        }
    }
}

/// Right ones of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    right: f32,
    tried: f32,
}

/// The acceptance rate of every class of claims.
#[derive(Clone, Debug)]
pub(super) struct Calibration {
    rates: Vec<Rate>,
}

impl Default for Calibration {
    fn default() -> Self {
        let classes = 2 * LENGTHS * SHARES + RECYCLED;
        Self { rates: vec![Rate::default(); classes] }
    }
}

impl Calibration {
    /// The probability that a claim is right.
    pub(super) fn probability(&self, claim: Claim) -> f32 {
        let (class, expected) = claim.class();
        let Rate { right, tried } = self.rates[class];
        ((right + PRIOR * expected) / (tried + PRIOR)).clamp(1e-3, 0.999)
    }

    /// Counts a claim that was put to the test.
    pub(super) fn note(&mut self, claim: Claim, was_right: bool) {
        let rate = &mut self.rates[claim.class().0];
        if rate.tried >= MEMORY {
            rate.right *= 0.5;
            rate.tried *= 0.5;
        }
        rate.right += f32::from(u8::from(was_right));
        rate.tried += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_has_a_class_of_its_own_kind() {
        let calibration = Calibration::default();
        for length in 0..40 {
            for (count, total) in [(1, 1), (3, 3), (2, 3), (1, 9)] {
                let suffix = calibration.probability(Claim::Suffix { length, count, total });
                let history = calibration.probability(Claim::History { length, count, total });
                assert!(0.0 < history && history < suffix && suffix < 1.0);
            }
        }
        for order in 0..5 {
            for rank in 0..12 {
                for gap in [0.0, 0.5, 1.5, 3.0, 50.0, f32::INFINITY, f32::NAN] {
                    for coupled in [false, true] {
                        let claim = Claim::Recycled { order, rank, gap, coupled };
                        let p = calibration.probability(claim);
                        assert!((0.0..1.0).contains(&p), "{claim:?} {p}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_longer_match_and_a_better_rank_promise_more_at_first() {
        let calibration = Calibration::default();
        let suffix =
            |length, count, total| calibration.probability(Claim::Suffix { length, count, total });
        assert!(suffix(1, 2, 2) < suffix(2, 2, 2) && suffix(4, 2, 2) < suffix(9, 2, 2));
        assert!(suffix(4, 1, 4) < suffix(4, 3, 4) && suffix(4, 3, 4) < suffix(4, 4, 4));
        let recycled = |order, rank, gap| {
            calibration.probability(Claim::Recycled { order, rank, gap, coupled: false })
        };
        assert!(recycled(1, 0, 1.0) < recycled(3, 0, 1.0));
        assert!(recycled(3, 1, 1.0) < recycled(3, 0, 1.0));
        assert!(recycled(3, 0, 0.1) < recycled(3, 0, 5.0));
    }

    #[test]
    fn counts_outweigh_the_first_guess_and_the_new_outweigh_the_old() {
        let mut calibration = Calibration::default();
        let claim = Claim::Suffix { length: 3, count: 1, total: 1 };
        (0..100).for_each(|i| calibration.note(claim, i % 4 == 0));
        assert!((calibration.probability(claim) - 0.25).abs() < 0.05);
        (0..2000).for_each(|_| calibration.note(claim, true));
        assert!(calibration.probability(claim) > 0.95);
        let other = Claim::Suffix { length: 3, count: 2, total: 2 };
        assert!(calibration.probability(other) < 0.7, "another class");
    }
}
