//! What is minimised: SmoothL1 to the target's features and the cross-entropy with its distribution
//! (method.md, Training a head), with gradients in closed form.
//!
//! The vocabulary is by far the largest dimension in training. So the logits are computed a few
//! rows at a time and only for rows that count, they never enter the graph of gradients, and the
//! target's distribution is computed once for all outputs that are compared with it.

use candle_core::{DType, Result, Tensor};
use serde::{Deserialize, Serialize};

use super::Options;
use super::ops::{Products, function_of};
use super::softmax::Distributions;
use crate::kernels::RowLoss;

/// How many floats of logits are held at a time: few enough to fit in the last-level cache or
/// nearly, but enough that the time for reading and packing the LM head for each product is
/// negligible.
const AT_ONCE: usize = 1 << 22;

/// The minimum number of rows of logits computed at a time: fewer would read the LM head too often.
const FEWEST_ROWS: usize = 64;

/// An output of the head whose loss is computed.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// `[n, H]`: estimates of the next features.
    pub output: Tensor,
    /// m: the block that it came from.
    pub depth: usize,
    /// How many steps the head had read its own outputs.
    pub step: usize,
    /// The weight of its loss.
    pub weight: f64,
}

/// Computes the losses of outputs against the target.
#[derive(Clone, Debug)]
pub struct LossComputer {
    /// `[V, H]`, frozen, as products read it.
    lm_head: Tensor,
    products: Products,
    vloss: f64,
    ploss: f64,
}

/// How good the head's estimates are, at one depth and after a number of steps on its own outputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// m: how many blocks were run.
    pub depth: usize,
    /// 0 if it read the target's features; s if it read its own outputs s times in a row.
    pub step: usize,
    /// How many rows counted.
    pub rows: usize,
    /// SmoothL1 between estimated and true features, averaged over components, and over rows after
    /// [`Self::mean`].
    pub vloss: f64,
    /// Cross-entropy with the target's distribution, in nats: the sum of all rows, or their mean.
    pub ploss: f64,
    /// The number of rows, or their share, in which the target's likeliest token is among the
    /// head's 1, 2 and 3 likeliest.
    pub right: [f64; 3],
}

impl Measure {
    /// Adds the rows that count `here`, without SmoothL1.
    fn count(&mut self, losses: &[RowLoss], here: &[bool]) {
        for (loss, _) in losses.iter().zip(here).filter(|(_, counts)| **counts) {
            self.rows += 1;
            self.ploss += f64::from(loss.cross_entropy);
            for (n, right) in (0..).zip(&mut self.right) {
                *right += if loss.above <= n { 1.0 } else { 0.0 };
            }
        }
    }

    /// Adds the sums of further rows to these sums.
    pub(super) fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.vloss += other.vloss;
        self.ploss += other.ploss;
        for (sum, more) in self.right.iter_mut().zip(other.right) {
            *sum += more;
        }
    }

    /// The means of these sums.
    #[must_use]
    pub fn mean(self) -> Self {
        let per_row = 1.0 / (self.rows as f64 + TINY);
        let right = self.right.map(|count| count * per_row);
        Self { vloss: self.vloss * per_row, ploss: self.ploss * per_row, right, ..self }
    }
}

/// Added to the number of rows by which a mean is divided, as in the published trainer.
const TINY: f64 = 1e-5;

/// The result of [`LossComputer::compute`].
#[derive(Debug)]
pub struct LossOutput {
    /// The part of the loss that has gradients: a scalar.
    pub loss: Tensor,
    /// The sums for each estimate.
    pub sums: Vec<Measure>,
}

impl LossComputer {
    /// Losses under the target's LM head `[V, H]` with the options' weights of the two losses.
    ///
    /// # Errors
    /// If the device fails.
    pub fn new(lm_head: &Tensor, options: &Options) -> Result<Self> {
        let products = Products::of(options.precision, lm_head.device());
        let lm_head = products.argument(&lm_head.to_dtype(DType::F32)?)?;
        Ok(Self { lm_head, products, vloss: options.vloss, ploss: options.ploss })
    }

    /// How its matrix products are computed.
    pub(super) fn products(&self) -> Products {
        self.products
    }

