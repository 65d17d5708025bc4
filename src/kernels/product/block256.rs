//! Weights in superblocks of 256 columns with integer scales, and 8-bit activations with a scale for
//! every 256. Integer dot products are exact, so only the order of the sums over blocks counts:
//!
//! - Q4_K, Q5_K: block = Σ dot · scale over 8 sub-blocks, then sum += block · (d · x's scale) and
//!   sum −= (minima · x's sums) · (dmin · x's scale). Q2_K: the same over 16 sub-blocks.
//! - Q3_K, Q6_K: the same over 16 sub-blocks, IQ4_XS over 8, without minima.

use super::block32::{IQ4, biased_dots};
use super::{Kernel, Prefetch, Step, dots, fifth_bits, load_sums, store_sums};
use crate::kernels::lanes::{LANES, Lanes};
use crate::kernels::tile::{
    BLOCK, IQ4_HEAD, K_HEAD, K_MINIMA, K_SCALES, LINE, LOW, Q2_HEAD, Q3_HEAD,
};

pub(super) struct Q2K;
pub(super) struct Q3K;
pub(super) struct Q4K;
pub(super) struct Q5K;
pub(super) struct Q6K;
pub(super) struct Iq4Xs;

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

/// The four lines of a superblock's 16 × 16 scales, a line for every four sub-blocks, as bytes.
#[repr(align(64))]
struct Scales([u8; 16 * LANES]);

/// dot += the first to fourth pairs of bits of a line · x for M rows.
///
/// # Safety
/// `x` is 16 columns of the first of M rows.
#[inline(always)]
unsafe fn pair_dots<L: Lanes, const M: usize>(dot: &mut [L::I; M], line: L::B, x: *const i8) {
    // SAFETY: the caller's promise.
    unsafe {
        dots::<L, M>(dot, L::pair::<0>(line), x);
        dots::<L, M>(dot, L::pair::<1>(line), x.add(4));
        dots::<L, M>(dot, L::pair::<2>(line), x.add(8));
        dots::<L, M>(dot, L::pair::<3>(line), x.add(12));
    }
}

