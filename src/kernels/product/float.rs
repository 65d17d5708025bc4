//! Float weights with float activations: within a superblock 64 columns at a time, each run of 64
//! summed from zero by fused multiply-adds in column order, the runs added in order.

use std::marker::PhantomData;

use super::{Kernel, Step};
use crate::kernels::lanes::{Element, LANES, Lanes};
use crate::kernels::tile::BLOCK;

/// Columns of a run.
const RUN: usize = 64;

/// Weights of a float format.
pub(super) struct Float<W>(PhantomData<W>);

impl<W: Element> Kernel for Float<W> {
    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &Step, sums: *mut f32) {
        // SAFETY: the caller's promise: `columns` columns of 16 weights, and M rows of 256 floats
        // from the cell on.
        unsafe {
            let x = step.rows.floats.as_ptr().add(step.cell * BLOCK);
            let mut ahead = step.ahead;
            let mut total = [L::splat(0.0); M];
            for r in 0..M {
                total[r] = L::load(sums.add(r * LANES));
            }
            let mut column = 0;
            while column < step.columns {
                let end = step.columns.min(column + RUN);
                let mut run = [L::splat(0.0); M];
                while column < end {
                    let w = W::load::<L>(step.weights.add(column * LANES * W::SIZE));
                    if W::SIZE == 4 || column % 2 == 0 {
                        L::prefetch(ahead);
                        ahead = ahead.wrapping_add(step.stride);
                    }
                    for r in 0..M {
                        run[r] = L::fma(w, L::splat(*x.add(r * BLOCK + column)), run[r]);
                    }
                    column += 1;
                }
                for r in 0..M {
                    total[r] = L::add(total[r], run[r]);
                }
            }
            for r in 0..M {
                L::store(sums.add(r * LANES), total[r]);
            }
        }
    }
}
