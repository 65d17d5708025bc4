//! What drawing a token needs of a whole row of logits, and of the noise of all tokens. The bits do
//! not depend on the instruction set, because a text must not. It must not depend on samplers.

use super::isa::Isa;
use super::lanes::{self, LANES, Lanes, Work};
use super::math;

/// The greatest number of each `run` numbers, a multiple of 16; minus infinity where there is none.
/// NaN is not a number.
pub fn maxima(row: &[f32], run: usize) -> Vec<f32> {
    lanes::run(Isa::best(), Maxima { row, run })
}

/// Σ exp((x − `peak`) / `temperature`), where `peak` is the greatest number of the row; plus
/// infinity counts as the largest number, and NaN as nothing. Its relative error is at most 2e-6.
pub fn sum_exp(row: &[f32], peak: f32, temperature: f32) -> f64 {
    lanes::run(Isa::best(), SumExp { row, peak, temperature })
}

/// ln Σ exp(logits), in nats, within 1e-5; minus infinity if no logit is a number.
pub fn log_sum_exp(logits: &[f32]) -> f32 {
    let peak = maxima(logits, RUN).into_iter().fold(f32::NEG_INFINITY, f32::max).min(f32::MAX);
    if peak == f32::NEG_INFINITY {
        return peak;
    }
    peak + sum_exp(logits, peak, 1.0).ln() as f32
}

/// 64 random bits for a token: a SplitMix64 stream (Steele, Lea and Flood 2014; Stafford's variant
/// 13) that begins at `key` and is indexed by token.
#[inline(always)]
pub fn token_bits(key: u64, token: u32) -> u64 {
    mix(key.wrapping_add((u64::from(token) + 1).wrapping_mul(GOLDEN)))
}

/// What every sixteenth of some logits, from each of the first sixteen on, are and have at most.
#[derive(Clone, Copy, Debug)]
pub struct Peaks {
    /// The greatest logit, minus infinity if there is none. NaN is none.
    pub logits: [f32; LANES],
    /// The greatest [`token_bits`].
    pub bits: [u64; LANES],
}

/// The peaks of the logits of these tokens.
///
/// # Panics
/// If there are more logits than tokens.
pub fn peaks(logits: &[f32], tokens: &[u32], key: u64) -> Peaks {
    lanes::run(Isa::best(), FindPeaks { logits, tokens: &tokens[..logits.len()], key })
}

/// SplitMix64's increment.
pub const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64's finaliser: a bijection in which every input bit reaches every output bit.
#[inline(always)]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// How many floats are added up in f32: few enough that the sum stays precise.
const RUN: usize = 64 * LANES;

struct Maxima<'a> {
    row: &'a [f32],
    run: usize,
}

impl Work for Maxima<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn run<L: Lanes>(self) -> Vec<f32> {
        let mut maxima = Vec::with_capacity(self.row.len().div_ceil(self.run));
        for run in self.row.chunks(self.run) {
            maxima.push(greatest::<L>(run));
        }
        maxima
    }
}

/// The greatest number of a row.
#[inline(always)]
pub(super) fn greatest<L: Lanes>(row: &[f32]) -> f32 {
    /// Enough that no comparison waits for the one before.
    const WIDE: usize = 4;
    let least = L::splat(f32::NEG_INFINITY);
    let mut best = [least; WIDE];
    let (wide, rest) = row.as_chunks::<{ WIDE * LANES }>();
    for x in wide {
        for (i, best) in best.iter_mut().enumerate() {
            // SAFETY: 16 of 64 floats.
            *best = L::max(unsafe { L::load(x.as_ptr().add(i * LANES)) }, *best);
        }
    }
    for x in rest.chunks(LANES) {
        best[0] = L::max(math::padded::<L>(x, f32::NEG_INFINITY), best[0]);
    }
    L::greatest(L::max(L::max(best[0], best[1]), L::max(best[2], best[3])))
}

struct SumExp<'a> {
    row: &'a [f32],
    peak: f32,
    temperature: f32,
}

impl Work for SumExp<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<L: Lanes>(self) -> f64 {
        let mut total = 0.0;
        for run in self.row.chunks(RUN) {
            let (whole, rest) = run.as_chunks::<LANES>();
            let mut sums = [L::splat(0.0); 2];
            for (i, x) in whole.iter().enumerate() {
                // SAFETY: 16 floats.
                sums[i % 2] = L::add(sums[i % 2], self.weight::<L>(unsafe { L::load(x.as_ptr()) }));
            }
            if !rest.is_empty() {
                sums[0] =
                    L::add(sums[0], self.weight::<L>(math::padded::<L>(rest, f32::NEG_INFINITY)));
            }
            total += f64::from(math::sum::<L>(L::add(sums[0], sums[1])));
        }
        total
    }
}

