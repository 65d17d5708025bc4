//! Products of weights that are levels with a float scale for every 16 columns, as `tile::levels`
//! lays them out, and activations with a scale for every 256 columns: block = Σ dot · scale over 16
//! runs in order, then sum += block · x's scale. It must not depend on the blocks of a format.

use super::steps::{Prefetch, load_sums, run_dot, store_sums};
use super::{EightRows, ProductKernel, ProductStep};
use crate::kernels::block::{BLOCK, LINE, RUN};
use crate::kernels::lanes::{LANES, Lanes};
use crate::kernels::tile::RunScales;

/// The product of levels, which are too large for narrow sums if `LARGE`; their scales are half
/// floats if `HALVES`, otherwise a unit and integers.
pub(super) struct OfLevels<const LARGE: bool, const HALVES: bool>;

impl<const LARGE: bool, const HALVES: bool> ProductKernel for OfLevels<LARGE, HALVES> {
    const EIGHT_ROWS: EightRows = EightRows::Always;

    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &ProductStep, sums: *mut f32) {
        // SAFETY: the caller's promise: a superblock of codes and M prepared rows; a line of
        // levels.
        unsafe {
            let rows = &step.rows.coarse;
            let x = rows.codes.as_ptr().add(step.cell * BLOCK);
            let below = rows.starts[1].as_ptr().add(step.cell * (BLOCK / RUN));
            let x_sums = rows.run_sums.as_ptr().add(step.cell * (BLOCK / RUN));
            let levels = L::load_b(step.levels.as_ptr());
            let mut prefetch = Prefetch::of(step);
            let head =
                const { if HALVES { RunScales::Halves.bytes() } else { RunScales::Odd.bytes() } };
            prefetch.lines::<L>(head / LINE);
            let unit = if HALVES { L::splat(1.0) } else { L::load(step.weights.cast()) };
            let mut block = [L::splat(0.0); M];
            for j in 0..BLOCK / RUN {
                let lines = step.weights.add(head + j * (RUN / 8) * LINE);
                prefetch.lines::<L>(2);
                let (a, b) = L::nibbles(L::load_b(lines));
                let (c, d) = L::nibbles(L::load_b(lines.add(LINE)));
                // Not by `map`, whose closure would not be compiled for the instruction set.
                let w = [
                    L::lookup(levels, a),
                    L::lookup(levels, b),
                    L::lookup(levels, c),
                    L::lookup(levels, d),
                ];
                let scale = if HALVES {
                    L::load_f16(step.weights.add(j * 2 * LANES).cast())
                } else {
                    L::mul(unit, L::load_i8(step.weights.add(LINE + j * LANES).cast()))
                };
                for (r, block) in block.iter_mut().enumerate() {
                    let at = r * (BLOCK / RUN) + j;
                    let x = x.add(r * BLOCK + j * RUN);
                    let dot = if LARGE {
                        let start = L::splat_i(-64 * i32::from(*x_sums.add(at)));
                        let first = L::dot(L::dot(start, w[0], x), w[1], x.add(4));
                        L::dot(L::dot(first, w[2], x.add(8)), w[3], x.add(12))
                    } else {
                        L::widened(run_dot::<L>(Some(L::splat_i(*below.add(at))), w, x))
                    };
                    *block = L::fma(L::float(dot), scale, *block);
                }
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
