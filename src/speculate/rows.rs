//! Operations on one row of logits: log-softmax, the k best, the best. NaN counts as minus
//! infinity everywhere; ties go to the lower id. Only additions, multiplications and bit
//! operations are used, so every platform gets the same bits.

use std::f64::consts::{LN_2, SQRT_2};

use crate::kernels::{maxima, sum_exp};

/// Of how many elements the largest is known before they are searched.
pub(super) const SEARCHED: usize = 256;

/// The index of the largest value: the lowest one on ties, 0 if all values are NaN.
pub fn argmax(row: &[f32]) -> u32 {
    let maxima = maxima(row, SEARCHED);
    let best = greatest(&maxima);
    let from = maxima.iter().position(|&x| x == best).unwrap_or(0) * SEARCHED;
    let at = row.iter().skip(from).position(|&x| x == best);
    at.map_or(0, |at| from + at) as u32
}

/// The `k` largest values as (index, value), best first, ties by lower index. Values that are NaN
/// or minus infinity are left out, so there may be fewer than `k`.
pub fn top_k(row: &[f32], k: usize) -> Vec<(u32, f32)> {
    let mut best: Vec<(u32, f32)> = Vec::with_capacity(k.min(row.len()) + 1);
    if k == 0 {
        return best;
    }
    let maxima = maxima(row, SEARCHED);
    // At least `k` values are not smaller than this, one in each block whose maximum reaches it, so
    // the other blocks contain no result.
    let least = kth_largest(&maxima, k);
    let mut worst = f32::NEG_INFINITY;
    for (block, values) in row.chunks(SEARCHED).enumerate() {
        if maxima[block] < least || maxima[block] <= worst {
            continue;
        }
        for (i, &value) in values.iter().enumerate() {
            // NaN fails this comparison too; an equal value has a higher index and loses.
            if value > worst {
                let at = best.partition_point(|&(_, kept)| kept >= value);
                best.insert(at, ((block * SEARCHED + i) as u32, value));
                best.truncate(k);
                if best.len() == k {
                    worst = best[k - 1].1;
                }
            }
        }
    }
    best
}

/// The `k`-th largest value, minus infinity if there are fewer. None is NaN.
fn kth_largest(values: &[f32], k: usize) -> f32 {
    if k > values.len() {
        return f32::NEG_INFINITY;
    }
    *values.to_vec().select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1
}

/// `log_softmax(row)` in f32. A row without any number stays minus infinity everywhere.
pub fn log_softmax(row: &[f32]) -> Vec<f32> {
    let total = log_sum_exp(row);
    row.iter().map(|&x| log_prob(x, total)).collect()
}

/// The `k` likeliest tokens of a row of logits with their log-probabilities: `top_k` of
/// `log_softmax` without writing the whole row.
pub fn top_log_probs(row: &[f32], k: usize) -> Vec<(u32, f32)> {
    let mut best = top_k(row, k);
    let total = log_sum_exp(row);
    for (_, value) in &mut best {
        *value = log_prob(*value, total);
    }
    best
}

/// The maximum and the log of the sum of `exp(x - maximum)`; kept separate so that nothing is
/// rounded away.
#[derive(Clone, Copy)]
struct LogSumExp {
    top: f32,
    log_sum: f32,
}

fn log_sum_exp(row: &[f32]) -> LogSumExp {
    let top = clamp(max(row));
    if top == f32::NEG_INFINITY {
        return LogSumExp { top, log_sum: 0.0 };
    }
    LogSumExp { top, log_sum: ln(sum_exp(row, top, 1.0)) as f32 }
}

/// Replaces plus infinity by the largest number, so that differences are numbers; NaN stays NaN
/// (`f32::min` would replace it).
#[inline]
pub(super) fn clamp(x: f32) -> f32 {
    if x > f32::MAX { f32::MAX } else { x }
}

fn log_prob(x: f32, total: LogSumExp) -> f32 {
    if x.is_nan() || total.top == f32::NEG_INFINITY {
        return f32::NEG_INFINITY;
    }
    (clamp(x) - total.top) - total.log_sum
}

/// The largest value, ignoring NaN; minus infinity if there is none.
pub(super) fn max(row: &[f32]) -> f32 {
    greatest(&maxima(row, SEARCHED))
}

fn greatest(maxima: &[f32]) -> f32 {
    maxima.iter().copied().fold(f32::NEG_INFINITY, f32::max)
}