impl SumExp<'_> {
    #[inline(always)]
    fn weight<L: Lanes>(&self, x: L::F) -> L::F {
        // The operands' order keeps NaN, which becomes the least power.
        let below = L::sub(L::min(L::splat(f32::MAX), x), L::splat(self.peak));
        math::exp::<L>(L::mul(below, L::splat(1.0 / self.temperature)))
    }
}

struct FindPeaks<'a> {
    logits: &'a [f32],
    tokens: &'a [u32],
    key: u64,
}

impl Work for FindPeaks<'_> {
    type Output = Peaks;

    /// Written so that the compiler makes vectors of it.
    #[inline(always)]
    fn run<L: Lanes>(self) -> Peaks {
        let mut peaks = Peaks { logits: [f32::NEG_INFINITY; LANES], bits: [0; LANES] };
        let (logits, last_logits) = self.logits.as_chunks::<LANES>();
        let (tokens, last_tokens) = self.tokens.as_chunks::<LANES>();
        for (logits, tokens) in logits.iter().zip(tokens) {
            for i in 0..LANES {
                peaks.add(i, logits[i], token_bits(self.key, tokens[i]));
            }
        }
        for (i, (&logit, &token)) in last_logits.iter().zip(last_tokens).enumerate() {
            peaks.add(i, logit, token_bits(self.key, token));
        }
        peaks
    }
}

impl Peaks {
    #[inline(always)]
    fn add(&mut self, i: usize, logit: f32, bits: u64) {
        self.logits[i] = if logit > self.logits[i] { logit } else { self.logits[i] };
        self.bits[i] = if bits > self.bits[i] { bits } else { self.bits[i] };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers with NaN and both infinities among them, if `odd`.
    fn row(n: usize, odd: bool) -> Vec<f32> {
        let number = |i: usize| ((i as f64 * 0.7 + 2.0).sin() * 19.0) as f32;
        let odd_number = |i: usize| match i % 37 {
            3 => f32::NAN,
            11 => f32::NEG_INFINITY,
            29 => f32::INFINITY,
            _ => number(i),
        };
        (0..n).map(|i| if odd { odd_number(i) } else { number(i) }).collect()
    }

    /// The greatest number, element by element.
    fn greatest(numbers: impl IntoIterator<Item = f32>) -> f32 {
        numbers.into_iter().filter(|x| !x.is_nan()).fold(f32::NEG_INFINITY, f32::max)
    }

    #[test]
    fn every_instruction_set_finds_the_greatest_numbers_and_the_same_sum() {
        for n in [1, 15, 16, 40, 1024, 4099] {
            for odd in [false, true] {
                let row = row(n, odd);
                let peak = greatest(row.iter().copied()).min(f32::MAX);
                let mut sums = Vec::new();
                for isa in Isa::here() {
                    for run in [16, 256] {
                        let found = lanes::run(isa, Maxima { row: &row, run });
                        let expected = row.chunks(run).map(|run| greatest(run.iter().copied()));
                        assert_eq!(found, expected.collect::<Vec<_>>(), "{isa:?} {n}");
                    }
                    for temperature in [0.3, 1.0, 1.7] {
                        let sum = lanes::run(isa, SumExp { row: &row, peak, temperature });
                        let weight = |&x: &f32| f64::from((x.min(f32::MAX) - peak) / temperature);
                        let numbers = row.iter().filter(|x| !x.is_nan());
                        let expected: f64 = numbers.map(|x| weight(x).exp()).sum();
                        let far = (sum / expected - 1.0).abs();
                        assert!(far < 2e-6, "{isa:?} {n} {temperature}: {far:e}");
                        sums.push(sum.to_bits());
                    }
                }
                assert!(sums.chunks(3).all(|each| each == &sums[..3]), "{n}");
            }
        }
        assert_eq!(log_sum_exp(&[]), f32::NEG_INFINITY);
        assert_eq!(log_sum_exp(&[f32::NAN, f32::NEG_INFINITY]), f32::NEG_INFINITY);
        assert!((log_sum_exp(&[3.0, 3.0]) - 3.0 - std::f32::consts::LN_2).abs() < 1e-6);
    }

    #[test]
    fn every_instruction_set_finds_the_peaks() {
        for n in [1, 15, 16, 40, 256] {
            let logits = row(n, true);
            let tokens: Vec<u32> = (0..n as u32).map(|i| 3 * i + 1).collect();
            for isa in Isa::here() {
                let found = lanes::run(isa, FindPeaks { logits: &logits, tokens: &tokens, key: 7 });
                for i in 0..LANES {
                    let every = |at: &usize| at % LANES == i;
                    let logit = greatest((0..n).filter(every).map(|at| logits[at]));
                    let bits = (0..n).filter(every).map(|at| token_bits(7, tokens[at])).max();
                    assert_eq!(found.logits[i], logit, "{isa:?} {n}, {i}");
                    assert_eq!(found.bits[i], bits.unwrap_or(0), "{isa:?} {n}, {i}");
                }
            }
        }
    }
}
