//! Softmax and cross-entropy of many rows: with the CPU's kernels, or composed of the operations
//! that candle has on every device. The vocabulary is large, so on the CPU nothing is copied. It
//! must not depend on what the rows are.

use std::cell::RefCell;

use candle_core::{CpuStorage, D, DType, Device, InplaceOp1, Layout, Result, Storage, Tensor};
use rayon::prelude::*;

use crate::kernels::{self, RowLoss};

/// A distribution for each of several rows.
#[derive(Debug)]
pub(super) struct Distributions {
    /// `[rows, V]`.
    shares: Tensor,
    /// The likeliest token of each row.
    likeliest: Vec<u32>,
}

impl Distributions {
    /// softmax(logits) of each row of `logits` `[rows, V]`, computed in place.
    pub fn of(logits: Tensor) -> Result<Self> {
        if !matches!(logits.device(), Device::Cpu) {
            return Self::composed(&logits);
        }
        let likeliest = each_row(&logits, |_, row| kernels::softmax(row) as u32)?;
        Ok(Self { shares: logits, likeliest })
    }

    fn composed(logits: &Tensor) -> Result<Self> {
        let likeliest = logits.argmax(D::Minus1)?.to_vec1()?;
        Ok(Self { shares: candle_nn::ops::softmax_last_dim(logits)?, likeliest })
    }

    /// The cross-entropy of each row with the softmax of `logits`, and the gradient with respect to
    /// them, computed in place.
    pub fn against(&self, logits: Tensor) -> Result<(Tensor, Vec<RowLoss>)> {
        if !matches!(logits.device(), Device::Cpu) {
            return self.against_composed(&logits);
        }
        let width = logits.dim(1)?;
        let (storage, layout) = self.shares.storage_and_layout();
        let losses = match (&*storage, layout.contiguous_offsets()) {
            (Storage::Cpu(CpuStorage::F32(shares)), Some((from, to))) => {
                let shares = &shares[from..to];
                each_row(&logits, |index, row| {
                    let wanted = &shares[index * width..(index + 1) * width];
                    kernels::softmax_less(row, wanted, self.likeliest[index] as usize)
                })?
            }
            _ => candle_core::bail!("distributions are whole rows of f32"),
        };
        drop(storage);
        Ok((logits, losses))
    }

    fn against_composed(&self, logits: &Tensor) -> Result<(Tensor, Vec<RowLoss>)> {
        let shares = candle_nn::ops::softmax_last_dim(logits)?;
        // ln Σ exp = the largest logit minus the logarithm of its share.
        let normaliser =
            (logits.max_keepdim(D::Minus1)? - shares.max_keepdim(D::Minus1)?.log()?)?;
        let expected = (&self.shares * logits)?.sum_keepdim(D::Minus1)?;
        let losses = (normaliser - expected)?.flatten_all()?.to_vec1::<f32>()?;
        let likeliest =
            Tensor::from_slice(&self.likeliest, (self.likeliest.len(), 1), logits.device())?;
        let mark = logits.gather(&likeliest, 1)?;
        let above = logits.broadcast_gt(&mark)?.to_dtype(DType::F32)?.sum(D::Minus1)?;
        let above = above.to_vec1::<f32>()?.into_iter();
        let losses = losses.into_iter().zip(above);
        let losses = losses
            .map(|(cross_entropy, above)| RowLoss { cross_entropy, above: above as u32 })
            .collect();
        Ok(((shares - &self.shares)?, losses))
    }
}

/// Changes each row of `x` `[rows, n]` in place, given its number, on all threads.
fn each_row<T: Send>(x: &Tensor, change: impl Fn(usize, &mut [f32]) -> T + Sync) -> Result<Vec<T>> {
    let op = EachRow { width: x.dim(1)?, change, found: RefCell::default() };
    x.inplace_op1(&op)?;
    Ok(op.found.into_inner())
}

struct EachRow<F, T> {
    width: usize,
    change: F,
    found: RefCell<Vec<T>>,
}

impl<T: Send, F: Fn(usize, &mut [f32]) -> T + Sync> InplaceOp1 for EachRow<F, T> {
    fn name(&self) -> &'static str {
        "each-row"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (CpuStorage::F32(values), Some((from, to))) = (storage, layout.contiguous_offsets())
        else {
            candle_core::bail!("only whole rows of f32 are changed in place")
        };
        let rows = values[from..to].par_chunks_mut(self.width.max(1)).enumerate();
        let change = &self.change;
        *self.found.borrow_mut() = rows.map(|(index, row)| change(index, row)).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logits(rows: usize, width: usize, phase: f64) -> Tensor {
        let values = (0..rows * width).map(|i| ((i as f64 * 0.7 + phase).sin() * 9.0) as f32);
        Tensor::from_iter(values, &Device::Cpu).unwrap().reshape((rows, width)).unwrap()
    }

    #[test]
    fn the_kernels_and_candles_operations_agree() {
        let rows = 7;
        let width = 1000;
        let by_kernels = Distributions::of(logits(rows, width, 0.3)).unwrap();
        let composed = Distributions::composed(&logits(rows, width, 0.3)).unwrap();
        assert_eq!(by_kernels.likeliest, composed.likeliest);
        let (gradient, losses) = by_kernels.against(logits(rows, width, 2.0)).unwrap();
        let (expected, known) = composed.against_composed(&logits(rows, width, 2.0)).unwrap();
        let off = (gradient - expected).unwrap().abs().unwrap().max_all().unwrap();
        assert!(off.to_scalar::<f32>().unwrap() < 1e-6, "{off}");
        for (a, b) in losses.iter().zip(&known) {
            assert!((a.cross_entropy - b.cross_entropy).abs() < 1e-4, "{a:?} {b:?}");
            assert_eq!(a.above, b.above);
        }
        assert!(losses.iter().any(|loss| loss.above > 0));
    }
}