/// `e^x` for x ≤ 0 within 2 units in the last place; 0 for results that would be subnormal, for
/// minus infinity and for NaN. We compute it ourselves, because the system's `exp` differs between
/// platforms and cannot be vectorised.
#[inline]
pub(super) fn exp(x: f32) -> f32 {
    const LOWEST: f32 = -87.0;
    // Adding and subtracting 1.5 · 2^23 rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    let clamped = if x > LOWEST { x } else { LOWEST };
    let n = (clamped * std::f32::consts::LOG2_E + ROUND) - ROUND;
    // ln 2 in two parts; the first has so few bits that n times it is exact.
    let r = (clamped - n * (355.0 / 512.0)) + n * 2.121_944_4e-4;
    // Taylor: |r| ≤ ln 2 / 2, so the next term is below 6e-9.
    let p = 1.0 / 5040.0;
    let p = p * r + 1.0 / 720.0;
    let p = p * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    let p = p * r + 1.0;
    let p = p * r + 1.0;
    let scale = f32::from_bits(((n as i32 + 127) as u32) << 23);
    if x > LOWEST { p * scale } else { 0.0 }
}

/// Natural logarithm of a positive normal number, within a few units of the last place.
pub(super) fn ln(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits((bits & MANTISSA) | (1023 << 52));
    if m > SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    // ln m = 2 artanh f with |f| ≤ 0.1716, so 12 terms of the series are enough.
    let f = (m - 1.0) / (m + 1.0);
    let square = f * f;
    let series = (0..12).rev().fold(0.0, |sum, i| sum * square + 1.0 / f64::from(2 * i + 1));
    exponent as f64 * LN_2 + 2.0 * f * series
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn exp_and_ln_are_close_to_the_libraries() {
        for i in 0..200_000 {
            let x = -87.0 * (i as f32 / 200_000.0);
            let want = f64::from(x).exp();
            let error = (f64::from(exp(x)) - want).abs() / want;
            assert!(error < 2.5e-7, "exp({x}): relative error {error}");
            let y = 1e-9 + i as f64 * 0.37 * (1.0 + i as f64 * 1e3);
            assert!((ln(y) - y.ln()).abs() <= 4e-16 * y.ln().abs().max(1.0), "ln({y})");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::NAN), 0.0);
        let near_one = 1.0 - f64::EPSILON / 2.0;
        assert_eq!(ln(near_one), near_one.ln());
    }

    #[test]
    fn rows_without_numbers_or_with_infinities_are_survived() {
        let nan = f32::NAN;
        assert_eq!(argmax(&[nan, nan]), 0);
        assert_eq!(argmax(&[nan, -1.0, 2.0, nan, 2.0]), 2);
        assert_eq!(top_k(&[nan, f32::NEG_INFINITY], 2), []);
        assert_eq!(log_softmax(&[nan, nan]), [f32::NEG_INFINITY; 2]);
        let row = log_softmax(&[f32::INFINITY, 0.0, nan, f32::INFINITY]);
        assert!((row[0] + 2.0f32.ln()).abs() < 1e-6 && row[0] == row[3]);
        assert_eq!(row[2], f32::NEG_INFINITY);
        assert!(row[1] < -1e30);
    }

    proptest! {
        #[test]
        fn top_k_is_a_stable_sort(
            row in proptest::collection::vec(prop_oneof![
                (-3i32..3).prop_map(|x| x as f32), Just(f32::NAN), Just(f32::NEG_INFINITY)
            ], 0..300),
            k in 0usize..12,
        ) {
            let mut want: Vec<(u32, f32)> = (0..).zip(row.iter().copied())
                .filter(|&(_, x)| x > f32::NEG_INFINITY).collect();
            want.sort_by(|a, b| b.1.total_cmp(&a.1)); // Stable, so ties stay in order of index.
            // -0.0 and 0.0 do not both occur, so total_cmp agrees with <.
            want.truncate(k);
            prop_assert_eq!(top_k(&row, k), want.clone());
            if let Some(&(best, _)) = want.first() {
                prop_assert_eq!(argmax(&row), best);
            }
        }

        #[test]
        fn log_softmax_is_the_textbook_one(
            row in proptest::collection::vec(-40f32..40.0, 1..400), k in 1usize..12,
        ) {
            let top = row.iter().copied().fold(f32::MIN, f32::max);
            let sum: f64 = row.iter().map(|&x| f64::from(x - top).exp()).sum();
            let got = log_softmax(&row);
            for (&x, &y) in row.iter().zip(&got) {
                let want = f64::from(x - top) - sum.ln();
                prop_assert!((f64::from(y) - want).abs() < 1e-5, "{} instead of {}", y, want);
            }
            for (token, log_prob) in top_log_probs(&row, k) {
                prop_assert_eq!(log_prob, got[token as usize]);
            }
        }
    }
}
