//! Products of weights expanded to 8-bit codes with a float scale for every 16 columns and
//! activations with a scale for every 256 columns: block = Σ dot · scale over 16 runs in order,
//! then sum += block · x's scale. It must not depend on the blocks of a format.

use super::steps::{add_scaled_floats, dots, load_sums, store_sums};
use super::{ProductKernel, ProductStep};
use crate::kernels::block::{BLOCK, LINE};
use crate::kernels::expand::{RUN, SCALES};
use crate::kernels::lanes::Lanes;

/// The product of every expanded format.
pub(super) struct AnyExpanded;

impl ProductKernel for AnyExpanded {
    const EXPANDED: bool = true;

    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &ProductStep, sums: *mut f32) {
        // SAFETY: the caller's promise: an expanded superblock, and M prepared rows.
        unsafe {
            let rows = &step.rows.coarse;
            let x = rows.codes.as_ptr().add(step.cell * BLOCK);
            let run_sums = rows.run_sums.as_ptr().add(step.cell * 16);
            let mut block = [L::splat(0.0); M];
            for j in 0..BLOCK / RUN {
                let mut dot = [L::splat_i(0); M];
                for (r, dot) in dot.iter_mut().enumerate() {
                    *dot = L::splat_i(-64 * i32::from(*run_sums.add(r * 16 + j)));
                }
                for g in 0..RUN / 4 {
                    let w = L::load_b(step.weights.add((j * (RUN / 4) + g) * LINE));
                    dots::<L, M>(&mut dot, w, x.add(j * RUN + 4 * g));
                }
                let scale = L::load(step.weights.add(SCALES + j * LINE).cast());
                add_scaled_floats::<L, M>(&mut block, dot, scale);
            }
            let mut total = load_sums::<L, M>(sums);
            for r in 0..M {
                let scale = *rows.scales.as_ptr().add(step.cell + r);
                total[r] = L::fma(block[r], L::splat(scale), total[r]);
            }
            store_sums::<L, M>(sums, total);
        }
    }
}
