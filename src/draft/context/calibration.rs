//! How often a claim that a token follows was right, by what the claim is based on, so that claims
//! of different sources can be compared as probabilities.

use super::recycled;
use crate::speculate::ngrams;

/// The weight of the first guess, in observations.
const PRIOR: f32 = 4.0;
/// The number of observations after which the old ones count half, because the text changes.
const MEMORY: f32 = 512.0;

/// Length classes of a match.
const LENGTHS: usize = 6;
/// Classes for the share of a continuation.
const SHARES: usize = 4;
/// Rank classes and gap classes of a token for which the target's logits are known.
const RANKS: usize = 4;
const GAPS: usize = 5;
/// The same for each order of recycled tokens.
const ORDERS: usize = recycled::ORDERS;

/// Classes of recycled tokens, with and without the draw's noise.
const RECYCLED: usize = 2 * ORDERS * RANKS * GAPS;
/// Classes of the tokens of an n-gram table.
const NGRAMS: usize = 2 * ngrams::ORDERS * RANKS * GAPS;

/// The first class of each kind of claim, with suffixes at 0, and how many classes there are.
const OF_RECYCLED: usize = LENGTHS * SHARES;
const OF_HISTORY: usize = OF_RECYCLED + RECYCLED;
const OF_NGRAMS: usize = OF_HISTORY + LENGTHS * SHARES;
const CLASSES: usize = OF_NGRAMS + NGRAMS;

/// The expected rate of the likeliest token after a known context of one token, two, …, if the
/// second token is far less likely.
const KNOWN_RECYCLED: [f32; recycled::ORDERS] = [0.3, 0.5, 0.6];
const KNOWN_NGRAMS: [f32; ngrams::ORDERS] = [0.4, 0.6, 0.7, 0.75, 0.8];

/// What a claim is based on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Claim {
    /// It followed the same phrase before.
    Suffix {
        /// How many tokens the phrase has.
        length: usize,
        /// How often it followed.
        count: u32,
        /// How often the phrase was followed by anything.
        total: u32,
    },
    /// It followed the same phrase in an earlier chat.
    History {
        /// How many tokens the phrase has.
        length: usize,
        /// How often it followed.
        count: u32,
        /// How often the phrase was followed by anything.
        total: u32,
    },
    /// The target considered it likely in the same context before.
    Recycled(Held),
    /// The target considered it likely in the same context in the texts of an n-gram table.
    Ngram(Held),
}

/// How likely the target considered a token in a context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Held {
    /// How many tokens the context has.
    pub(super) order: usize,
    /// Its rank, starting at 0.
    pub(super) rank: usize,
    /// How far its logit (with the draw's noise, in units of the temperature) is below the best;
    /// for the best, how far it is above the second.
    pub(super) gap: f32,
    /// Whether the draw's noise is known and included.
    pub(super) coupled: bool,
}

impl Held {
    /// Its class among those of as many orders as `known` has, and the expected rate.
    fn class(self, known: &[f32]) -> (usize, f32) {
        let Self { order, rank, gap, coupled } = self;
        let order = order.clamp(1, known.len()) - 1;
        let ranks = [0, 1, 2, 2, 3, 3, 3, 3][rank.min(7)];
        let gaps = [0.3, 1.0, 2.0, 4.0].iter().filter(|&&least| gap >= least).count();
        let expected = match rank {
            0 => known[order] * (0.5 + 0.125 * gaps as f32),
            _ => known[order] * 0.3 / (1 + rank) as f32 * (1.0 - 0.2 * gaps as f32),
        };
        let noise = usize::from(coupled);
        (((noise * known.len() + order) * RANKS + ranks) * GAPS + gaps, expected)
    }
}

impl Claim {
    /// Its class, and the rate expected for that class before any observation.
    fn class(self) -> (usize, f32) {
        match self {
            Self::History { length, count, total } => {
                let (class, expected) = Self::Suffix { length, count, total }.class();
                // Other chats are about other things.
                (OF_HISTORY + class, 0.7 * expected)
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
            Self::Recycled(held) => {
                let (class, expected) = held.class(&KNOWN_RECYCLED);
                (OF_RECYCLED + class, expected)
            }
            Self::Ngram(held) => {
                let (class, expected) = held.class(&KNOWN_NGRAMS);
                (OF_NGRAMS + class, expected)
            }
        }
    }
}

/// How many claims of a class were right.
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
        Self { rates: vec![Rate::default(); CLASSES] }
    }
}

impl Calibration {
    /// The probability that a claim is right.
    pub(super) fn probability(&self, claim: Claim) -> f32 {
        let (class, expected) = claim.class();
        let Rate { right, tried } = self.rates[class];
        ((right + PRIOR * expected) / (tried + PRIOR)).clamp(1e-3, 0.999)
    }

    /// Counts a claim whose outcome is known.
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
        let mut classes = std::collections::BTreeSet::new();
        for order in 1..9 {
            for rank in 0..12 {
                for gap in [0.0, 0.5, 1.5, 3.0, 50.0, f32::INFINITY, f32::NAN] {
                    for coupled in [false, true] {
                        let held = Held { order, rank, gap, coupled };
                        for claim in [Claim::Recycled(held), Claim::Ngram(held)] {
                            let p = calibration.probability(claim);
                            assert!((0.0..1.0).contains(&p), "{claim:?} {p}");
                            classes.insert(claim.class().0);
                        }
                    }
                }
            }
        }
        assert_eq!(classes.len(), RECYCLED + NGRAMS);
        assert!(classes.iter().all(|&class| (OF_RECYCLED..CLASSES).contains(&class)));
    }

    #[test]
    fn a_longer_match_and_a_better_rank_promise_more_at_first() {
        let calibration = Calibration::default();
        let suffix =
            |length, count, total| calibration.probability(Claim::Suffix { length, count, total });
        assert!(suffix(1, 2, 2) < suffix(2, 2, 2) && suffix(4, 2, 2) < suffix(9, 2, 2));
        assert!(suffix(4, 1, 4) < suffix(4, 3, 4) && suffix(4, 3, 4) < suffix(4, 4, 4));
        let recycled = |order, rank, gap| {
            let held = Held { order, rank, gap, coupled: false };
            calibration.probability(Claim::Recycled(held))
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
