//! γ for drafting while the target checks, from measured times (method.md, DuoDecoding).

/// The smallest budget: a single token leaves no tail to verify, and nothing could be learned from
/// such rounds.
const LEAST: usize = 2;

/// γ by the paper's rule, γ = c: as many tokens as the draft makes in one pass of the target. `c`
/// is the time of one pass over that of one draft step; its whole part fits.
pub fn paper_budget(c: f64) -> usize {
    (c as usize).max(LEAST)
}

/// The budgets of [`budget`]: numbers with many divisors, so that k has a choice; even with the
/// smallest, two sequences can still gain something.
const BUDGETS: [usize; 8] = [4, 6, 8, 12, 16, 24, 32, 48];

/// γ: a budget with which the draft finishes when the target does, (γ − k + 1)·T_d ≤ T_t(γ) for k =
/// 1, the most common and most expensive k. Among the fitting sizes it is the one that gains
/// the most tokens per unit of time if each drafted token is right with probability `right`. The
/// paper's target takes the same time for any number of tokens, and then it is the largest. If
/// every further token costs time, the largest budget can be a loss.
///
/// `step` is T_d, one draft step, and `pass` T_t(m), the target's pass over m nodes, both while the
/// other works at the same time.
pub fn budget(step: f64, pass: impl Fn(usize) -> f64, right: f64) -> usize {
    let fits = |&gamma: &usize| gamma as f64 * step <= pass(gamma);
    let rate = |gamma: usize| rate(gamma, right.clamp(0.0, 0.99), step, &pass);
    // If two are equally good, the smaller one is chosen: `max_by` returns the last.
    let fitting = BUDGETS.into_iter().filter(fits).rev();
    fitting.max_by(|&a, &b| rate(a).total_cmp(&rate(b))).unwrap_or(BUDGETS[0])
}

/// How often a round has a tail, and the tokens per round, with budget γ, if each drafted token is
/// right with probability `right`.
///
/// There are two kinds of round: with a tail of γ − 1 tokens, after a round that was right to the
/// end, or without a tail. The first kind gains the right tokens of the tail and one more, the
/// second gains one token. Either is followed by a round with a tail if everything that it checked
/// was right, including the target's own token.
pub fn expected(gamma: usize, right: f64) -> (f64, f64) {
    let all = right.powi(gamma as i32);
    let share = right / (1.0 - all + right);
    let won: f64 = (0..gamma as i32).map(|i| right.powi(i)).sum();
    (share, share * won + (1.0 - share))
}

/// Tokens per unit of time with budget γ.
fn rate(gamma: usize, right: f64, step: f64, pass: impl Fn(usize) -> f64) -> f64 {
    let (share, tokens) = expected(gamma, right);
    let drafting = gamma as f64 * step;
    let time = |nodes: usize| drafting.max(pass(nodes));
    tokens / (share * time(gamma) + (1.0 - share) * time(1)).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest_that_is_drafted_in_time() {
        let chosen = |step: f64, pass: fn(usize) -> f64| budget(step, pass, 1.0);
        // A target that takes 24 steps for any number of tokens.
        assert_eq!(chosen(1.0, |_| 24.0), 24);
        assert_eq!(chosen(1.0, |_| 23.9), 16);
        // A draft that is not faster than its target gets the smallest budget.
        assert_eq!(chosen(5.0, |_| 1.0), 4);
        assert_eq!(chosen(1.0, |m| 4.0 + 0.5 * m as f64), 8);
    }

    #[test]
    fn the_paper_s_rule_takes_any_number_and_both_agree_where_a_pass_takes_the_same_time() {
        for (c, gamma) in [(20.0, 20), (23.9, 23), (7.5, 7), (1.2, 2), (0.0, 2)] {
            assert_eq!(paper_budget(c), gamma, "c = {c}");
        }
        for pass in BUDGETS {
            for right in [0.7, 0.95, 1.0] {
                let ours = budget(1.0, |_| pass as f64, right);
                assert_eq!(ours, paper_budget(pass as f64), "c = {pass}, {right}");
            }
        }
        // They differ where every token costs time.
        assert!(budget(1.0, |nodes| 20.0 + 4.0 * nodes as f64, 0.5) < paper_budget(24.0));
    }

    #[test]
    fn what_costs_more_than_it_wins_is_not_drafted() {
        let chosen = |right: f64, slope: f64| budget(0.5, |m| 10.0 + slope * m as f64, right);
        // If verification is free, a good draft is used to the last token that is ready in time.
        assert_eq!(chosen(0.95, 0.0), 16);
        // If nothing is ever right, the shortest rounds are the best.
        assert_eq!(chosen(0.0, 5.0), 4);
        assert!(chosen(0.5, 2.0) < chosen(0.9, 2.0));
        assert!(chosen(0.8, 8.0) <= chosen(0.8, 1.0));
    }

    /// The two kinds of round, one after the other.
    #[test]
    fn the_rate_is_that_of_simulated_rounds() {
        let pass = |m: usize| 10.0 + m as f64;
        for (gamma, right) in [(1, 0.5), (4, 0.7), (12, 0.9), (24, 0.6)] {
            let mut state = 0x9E37_79B9_7F4A_7C15u64;
            let mut holds = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) as f64 / (1u64 << 53) as f64 <= right
            };
            let mut tokens = 0;
            let mut time = 0.0;
            let mut tail = false;
            for _ in 0..200_000 {
                let nodes = if tail { gamma } else { 1 };
                let held = (0..nodes).take_while(|_| holds()).count();
                tokens += held.min(nodes - 1) + 1;
                time += pass(nodes).max(gamma as f64 * 0.5);
                tail = held == nodes;
            }
            let want = f64::from(tokens as u32) / time;
            let got = rate(gamma, right, 0.5, pass);
            assert!((want / got - 1.0).abs() < 0.01, "γ {gamma}, {right}: {got}, not {want}");
        }
    }

    proptest! {
        #[test]
        fn any_times_give_a_budget(
            step in 0.0f64..10.0, base in 0.0f64..50.0, slope in 0.0f64..5.0,
            right in 0.0f64..=1.0,
        ) {
            let pass = move |m: usize| base + slope * m as f64;
            let gamma = budget(step, pass, right);
            prop_assert!(BUDGETS.contains(&gamma));
            prop_assert!(gamma == BUDGETS[0] || gamma as f64 * step <= pass(gamma));
        }
    }
}
