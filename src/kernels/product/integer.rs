//! Quantised weights with 8-bit activations: sums of integer products are exact, in whatever
//! order; each block's sum then enters the row's sum by one fused multiply-add, in block order.
//!
//! - Q8_0, Q4_0: for every 32 columns, sum += dot · (d · x's scale).
//! - Q4_K, Q5_K: block = Σ dot · scale over 8 sub-blocks, then sum += block · (d · x's scale) and
//!   sum −= (minima · x's sums) · (dmin · x's scale).
//! - Q6_K: the same over 16 sub-blocks, without minima.

use super::{Kernel, Step, load_sums, store_sums};
use crate::kernels::lanes::Lanes;
use crate::kernels::tile::{BLOCK, K_HEAD, K_MINIMA, K_SCALES, LINE, LOW, PAIR_4, PAIR_8};

pub(super) struct Q8_0;
pub(super) struct Q4_0;
pub(super) struct Q4K;
pub(super) struct Q5K;
pub(super) struct Q6K;

/// The next line to prefetch.
struct Prefetch {
    at: *const u8,
    stride: usize,
}

impl Prefetch {
    #[inline(always)]
    fn next<L: Lanes>(&mut self) {
        L::prefetch(self.at);
        self.at = self.at.wrapping_add(self.stride);
    }
}

/// dot += w · x for M rows; `x` is four columns of the first row.
#[inline(always)]
unsafe fn dots<L: Lanes, const M: usize>(dot: &mut [L::I; M], w: L::B, x: *const i8) {
    for (r, dot) in dot.iter_mut().enumerate() {
        // SAFETY: the caller gives M rows, 256 codes apart.
        *dot = unsafe { L::dot(*dot, w, x.add(r * BLOCK)) };
    }
}

impl Kernel for Q8_0 {
    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &Step, sums: *mut f32) {
        // SAFETY: the caller's promise: `columns` / 64 pairs of blocks, M prepared rows.
        unsafe {
            let rows = &step.rows.fine;
            let codes = rows.codes.as_ptr().add(step.cell * BLOCK);
            let scales = rows.scales.as_ptr().add(step.cell * 8);
            let starts = rows.wide.as_ptr().add(step.cell * 8);
            let mut prefetch = Prefetch { at: step.prefetch, stride: step.stride };
            let mut total = load_sums::<L, M>(sums);
            for b in 0..step.columns / 32 {
                let pair = step.weights.add(b / 2 * PAIR_8);
                let lines = pair.add(LINE + b % 2 * 512);
                let mut dot = [L::splat_i(0); M];
                for (r, dot) in dot.iter_mut().enumerate() {
                    *dot = L::biased(*starts.add(r * 8 + b));
                }
                if b % 2 == 0 {
                    prefetch.next::<L>();
                }
                for g in 0..8 {
                    prefetch.next::<L>();
                    let w = L::load_b(lines.add(g * LINE));
                    for (r, dot) in dot.iter_mut().enumerate() {
                        *dot = L::dot_biased(*dot, w, codes.add(r * BLOCK + b * 32 + g * 4));
                    }
                }
                let d = L::load_f16(pair.add(b % 2 * 32).cast());
                for r in 0..M {
                    let scale = L::mul(d, L::splat(*scales.add(r * 8 + b)));
                    total[r] = L::fma(L::float(dot[r]), scale, total[r]);
                }
            }
            store_sums::<L, M>(sums, total);
        }
    }
}

impl Kernel for Q4_0 {
    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &Step, sums: *mut f32) {
        // SAFETY: as for Q8_0.
        unsafe {
            let rows = &step.rows.fine;
            let codes = rows.codes.as_ptr().add(step.cell * BLOCK);
            let scales = rows.scales.as_ptr().add(step.cell * 8);
            let starts = rows.narrow.as_ptr().add(step.cell * 8);
            let mut prefetch = Prefetch { at: step.prefetch, stride: step.stride };
            let mut total = load_sums::<L, M>(sums);
            for b in 0..step.columns / 32 {
                let pair = step.weights.add(b / 2 * PAIR_4);
                let lines = pair.add(LINE + b % 2 * LOW);
                let mut dot = [L::splat_i(0); M];
                for (r, dot) in dot.iter_mut().enumerate() {
                    *dot = L::splat_i(*starts.add(r * 8 + b));
                }
                if b % 2 == 0 {
                    prefetch.next::<L>();
                }
                for g in 0..4 {
                    prefetch.next::<L>();
                    let (low, high) = L::nibbles(L::load_b(lines.add(g * LINE)));
                    dots::<L, M>(&mut dot, low, codes.add(b * 32 + g * 8));
                    dots::<L, M>(&mut dot, high, codes.add(b * 32 + g * 8 + 4));
                }
                let d = L::load_f16(pair.add(b % 2 * 32).cast());
                for r in 0..M {
                    let scale = L::mul(d, L::splat(*scales.add(r * 8 + b)));
                    total[r] = L::fma(L::float(dot[r]), scale, total[r]);
                }
            }
            store_sums::<L, M>(sums, total);
        }
    }
}

impl Kernel for Q4K {
    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &Step, sums: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { with_minima::<L, M, 0>(step, sums) }
    }
}

impl Kernel for Q5K {
    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &Step, sums: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { with_minima::<L, M, LINE>(step, sums) }
    }
}