    /// Compares every estimate with `labels` `[n, H]`, the target's features. `counts[s]` says
    /// which rows count at step s; those of later steps are among those of the first. `all_rows` is
    /// the number by which the sums of losses are divided: the rows that count at step 0 in all
    /// batches of this optimiser step.
    ///
    /// The loss is Σ weight · (vloss · SmoothL1 + ploss · cross-entropy) over estimates and rows,
    /// divided by `all_rows` + 1e-5. A head with its `own` LM head `[scored, H]`, which learns too,
    /// does not estimate features, so only the cross-entropy counts.
    ///
    /// # Errors
    /// If the device fails.
    pub fn compute(
        &self,
        own: Option<&Tensor>,
        estimates: &[Estimate],
        labels: &Tensor,
        counts: &[Vec<bool>],
        all_rows: usize,
    ) -> Result<LossOutput> {
        let counted: Vec<u32> = match counts.first() {
            Some(first) => {
                (0u32..).zip(first).filter(|(_, counts)| **counts).map(|x| x.0).collect()
            }
            None => Vec::new(),
        };
        let at_once = (AT_ONCE / self.lm_head.dim(0)?).max(FEWEST_ROWS);
        let named = |estimate: &Estimate| Measure {
            depth: estimate.depth,
            step: estimate.step,
            ..Measure::default()
        };
        let mut sums: Vec<Measure> = estimates.iter().map(named).collect();
        let mut slopes: Vec<Vec<Tensor>> = vec![Vec::new(); estimates.len()];
        let mut own_slope: Option<Tensor> = None;
        for rows in counted.chunks(at_once) {
            let index = Tensor::from_slice(rows, rows.len(), labels.device())?;
            let features = labels.index_select(&index, 0)?;
            let read = self.products.argument(&features)?;
            let logits = self.products.plain(&read, &self.lm_head.t()?)?;
            let truth = Truth { features, distributions: Distributions::of(logits)? };
            for ((estimate, sums), slopes) in estimates.iter().zip(&mut sums).zip(&mut slopes) {
                let here = counts.get(estimate.step);
                let here = rows.iter().map(|&row| {
                    here.and_then(|counts| counts.get(row as usize)).is_some_and(|counts| *counts)
                });
                let here: Vec<bool> = here.collect();
                let output = estimate.output.detach().index_select(&index, 0)?;
                let weight = estimate.weight / (all_rows as f64 + TINY);
                let (slope, by_own) = self.compare(own, &output, &truth, &here, sums)?;
                slopes.push((slope * weight)?);
                if let Some(by_own) = by_own {
                    let by_own = (by_own * weight)?;
                    own_slope = Some(match own_slope.take() {
                        Some(sum) => (sum + by_own)?,
                        None => by_own,
                    });
                }
            }
        }
        let mut loss = Tensor::zeros((), DType::F32, labels.device())?;
        let index = Tensor::from_slice(&counted, counted.len(), labels.device())?;
        for ((estimate, slopes), sums) in estimates.iter().zip(slopes).zip(&sums) {
            if slopes.is_empty() {
                continue;
            }
            let slope = Tensor::zeros(estimate.output.shape(), DType::F32, labels.device())?
                .index_add(&index, &Tensor::cat(&slopes, 0)?, 0)?;
            let total = self.vloss * sums.vloss + self.ploss * sums.ploss;
            let value = estimate.weight * total / (all_rows as f64 + TINY);
            let value = Tensor::new(value as f32, labels.device())?;
            loss = (loss + function_of(&estimate.output, value, move |_| Ok(slope.clone()))?)?;
        }
        if let (Some(own), Some(slope)) = (own, own_slope) {
            // Its part of the loss is counted with the outputs.
            let nothing = Tensor::zeros((), DType::F32, labels.device())?;
            loss = (loss + function_of(own, nothing, move |_| Ok(slope.clone()))?)?;
        }
        Ok(LossOutput { loss, sums })
    }