impl Kernel for Q2K {
    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &Step, sums: *mut f32) {
        // SAFETY: the caller's promise: a superblock of 256 columns, M prepared rows.
        unsafe {
            let rows = &step.rows.coarse;
            let codes = rows.codes.as_ptr().add(step.cell * BLOCK);
            let x_sums = rows.run_sums.as_ptr().add(step.cell * 16);
            let mut prefetch = Prefetch { at: step.prefetch, stride: step.stride };
            let (mut scales, mut minima) = (Scales([0; 256]), Scales([0; 256]));
            for line in 0..4 {
                prefetch.next::<L>();
                let packed = L::load_b(step.weights.add(K_SCALES + line * LINE));
                let (low, high) = L::nibbles(packed);
                L::store_b(scales.0.as_mut_ptr().add(line * LINE), low);
                L::store_b(minima.0.as_mut_ptr().add(line * LINE), high);
            }
            let mut block = [L::splat(0.0); M];
            let mut low = [L::splat_i(0); M];
            for j in 0..16 {
                prefetch.next::<L>();
                let line = L::load_b(step.weights.add(Q2_HEAD + j * LINE));
                let mut dot = [L::splat_i(0); M];
                pair_dots::<L, M>(&mut dot, line, codes.add(j * 16));
                let scale = L::load_u8(scales.0.as_ptr().add(LANES * j));
                for r in 0..M {
                    block[r] = L::fma(L::float(dot[r]), scale, block[r]);
                }
            }
            for j in 0..8 {
                let minima = L::load_pairs(minima.0.as_ptr().add(2 * LANES * j));
                for (r, low) in low.iter_mut().enumerate() {
                    *low = L::dot_pairs(*low, minima, x_sums.add(r * 16 + 2 * j));
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
}

/// Where the dot products of a Q3_K sub-block begin, and their scale.
struct Start {
    starts: *const i32,
    scales: *const u8,
}

/// Sub-block `j` of Q3_K, 16 columns: two bits from a line, the third of groups A to D from the
/// plane; block += dot · scale.
///
/// # Safety
/// `line` is readable; the starts and `codes` are those of M rows.
#[inline(always)]
unsafe fn third_bits<
    L: Lanes,
    const M: usize,
    const A: u32,
    const B: u32,
    const C: u32,
    const D: u32,
>(
    block: &mut [L::F; M],
    (plane, line): (L::B, *const u8),
    start: &Start,
    codes: *const i8,
    j: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut dot = [L::splat_i(0); M];
        for (r, dot) in dot.iter_mut().enumerate() {
            // −4 · the sum of 16 codes, from −32 times.
            *dot = L::splat_i(*start.starts.add(r * 16 + j) >> 3);
        }
        let (line, codes) = (L::load_b(line), codes.add(j * 16));
        dots::<L, M>(&mut dot, L::third::<A>(L::pair::<0>(line), plane), codes);
        dots::<L, M>(&mut dot, L::third::<B>(L::pair::<1>(line), plane), codes.add(4));
        dots::<L, M>(&mut dot, L::third::<C>(L::pair::<2>(line), plane), codes.add(8));
        dots::<L, M>(&mut dot, L::third::<D>(L::pair::<3>(line), plane), codes.add(12));
        let scale = L::sub(L::load_u8(start.scales.add(LANES * j)), L::splat(32.0));
        for r in 0..M {
            block[r] = L::fma(L::float(dot[r]), scale, block[r]);
        }
    }
}

impl Kernel for Q3K {
    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &Step, sums: *mut f32) {
        // SAFETY: the caller's promise: a superblock of 256 columns, M prepared rows.
        unsafe {
            let rows = &step.rows.coarse;
            let codes = rows.codes.as_ptr().add(step.cell * BLOCK);
            let mut prefetch = Prefetch { at: step.prefetch, stride: step.stride };
            let mut scales = Scales([0; 256]);
            let to = scales.0.as_mut_ptr();
            let high = L::load_b(step.weights.add(LINE));
            let (a, b) = L::nibbles(L::load_b(step.weights.add(2 * LINE)));
            let (c, d) = L::nibbles(L::load_b(step.weights.add(3 * LINE)));
            L::store_b(to, L::sixth::<0>(a, high));
            L::store_b(to.add(LINE), L::sixth::<1>(b, high));
            L::store_b(to.add(2 * LINE), L::sixth::<2>(c, high));
            L::store_b(to.add(3 * LINE), L::sixth::<3>(d, high));
            for _ in 0..Q3_HEAD / LINE {
                prefetch.next::<L>();
            }
            let starts = rows.wide.as_ptr().add(step.cell * 16);
            let start = Start { starts, scales: scales.0.as_ptr() };
            let mut block = [L::splat(0.0); M];
            for i in 0..8 {
                let sub = step.weights.add(Q3_HEAD + i * 3 * LINE);
                for _ in 0..3 {
                    prefetch.next::<L>();
                }
                let plane = L::load_b(sub);
                let (first, second) = ((plane, sub.add(LINE)), (plane, sub.add(2 * LINE)));
                third_bits::<L, M, 0, 1, 2, 3>(&mut block, first, &start, codes, 2 * i);
                third_bits::<L, M, 4, 5, 6, 7>(&mut block, second, &start, codes, 2 * i + 1);
            }
            let d = L::load_f16(step.weights.cast());
            let mut total = load_sums::<L, M>(sums);
            for r in 0..M {
                let scale = *rows.scales.as_ptr().add(step.cell + r);
                total[r] = L::fma(block[r], L::mul(d, L::splat(scale)), total[r]);
            }
            store_sums::<L, M>(sums, total);
        }
    }
}

impl Kernel for Iq4Xs {
    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &Step, sums: *mut f32) {
        // SAFETY: the caller's promise: a superblock of 256 columns, M prepared rows.
        unsafe {
            let rows = &step.rows.coarse;
            let codes = rows.codes.as_ptr().add(step.cell * BLOCK);
            let x_sums = rows.sums.as_ptr().add(step.cell * 8);
            let mut prefetch = Prefetch { at: step.prefetch, stride: step.stride };
            for _ in 0..IQ4_HEAD / LINE {
                prefetch.next::<L>();
            }
            let levels = L::load_b(IQ4.as_ptr());
            let mut block = [L::splat(0.0); M];
            for j in 0..8 {
                let lines = step.weights.add(IQ4_HEAD + j * LOW);
                let mut dot = [L::splat_i(0); M];
                for (r, dot) in dot.iter_mut().enumerate() {
                    *dot = L::biased(-128 * i32::from(*x_sums.add(r * 8 + j)));
                }
                for g in 0..4 {
                    prefetch.next::<L>();
                    let (low, high) = L::nibbles(L::load_b(lines.add(g * LINE)));
                    let codes = codes.add(j * 32 + g * 8);
                    biased_dots::<L, M>(&mut dot, L::lookup(levels, low), codes);
                    biased_dots::<L, M>(&mut dot, L::lookup(levels, high), codes.add(4));
                }
                let scale = L::load_i8(step.weights.add(K_SCALES + LANES * j).cast());
                for r in 0..M {
                    block[r] = L::fma(L::float(dot[r]), scale, block[r]);
                }
            }
            let d = L::load_f16(step.weights.cast());
            let mut total = load_sums::<L, M>(sums);
            for r in 0..M {
                let scale = *rows.scales.as_ptr().add(step.cell + r);
                total[r] = L::fma(block[r], L::mul(d, L::splat(scale)), total[r]);
            }
            store_sums::<L, M>(sums, total);
        }
    }
}