/// Q4_K (`PLANE` 0) and Q5_K (`PLANE` a line of fifth bits before each sub-block).
///
/// # Safety
/// As [`Kernel::block`].
#[inline(always)]
unsafe fn with_minima<L: Lanes, const M: usize, const PLANE: usize>(step: &Step, sums: *mut f32) {
    // SAFETY: the caller's promise: a superblock of 256 columns, M prepared rows.
    unsafe {
        let rows = &step.rows.coarse;
        let codes = rows.codes.as_ptr().add(step.cell * BLOCK);
        let x_sums = rows.sums.as_ptr().add(step.cell * 8);
        let mut prefetch = Prefetch { at: step.prefetch, stride: step.stride };
        let mut block = [L::splat(0.0); M];
        for j in 0..8 {
            let lines = step.weights.add(K_HEAD + j * (PLANE + LOW));
            let mut dot = [L::splat_i(0); M];
            if PLANE == 0 {
                for g in 0..4 {
                    prefetch.next::<L>();
                    let (low, high) = L::nibbles(L::load_b(lines.add(g * LINE)));
                    dots::<L, M>(&mut dot, low, codes.add(j * 32 + g * 8));
                    dots::<L, M>(&mut dot, high, codes.add(j * 32 + g * 8 + 4));
                }
            } else {
                prefetch.next::<L>();
                let plane = L::load_b(lines);
                let lines = lines.add(PLANE);
                let codes = codes.add(j * 32);
                fifth_bits::<L, M, 0, 1>(&mut dot, plane, lines, codes, &mut prefetch);
                fifth_bits::<L, M, 2, 3>(&mut dot, plane, lines, codes, &mut prefetch);
                fifth_bits::<L, M, 4, 5>(&mut dot, plane, lines, codes, &mut prefetch);
                fifth_bits::<L, M, 6, 7>(&mut dot, plane, lines, codes, &mut prefetch);
            }
            let scale = L::load_u8(step.weights.add(K_SCALES + 16 * j));
            for r in 0..M {
                block[r] = L::fma(L::float(dot[r]), scale, block[r]);
            }
        }
        let mut low = [L::splat_i(0); M];
        for j in 0..4 {
            prefetch.next::<L>();
            let minima = L::load_pairs(step.weights.add(K_MINIMA + 32 * j));
            for (r, low) in low.iter_mut().enumerate() {
                *low = L::dot_pairs(*low, minima, x_sums.add(r * 8 + 2 * j));
            }
        }
        prefetch.next::<L>();
        let d = L::load_f16(step.weights.cast());
        let dmin = L::load_f16(step.weights.add(32).cast());
        let mut total = load_sums::<L, M>(sums);
        for r in 0..M {
            let scale = *rows.scales.as_ptr().add(step.cell + r);
            total[r] = L::fma(block[r], L::mul(d, L::splat(scale)), total[r]);
            total[r] = L::fma(L::float(low[r]), L::mul(dmin, L::splat(-scale)), total[r]);
        }
        store_sums::<L, M>(sums, total);
    }
}

/// One line of low bits: groups A and B = A + 1 of four columns.
#[inline(always)]
unsafe fn fifth_bits<L: Lanes, const M: usize, const A: u32, const B: u32>(
    dot: &mut [L::I; M],
    plane: L::B,
    lines: *const u8,
    codes: *const i8,
    prefetch: &mut Prefetch,
) {
    // SAFETY: the caller gives four lines and M rows of 32 codes.
    unsafe {
        prefetch.next::<L>();
        let (low, high) = L::nibbles(L::load_b(lines.add(A as usize / 2 * LINE)));
        dots::<L, M>(dot, L::fifth::<A>(low, plane), codes.add(A as usize * 4));
        dots::<L, M>(dot, L::fifth::<B>(high, plane), codes.add(B as usize * 4));
    }
}

impl Kernel for Q6K {
    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &Step, sums: *mut f32) {
        // SAFETY: the caller's promise: a superblock of 256 columns, M prepared rows.
        unsafe {
            let rows = &step.rows.coarse;
            let codes = rows.codes.as_ptr().add(step.cell * BLOCK);
            let starts = rows.wide.as_ptr().add(step.cell * 16);
            let mut prefetch = Prefetch { at: step.prefetch, stride: step.stride };
            let mut block = [L::splat(0.0); M];
            for j in 0..16 {
                let sub = step.weights.add(K_HEAD + j / 2 * (2 * LINE + LOW));
                let mut dot = [L::splat_i(0); M];
                for (r, dot) in dot.iter_mut().enumerate() {
                    *dot = L::splat_i(*starts.add(r * 16 + j));
                }
                prefetch.next::<L>();
                let plane = L::load_b(sub.add(j % 2 * LINE));
                let lines = sub.add(2 * LINE + j % 2 * 2 * LINE);
                let codes = codes.add(j * 16);
                prefetch.next::<L>();
                let (low, high) = L::nibbles(L::load_b(lines));
                dots::<L, M>(&mut dot, L::sixth::<0>(low, plane), codes);
                dots::<L, M>(&mut dot, L::sixth::<1>(high, plane), codes.add(4));
                prefetch.next::<L>();
                let (low, high) = L::nibbles(L::load_b(lines.add(LINE)));
                dots::<L, M>(&mut dot, L::sixth::<2>(low, plane), codes.add(8));
                dots::<L, M>(&mut dot, L::sixth::<3>(high, plane), codes.add(12));
                let scale = L::load_i8(step.weights.add(K_SCALES + 16 * j).cast());
                for r in 0..M {
                    block[r] = L::fma(L::float(dot[r]), scale, block[r]);
                }
            }
            let d = L::load(step.weights.cast());
            let mut total = load_sums::<L, M>(sums);
            for r in 0..M {
                let scale = *rows.scales.as_ptr().add(step.cell + r);
                total[r] = L::fma(block[r], L::mul(d, L::splat(scale)), total[r]);
            }
            store_sums::<L, M>(sums, total);
        }
    }
}