    /// Adds the rows of `output` `[rows, H]` that count `here` to `sums`. Returns the gradients of
    /// their summed loss with respect to `output` and to the LM head `own`, with which only the
    /// cross-entropy counts.
    fn compare(
        &self,
        own: Option<&Tensor>,
        output: &Tensor,
        truth: &Truth,
        here: &[bool],
        sums: &mut Measure,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let products = self.products;
        let lm_head = match own {
            Some(own) => products.argument(own)?,
            None => self.lm_head.clone(),
        };
        let logits = products.plain(&products.argument(output)?, &lm_head.t()?)?;
        let (by_logits, losses) = truth.distributions.against(logits)?;
        let slope = products.argument(&by_logits)?;
        sums.count(&losses, here);
        let counts: Vec<f32> = here.iter().map(|&counts| f32::from(u8::from(counts))).collect();
        let counts = Tensor::from_vec(counts, (here.len(), 1), output.device())?;
        let by_output = (products.plain(&slope, &lm_head)? * self.ploss)?;
        if own.is_some() {
            let counted = output.broadcast_mul(&(&counts * self.ploss)?)?;
            let by_own = products.plain(&slope.t()?, &products.argument(&counted)?)?;
            return Ok((by_output.broadcast_mul(&counts)?, Some(by_own)));
        }
        let hidden = output.dim(1)? as f64;
        let off = (output - &truth.features)?;
        // SmoothL1 with β = 1: c · (d − c / 2), where c is d clamped to ±1 and is also the slope.
        let slope = off.clamp(-1f32, 1f32)?;
        let vloss = (&slope * (&off - (&slope * 0.5)?)?)?.sum_keepdim(1)?;
        let vloss = (vloss * &counts)?.sum_all()?.to_scalar::<f32>()?;
        sums.vloss += f64::from(vloss) / hidden;
        let gradient = ((slope * (self.vloss / hidden))? + by_output)?;
        Ok((gradient.broadcast_mul(&counts)?, None))
    }
}

