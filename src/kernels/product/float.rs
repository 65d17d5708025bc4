//! Products of float weights and float activations. Within a superblock, each run of 64 columns is
//! summed from zero by fused multiply-adds in column order, and the runs are added in order. It
//! must not depend on packing.

use std::marker::PhantomData;

use super::steps::{load_sums, store_sums};
use super::{ProductKernel, ProductStep};
use crate::kernels::block::{BLOCK, LINE};
use crate::kernels::lanes::{Element, LANES, Lanes};

/// Columns in a run.
const RUN: usize = 64;

/// Weights of a float format.
pub(super) struct Float<W>(PhantomData<W>);

impl<W: Element> ProductKernel for Float<W> {
    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &ProductStep, sums: *mut f32) {
        // SAFETY: the caller's promise: `columns` columns of 16 weights, and M rows of 256 floats
        // from the cell on.
        unsafe {
            let mut total = load_sums::<L, M>(sums);
            // With few rows the machine would idle, because the additions of one run depend on each
            // other. So four runs are summed in parallel.
            if M <= 2 && step.columns == BLOCK {
                runs::<L, W, M, 4>(step, 0, RUN, &mut total);
            } else {
                for column in (0..step.columns).step_by(RUN) {
                    let columns = RUN.min(step.columns - column);
                    runs::<L, W, M, 1>(step, column, columns, &mut total);
                }
            }
            store_sums::<L, M>(sums, total);
        }
    }
}

/// R runs of `columns` columns from `column` on, added to the totals in order.
///
/// # Safety
/// As [`ProductKernel::block`]; the columns exist.
#[inline(always)]
unsafe fn runs<L: Lanes, W: Element, const M: usize, const R: usize>(
    step: &ProductStep,
    column: usize,
    columns: usize,
    total: &mut [L::F; M],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let x = step.rows.floats.as_ptr().add(step.cell * BLOCK + column);
        let weights = step.weights.add(column * LANES * W::SIZE);
        let line = column * LANES * W::SIZE / LINE;
        let mut prefetch = step.prefetch.wrapping_add(line * step.stride);
        let mut sums = [[L::splat(0.0); M]; R];
        for c in 0..columns {
            for (i, sums) in sums.iter_mut().enumerate() {
                let c = i * RUN + c;
                let w = W::load::<L>(weights.add(c * LANES * W::SIZE));
                for (r, sum) in sums.iter_mut().enumerate() {
                    *sum = L::fma(w, L::splat(*x.add(r * BLOCK + c)), *sum);
                }
            }
            // One line is prefetched for each line read; two columns of 16-bit weights share a
            // line.
            if W::SIZE == 4 || c % 2 == 0 {
                for _ in 0..R {
                    L::prefetch(prefetch);
                    prefetch = prefetch.wrapping_add(step.stride);
                }
            }
        }
        for sums in sums {
            for (total, sum) in total.iter_mut().zip(sums) {
                *total = L::add(*total, sum);
            }
        }
    }
}
