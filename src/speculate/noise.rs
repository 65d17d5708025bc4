//! Counter-based noise: a pure function of (seed, position, token), the same on every platform. It
//! does not depend on what was drawn before, so one seed gives one text however the tokens were
//! drafted (and a drafter may look at the target's noise in advance).

use super::rows::{self, SEARCHED};
use crate::kernels::{GOLDEN, mix, peaks, token_bits};

/// The noise of all tokens at one position: a separate SplitMix64 stream, indexed by token.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    key: u64,
}

impl Noise {
    /// The noise of `seed` for the token at `position` (0 is the first token of the prompt).
    pub fn new(seed: u64, position: usize) -> Self {
        let seeded = mix(seed.wrapping_add(GOLDEN));
        Self { key: mix(seeded.wrapping_add((position as u64 + 1).wrapping_mul(GOLDEN))) }
    }

    /// 64 random bits for `token`.
    pub fn bits(self, token: u32) -> u64 {
        token_bits(self.key, token)
    }

    /// Standard Gumbel noise for `token`: adding it to log-probabilities and taking the largest sum
    /// draws from the distribution.
    pub fn gumbel(self, token: u32) -> f64 {
        gumbel(self.bits(token))
    }
}

/// The tokens with the largest weight + scale · Gumbel noise. Few tokens come close to the best, so
/// the noise of the others need not be computed.
pub(super) struct GumbelTopK {
    noise: Noise,
    scale: f64,
    count: usize,
    /// (token, score), largest first, ties by lower id.
    best: Vec<(u32, f64)>,
    /// The last score of those, once there are `count`.
    least: f64,
}

impl GumbelTopK {
    /// For the `count` largest scores, at least one.
    pub(super) fn new(noise: Noise, scale: f64, count: usize) -> Self {
        let best = Vec::with_capacity(count + 1);
        Self { noise, scale, count, best, least: f64::NEG_INFINITY }
    }

    /// Whether a token of this weight and these bits may be among the best; one of weight NaN or
    /// minus infinity never is.
    fn admits(&self, weight: f64, bits: u64) -> bool {
        weight + self.scale * gumbel_bound(bits) > self.least
    }

    /// Takes a token into account.
    pub(super) fn offer(&mut self, token: u32, weight: f64) {
        let bits = self.noise.bits(token);
        if self.admits(weight, bits) {
            let score = weight + self.scale * gumbel(bits);
            let order = |a: &(u32, f64)| a.1 > score || (a.1 == score && a.0 < token);
            self.best.insert(self.best.partition_point(order), (token, score));
            self.best.truncate(self.count);
            if let Some(&(_, least)) = self.best.get(self.count - 1) {
                self.least = least;
            }
        }
    }

    /// Takes every token of a row into account. Logit i is that of `token(i)`; `weight` rises with
    /// a logit.
    pub(super) fn offer_row(
        &mut self,
        row: &[f32],
        token: impl Fn(u32) -> u32,
        weight: impl Fn(f32) -> f64,
    ) {
        let mut tokens = [0; SEARCHED];
        for (first, logits) in (0..).step_by(SEARCHED).zip(row.chunks(SEARCHED)) {
            let tokens = &mut tokens[..logits.len()];
            for (i, to) in (first..).zip(&mut *tokens) {
                *to = token(i);
            }
            let peaks = peaks(logits, tokens, self.noise.key);
            let every = peaks.bits.len();
            for (i, (logit, bits)) in peaks.logits.into_iter().zip(peaks.bits).enumerate() {
                if self.admits(weight(logit), bits) {
                    for (&token, &x) in tokens.iter().zip(logits).skip(i).step_by(every) {
                        self.offer(token, weight(x));
                    }
                }
            }
        }
    }

    /// The best, as (token, score), largest score first.
    pub(super) fn best(self) -> Vec<(u32, f64)> {
        self.best
    }
}

/// −ln(−ln u) with u the middle of one of 2^53 equal parts of (0, 1).
fn gumbel(bits: u64) -> f64 {
    let u = ((bits >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64);
    -rows::ln(-rows::ln(u))
}

/// A cheap upper bound of [`gumbel`]: −ln u ≥ 1 − u, and 1 − u is at least the power of two given
/// by its leading zeros.
fn gumbel_bound(bits: u64) -> f64 {
    f64::from((!bits).leading_zeros() + 1) * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-square of `counts` against equal shares; for 255 degrees of freedom the upper 1e-6 tail
    /// is beyond 373 and the lower one below 162.
    fn chi_square(counts: &[u64]) -> f64 {
        let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        counts.iter().map(|&c| (c as f64 - expected).powi(2) / expected).sum()
    }

    fn assert_uniform(what: &str, values: impl Iterator<Item = u64>) {
        let mut counts = [[0u64; 256]; 8];
        for value in values {
            for (byte, counts) in value.to_le_bytes().into_iter().zip(&mut counts) {
                counts[usize::from(byte)] += 1;
            }
        }
        for (byte, counts) in counts.iter().enumerate() {
            let x = chi_square(counts);
            assert!((162.0..373.0).contains(&x), "{what}, byte {byte}: chi-square {x}");
        }
    }

    #[test]
    fn bits_are_uniform_along_every_counter() {
        let n = 100_000u32;
        assert_uniform("tokens", (0..n).map(|t| Noise::new(0, 0).bits(t)));
        assert_uniform("positions", (0..n).map(|p| Noise::new(0, p as usize).bits(0)));
        assert_uniform("seeds", (0..n).map(|s| Noise::new(u64::from(s), 0).bits(0)));
        // Neighbouring values of each counter differ as unrelated numbers do.
        let base = |i: u32| Noise::new(7, i as usize).bits(i);
        assert_uniform(
            "token to token",
            (0..n).map(|i| Noise::new(7, i as usize).bits(i + 1) ^ base(i)),
        );
        let next = |i: u32| Noise::new(7, i as usize + 1).bits(i);
        assert_uniform("position to position", (0..n).map(|i| next(i) ^ base(i)));
        assert_uniform("seed to seed", (0..n).map(|i| Noise::new(8, i as usize).bits(i) ^ base(i)));
    }

    #[test]
    fn the_same_bits_on_every_platform() {
        assert_eq!(Noise::new(42, 17).bits(1234), 0xC8A4_B7BD_D021_1D94);
        assert_eq!(Noise::new(42, 17).gumbel(1234).to_bits(), 0x3FF6_97AD_1934_E2F4);
    }

    #[test]
    fn gumbel_has_its_mean_and_variance_and_stays_below_its_bound() {
        let n = 200_000u32;
        let draws: Vec<f64> = (0..n).map(|t| Noise::new(3, 5).gumbel(t)).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let variance = draws.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!((mean - 0.577_215_66).abs() < 0.015, "mean {mean}");
        assert!(
            (variance - std::f64::consts::PI.powi(2) / 6.0).abs() < 0.03,
            "variance {variance}"
        );
        for bits in (0..n).map(|t| Noise::new(3, 5).bits(t)).chain([0, u64::MAX, u64::MAX << 11]) {
            assert!(gumbel(bits) <= gumbel_bound(bits), "bits {bits:x}");
            assert!(gumbel(bits).is_finite());
        }
    }
}
