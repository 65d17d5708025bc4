//! Compares rows of logits with the wanted distribution: softmax, cross-entropy and its gradient.
//! It does not depend on models or threads. The rows are independent, so a caller with many of them
//! can divide them among threads.

use super::isa::Isa;
use super::lanes::{self, LANES, Lanes, Work};
use super::logits::greatest;
use super::math;

/// What [`softmax_less`] measured in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowLoss {
    /// ln Σ exp(logits) − Σ wanted · logits, in nats.
    pub cross_entropy: f32,
    /// How many logits are above that of the given token: its rank, starting at 0.
    pub above: u32,
}

/// Turns `logits` into softmax(logits) and returns the index of the greatest logit (the lowest
/// index if several are equal), or 0 if there are none.
pub fn softmax(logits: &mut [f32]) -> usize {
    lanes::run(Isa::best(), Softmax(logits))
}

/// Turns `logits` into softmax(logits) − `wanted`, the gradient of the cross-entropy with respect
/// to the logits. The returned rank is that of `token`.
///
/// # Panics
/// If `wanted` and `logits` differ in length, or there is no such token.
pub fn softmax_less(logits: &mut [f32], wanted: &[f32], token: usize) -> RowLoss {
    assert_eq!(logits.len(), wanted.len(), "a share for each logit");
    lanes::run(Isa::best(), SoftmaxLess { logits, wanted, token })
}

struct Softmax<'a>(&'a mut [f32]);

impl Work for Softmax<'_> {
    type Output = usize;

    #[inline(always)]
    fn run<L: Lanes>(self) -> usize {
        let peak = greatest::<L>(self.0);
        let likeliest = self.0.iter().position(|&logit| logit >= peak).unwrap_or(0);
        let factor = 1.0 / exponents::<L>(self.0, peak);
        for x in self.0 {
            *x *= factor;
        }
        likeliest
    }
}

struct SoftmaxLess<'a> {
    logits: &'a mut [f32],
    wanted: &'a [f32],
    token: usize,
}

impl Work for SoftmaxLess<'_> {
    type Output = RowLoss;

    #[inline(always)]
    fn run<L: Lanes>(self) -> RowLoss {
        let Self { logits, wanted, token } = self;
        let mark = logits[token];
        let above = logits.iter().map(|&x| u32::from(x > mark)).sum();
        let expected = product::<L>(logits, wanted);
        let peak = greatest::<L>(logits);
        let sum = exponents::<L>(logits, peak);
        let factor = 1.0 / sum;
        for (x, wanted) in logits.iter_mut().zip(wanted) {
            *x = *x * factor - wanted;
        }
        RowLoss { cross_entropy: peak + sum.ln() - expected, above }
    }
}

/// Σ x · y.
#[inline(always)]
fn product<L: Lanes>(x: &[f32], y: &[f32]) -> f32 {
    let ((x, rest_x), (y, rest_y)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    let mut sum = L::mul(math::padded::<L>(rest_x, 0.0), math::padded::<L>(rest_y, 0.0));
    for (x, y) in x.iter().zip(y) {
        // SAFETY: 16 floats each.
        sum = unsafe { L::fma(L::load(x.as_ptr()), L::load(y.as_ptr()), sum) };
    }
    math::sum::<L>(sum)
}

/// x = e^(x − peak); returns their sum.
#[inline(always)]
fn exponents<L: Lanes>(x: &mut [f32], peak: f32) -> f32 {
    let peak = L::splat(peak);
    let (whole, rest) = x.as_chunks_mut::<LANES>();
    let mut sum = L::splat(0.0);
    for x in whole {
        // SAFETY: 16 floats.
        unsafe {
            let weight = math::exp::<L>(L::sub(L::load(x.as_ptr()), peak));
            L::store(x.as_mut_ptr(), weight);
            sum = L::add(sum, weight);
        }
    }
    let mut last = [0.0; LANES];
    // SAFETY: 16 floats.
    unsafe {
        let weights = math::exp::<L>(L::sub(math::padded::<L>(rest, 0.0), peak));
        L::store(last.as_mut_ptr(), weights);
    }
    rest.copy_from_slice(&last[..rest.len()]);
    math::sum::<L>(sum) + rest.iter().sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: usize, phase: f64) -> Vec<f32> {
        (0..n).map(|i| ((i as f64 * 0.7 + phase).sin() * 9.0) as f32).collect()
    }

    /// The same in double precision, element by element.
    fn plain(logits: &[f32]) -> (Vec<f64>, f64) {
        let sum: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
        (logits.iter().map(|&x| f64::from(x).exp() / sum).collect(), sum.ln())
    }

    #[test]
    fn every_instruction_set_gives_the_softmax_and_its_gradient() {
        for n in [1, 15, 16, 40, 4099] {
            let truth = row(n, 0.3);
            let logits = row(n, 2.0);
            let (shares, _) = plain(&truth);
            let greatest = truth.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let likeliest = truth.iter().position(|&x| x == greatest).unwrap();
            let (found, normaliser) = plain(&logits);
            let product: f64 = shares.iter().zip(&logits).map(|(p, &z)| p * f64::from(z)).sum();
            let above = logits.iter().filter(|&&x| x > logits[likeliest]).count();
            let mut bits: Option<Vec<u32>> = None;
            for isa in Isa::here() {
                let mut wanted = truth.clone();
                assert_eq!(lanes::run(isa, Softmax(&mut wanted)), likeliest, "{isa:?} {n}");
                let mut gradient = logits.clone();
                let logits = &mut gradient[..];
                let work = SoftmaxLess { logits, wanted: &wanted, token: likeliest };
                let loss = lanes::run(isa, work);
                assert_eq!(loss.above as usize, above, "{isa:?} {n}");
                let expected = normaliser - product;
                let far = (f64::from(loss.cross_entropy) - expected).abs();
                assert!(far < 1e-5 * expected.abs().max(1.0), "{isa:?} {n}: {far}");
                for ((&x, p), q) in gradient.iter().zip(&shares).zip(&found) {
                    assert!((f64::from(x) - (q - p)).abs() < 1e-6, "{isa:?} {n}: {x}");
                }
                let now = wanted.iter().chain(&gradient).map(|x| x.to_bits()).collect();
                assert_eq!(bits.get_or_insert_with(|| Vec::clone(&now)), &now, "{isa:?} {n}");
            }
        }
    }

    #[test]
    fn equals_go_to_the_lower_and_nothing_is_a_distribution_too() {
        assert_eq!(softmax(&mut [1.0, 3.0, 3.0]), 1);
        assert_eq!(softmax(&mut []), 0);
    }
}
