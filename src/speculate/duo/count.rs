//! k, the number of sequences that share a budget. It must not depend on times.

/// The most sequences, and how many ranks are examined for them.
pub const MOST_SEQUENCES: usize = 8;

/// k by the paper's rule, before it is turned into a divisor of γ.
///
/// `first` are the log-probabilities of the likeliest first tokens, best first; `second` is that of
/// the likeliest token after the best of them. Another first token deserves its own sequence if it
/// is likelier than the first two tokens of the best sequence together.
pub fn count(first: &[f32], second: f32) -> usize {
    let Some(&best) = first.first() else { return 1 };
    let threshold = best + second;
    let others = first.iter().take(MOST_SEQUENCES).skip(1);
    1 + others.take_while(|&&log_prob| log_prob > threshold).count()
}

/// The largest divisor of `gamma` that is not above `wanted` (and at least 1), so that all
/// sequences have the same length: at least two tokens, because the first token is the target's own
/// choice anyway. For the paper's budgets these are the paper's numbers.
pub fn divisor(gamma: usize, wanted: usize) -> usize {
    let most = wanted.min(MOST_SEQUENCES).min(gamma / 2).max(1);
    (1..=most).rev().find(|k| gamma.is_multiple_of(*k)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_published_budgets_floor_as_the_paper_says() {
        let floored = |gamma: usize| (1..=9).map(|k| divisor(gamma, k)).collect::<Vec<_>>();
        assert_eq!(floored(24), [1, 2, 3, 4, 4, 6, 6, 8, 8]);
        assert_eq!(floored(16), [1, 2, 2, 4, 4, 4, 4, 8, 8]);
        assert_eq!(floored(12), [1, 2, 3, 4, 4, 6, 6, 6, 6]);
        assert_eq!(floored(8), [1, 2, 2, 4, 4, 4, 4, 4, 4]);
        assert_eq!(floored(7), [1; 9]);
        assert_eq!(divisor(16, 0), 1);
    }

    #[test]
    fn counting_stops_at_the_first_that_is_not_likelier() {
        let ln = |p: f32| p.ln();
        let first = [0.4, 0.25, 0.2, 0.1, 0.05].map(ln);
        // The threshold is 0.4 · 0.3 = 0.12.
        assert_eq!(count(&first, ln(0.3)), 3);
        assert_eq!(count(&first, 0.0), 1);
        assert_eq!(count(&first, f32::NEG_INFINITY), 5);
        // The comparison is strict: equally likely is not likelier.
        assert_eq!(count(&[-1.0, -1.5, -1.5], -0.5), 1);
        assert_eq!(count(&[], -0.5), 1);
    }

    proptest! {
        #[test]
        fn a_divisor_divides_and_none_between_does(gamma in 1usize..200, wanted in 0usize..20) {
            let k = divisor(gamma, wanted);
            prop_assert_eq!(gamma % k, 0);
            prop_assert!(k <= wanted.clamp(1, MOST_SEQUENCES));
            prop_assert!(k == 1 || gamma / k >= 2);
            for larger in k + 1..=wanted.min(MOST_SEQUENCES).min(gamma / 2) {
                prop_assert_ne!(gamma % larger, 0);
            }
        }
    }
}