/// The target's features and distributions of some rows.
struct Truth {
    /// `[rows, H]`.
    features: Tensor,
    /// The distributions over the tokens that the head scores.
    distributions: Distributions,
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};
    use candle_nn::ops::{log_softmax, softmax};

    fn wave(rows: usize, columns: usize, phase: f64, size: f64) -> Tensor {
        let values = (0..rows * columns).map(|i| ((i as f64 * 0.7 + phase).sin() * size) as f32);
        let values: Vec<f32> = values.collect();
        Tensor::from_vec(values, (rows, columns), &Device::Cpu).unwrap()
    }

    /// The formula of method.md, Training a head, with candle's own gradients. An LM head of its
    /// `own` has no SmoothL1.
    fn plain(
        output: &Tensor,
        labels: &Tensor,
        (lm_head, own): (&Tensor, Option<&Tensor>),
        mask: &[bool],
        options: &Options,
    ) -> Tensor {
        let mask: Vec<f32> = mask.iter().map(|&counts| f32::from(u8::from(counts))).collect();
        let rows: f64 = mask.iter().map(|&x| f64::from(x)).sum();
        let mask = Tensor::new(mask, &Device::Cpu).unwrap();
        let logits = |x: &Tensor, lm_head: &Tensor| x.matmul(&lm_head.t().unwrap()).unwrap();
        let truth = softmax(&logits(labels, lm_head), 1).unwrap();
        let said = log_softmax(&logits(output, own.unwrap_or(lm_head)), 1).unwrap();
        let ploss = (truth * said).unwrap().sum(1).unwrap();
        let mut loss = (ploss * -options.ploss).unwrap();
        if own.is_none() {
            let off = (output - labels).unwrap();
            let small = off.abs().unwrap().lt(1.0f32).unwrap();
            let squared = (off.sqr().unwrap() * 0.5).unwrap();
            let linear = (off.abs().unwrap() - 0.5).unwrap();
            let vloss = small.where_cond(&squared, &linear).unwrap().mean(1).unwrap();
            loss = (loss + vloss).unwrap();
        }
        ((loss * mask).unwrap().sum_all().unwrap() / (rows + 1e-5)).unwrap()
    }

    #[test]
    fn value_and_gradient_are_those_of_the_formula() {
        // More rows than are held at a time with this vocabulary.
        let rows = 150;
        let vocab = 20_000;
        let labels = wave(rows, 6, 0.3, 1.5);
        let lm_head = wave(vocab, 6, 0.9, 2.0);
        let mask: Vec<bool> = (0..rows).map(|row| row % 3 != 1).collect();
        let counted = mask.iter().filter(|&&counts| counts).count();
        let own = Var::from_tensor(&wave(vocab, 4, 0.1, 1.0)).unwrap();
        // Own LM head, losses, weight, and the most that value and gradient may be off.
        let cases =
            [(None, 1.0, 0.1, 1.0, [1e-5, 1e-4]), (Some(&own), 0.0, 0.7, 0.5, [1e-4, 1e-3])];
        for (own, vloss, ploss, weight, [value_off, gradient_off]) in cases {
            let width = if own.is_some() { 4 } else { 6 };
            let output = Var::from_tensor(&wave(rows, width, 2.0, 1.5)).unwrap();
            let options = Options { vloss, ploss, ..Options::default() };
            let head = own.map(Var::as_tensor);
            let expected =
                (plain(&output, &labels, (&lm_head, head), &mask, &options) * weight).unwrap();
            let losses = LossComputer::new(&lm_head, &options).unwrap();
            let estimate =
                Estimate { output: output.as_tensor().clone(), depth: 1, step: 0, weight };
            let counts = [mask.clone()];
            let found = losses.compute(head, &[estimate], &labels, &counts, counted).unwrap();
            let [a, b] = [&found.loss, &expected].map(|loss| loss.to_scalar::<f32>().unwrap());
            assert!((a - b).abs() < value_off, "{a} {b}");
            for var in std::iter::once(&output).chain(own) {
                let [a, b] = [&found.loss, &expected]
                    .map(|loss| loss.backward().unwrap().get(var).unwrap().clone());
                let off = (&a - &b).unwrap().abs().unwrap().max_all().unwrap();
                let size = b.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
                assert!(off.to_scalar::<f32>().unwrap() < gradient_off * size, "{off} of {size}");
            }
            assert_eq!(found.sums[0].rows, counted);
            assert_eq!(found.sums[0].vloss > 0.0, own.is_none());
        }
    }

    #[test]
    fn a_token_is_right_by_its_rank() {
        // The LM head is the identity, so that features are logits.
        let lm_head = Tensor::eye(4, DType::F32, &Device::Cpu).unwrap();
        let labels = Tensor::new(&[[9f32, 0.0, 0.0, 0.0]; 4], &Device::Cpu).unwrap();
        let output = [
            [4f32, 3.0, 2.0, 1.0],
            [3.0, 4.0, 2.0, 1.0],
            [2.0, 4.0, 3.0, 1.0],
            [1.0, 4.0, 3.0, 2.0],
        ];
        let output = Tensor::new(&output, &Device::Cpu).unwrap();
        let losses = LossComputer::new(&lm_head, &Options::default()).unwrap();
        let first = Estimate { output: output.clone(), depth: 2, step: 0, weight: 1.0 };
        let second = Estimate { output, depth: 2, step: 1, weight: 1.0 };
        let counts = [vec![true; 4], vec![true, true, false, false]];
        let found = losses.compute(None, &[first, second], &labels, &counts, 4).unwrap();
        assert_eq!(found.sums[0].right, [1.0, 2.0, 3.0]);
        assert_eq!((found.sums[1].rows, found.sums[1].right), (2, [1.0, 2.0, 2.0]));
        let measure = found.sums[0].clone().mean();
        assert_eq!((measure.depth, measure.rows), (2, 4));
        assert!((measure.right[1] - 0.5).abs() < 1e-5);
    }

    #[test]
    fn nothing_to_count_is_no_loss_and_no_gradient() {
        let output = Var::from_tensor(&wave(3, 4, 0.0, 1.0)).unwrap();
        let losses = LossComputer::new(&wave(5, 4, 0.0, 1.0), &Options::default()).unwrap();
        let estimate =
            Estimate { output: output.as_tensor().clone(), depth: 1, step: 0, weight: 1.0 };
        let found = losses.compute(None, &[estimate], &wave(3, 4, 1.0, 1.0), &[vec![false; 3]], 0);
        let found = found.unwrap();
        assert_eq!(found.loss.to_scalar::<f32>().unwrap(), 0.0);
        assert_eq!(found.sums, [Measure { depth: 1, ..Measure::default() }]);
    }
}
