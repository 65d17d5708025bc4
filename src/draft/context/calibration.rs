//! How often a claim that a token follows was right, by what the claim is based on, so that claims
//! of different sources can be compared as probabilities.

use super::recycled;
use crate::speculate::{Rate, ngrams};

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

/// The expected rate of the likeliest token after a known context of one token, two, …, if the
/// second token is far less likely.
const KNOWN_RECYCLED: [f32; recycled::ORDERS] = [0.3, 0.5, 0.6];
const KNOWN_NGRAMS: [f32; ngrams::ORDERS] = [0.4, 0.6, 0.7, 0.75, 0.8];

/// Who claims that a token follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claimant {
    /// It followed the same phrase before.
    Suffix,
    /// It followed the same phrase in an earlier chat.
    History,
    /// The target considered it likely in the same context before.
    Recycled,
    /// The target considered it likely in the same context in the texts of an n-gram table.
    Ngram,
}

/// How many claimants there are.
pub(super) const CLAIMANTS: usize = 4;

/// What a claim is based on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Claim {
    /// A phrase that was followed by it.
    Phrase {
        /// How many tokens the phrase has.
        length: usize,
        /// How often it followed.
        count: u32,
        /// How often the phrase was followed by anything.
        total: u32,
    },
    /// How likely the target considered it in a context.
    Held {
        /// How many tokens the context has.
        order: usize,
        /// Its rank, starting at 0.
        rank: usize,
        /// How far its logit (with the draw's noise, in units of the temperature) is below the
        /// best; for the best, how far it is above the second.
        gap: f32,
        /// Whether the draw's noise is known and included.
        coupled: bool,
    },
}

impl Claim {
    /// Its class among those of `by`, and the rate expected for that class before any observation.
    fn class(self, by: Claimant) -> (usize, f32) {
        match self {
            Self::Phrase { length, count, total } => {
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
                // Other chats are about other things.
                let others = if by == Claimant::History { 0.7 } else { 1.0 };
                (lengths * SHARES + shares, others * (expected * sure))
            }
            Self::Held { order, rank, gap, coupled } => {
                let known: &[f32] =
                    if by == Claimant::Ngram { &KNOWN_NGRAMS } else { &KNOWN_RECYCLED };
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
    }
}

/// The acceptance rate of every class of claims, by claimant.
#[derive(Clone, Debug)]
pub(super) struct Calibration {
    rates: [Vec<Rate>; CLAIMANTS],
}

impl Default for Calibration {
    fn default() -> Self {
        let phrases = LENGTHS * SHARES;
        let held = |orders: usize| 2 * orders * RANKS * GAPS;
        let classes = [phrases, phrases, held(recycled::ORDERS), held(ngrams::ORDERS)];
        Self { rates: classes.map(|classes| vec![Rate::default(); classes]) }
    }
}

impl Calibration {
    /// The probability that a claim is right.
    pub(super) fn probability(&self, by: Claimant, claim: Claim) -> f32 {
        let (class, expected) = claim.class(by);
        self.rates[by as usize][class].estimate(PRIOR, expected).clamp(1e-3, 0.999)
    }

    /// Counts a claim whose outcome is known.
    pub(super) fn note(&mut self, by: Claimant, claim: Claim, was_right: bool) {
        self.rates[by as usize][claim.class(by).0].note(was_right, MEMORY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_has_a_class_and_a_probability() {
        let calibration = Calibration::default();
        for length in 0..40 {
            for (count, total) in [(1, 1), (3, 3), (2, 3), (1, 9)] {
                let claim = Claim::Phrase { length, count, total };
                let suffix = calibration.probability(Claimant::Suffix, claim);
                let history = calibration.probability(Claimant::History, claim);
                assert!(0.0 < history && history < suffix && suffix < 1.0);
            }
        }
        let mut classes = std::collections::BTreeSet::new();
        for order in 1..9 {
            for rank in 0..12 {
                for gap in [0.0, 0.5, 1.5, 3.0, 50.0, f32::INFINITY, f32::NAN] {
                    for coupled in [false, true] {
                        let claim = Claim::Held { order, rank, gap, coupled };
                        for by in [Claimant::Recycled, Claimant::Ngram] {
                            let p = calibration.probability(by, claim);
                            assert!((0.0..1.0).contains(&p), "{by:?} {claim:?} {p}");
                            classes.insert((by as usize, claim.class(by).0));
                        }
                    }
                }
            }
        }
        let held: usize = calibration.rates[2..].iter().map(Vec::len).sum();
        assert_eq!(classes.len(), held, "each is used");
    }

    #[test]
    fn a_longer_match_and_a_better_rank_promise_more_at_first() {
        let calibration = Calibration::default();
        let suffix = |length, count, total| {
            calibration.probability(Claimant::Suffix, Claim::Phrase { length, count, total })
        };
        assert!(suffix(1, 2, 2) < suffix(2, 2, 2) && suffix(4, 2, 2) < suffix(9, 2, 2));
        assert!(suffix(4, 1, 4) < suffix(4, 3, 4) && suffix(4, 3, 4) < suffix(4, 4, 4));
        let recycled = |order, rank, gap| {
            let claim = Claim::Held { order, rank, gap, coupled: false };
            calibration.probability(Claimant::Recycled, claim)
        };
        assert!(recycled(1, 0, 1.0) < recycled(3, 0, 1.0));
        assert!(recycled(3, 1, 1.0) < recycled(3, 0, 1.0));
        assert!(recycled(3, 0, 0.1) < recycled(3, 0, 5.0));
    }

    #[test]
    fn counts_outweigh_the_first_guess_and_the_new_outweigh_the_old() {
        let mut calibration = Calibration::default();
        let claim = Claim::Phrase { length: 3, count: 1, total: 1 };
        let mut note = |right| calibration.note(Claimant::Suffix, claim, right);
        (0..100).for_each(|i| note(i % 4 == 0));
        assert!((calibration.probability(Claimant::Suffix, claim) - 0.25).abs() < 0.05);
        let mut note = |right| calibration.note(Claimant::Suffix, claim, right);
        (0..2000).for_each(|_| note(true));
        assert!(calibration.probability(Claimant::Suffix, claim) > 0.95);
        let other = Claim::Phrase { length: 3, count: 2, total: 2 };
        assert!(calibration.probability(Claimant::Suffix, other) < 0.7, "another class");
    }
}
