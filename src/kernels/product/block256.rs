//! Products of weights in superblocks of 256 columns with integer scales and 8-bit activations with
//! a scale for every 256 columns. It depends on where the parts of a superblock are, not on how
//! they were packed. Integer dot products are exact, so only the order of the sums over blocks
//! matters:
//!
//! - Q4_K, Q5_K: block = Σ dot · scale over 8 sub-blocks, then sum += block · (d · x's scale) and
//!   sum −= (minima · x's sums) · (dmin · x's scale). For Q2_K it is the same over 16 sub-blocks.
//! - Q3_K, Q6_K: the same over 16 sub-blocks without minima; IQ4_XS: over 8.
//!
//! The sum over sub-blocks is an integer too, and is converted to a float once; only IQ4_XS adds
//! floats.

use super::steps::{
    CodeBlocks, Minima, Prefetch, add_block, add_scaled, add_scaled_floats, code_dots, fifth_dots,
    level_dots, load_sums, narrow_dots, run_dot, starts, store_sums,
};
use super::{EightRows, ProductKernel, ProductStep};
use crate::kernels::block::{BLOCK, LINE, LOW};
use crate::kernels::codes32::IQ4;
use crate::kernels::lanes::{LANES, Lanes};
use crate::kernels::tile::{IQ4_HEAD, K_HEAD, K_MINIMA, K_SCALES, Q2_HEAD, Q3_HEAD};
use crate::kernels::tile::{Iq4Xs, Q2K, Q3K, Q6K, WithMinima};

impl<const PLANE: usize> WithMinima<PLANE> {
    /// The scale of a superblock, and its minima with the sums of x.
    ///
    /// # Safety
    /// `weights` is a superblock of this format.
    #[inline(always)]
    pub(super) unsafe fn scales<L: Lanes>(
        weights: *const u8,
        x_sums: *const i16,
    ) -> (L::F, Minima<L, 4>) {
        // SAFETY: the caller's promise.
        unsafe {
            let d = L::load_f16(weights.cast());
            let dmin = L::load_f16(weights.add(32).cast());
            let mut pairs = [L::splat_i(0); 4];
            for (j, pairs) in pairs.iter_mut().enumerate() {
                *pairs = L::load_pairs(weights.add(K_MINIMA + 32 * j));
            }
            (d, Minima { pairs, x_sums, dmin })
        }
    }
}

impl<const PLANE: usize> ProductKernel for WithMinima<PLANE> {
    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &ProductStep, sums: *mut f32) {
        // SAFETY: the caller's promise: a superblock of 256 columns, M prepared rows.
        unsafe {
            let rows = &step.rows.coarse;
            let codes = rows.codes.as_ptr().add(step.cell * BLOCK);
            let x_scales = rows.scales.as_ptr().add(step.cell);
            let x_sums = rows.sums.as_ptr().add(step.cell * 8);
            let mut prefetch = Prefetch::of(step);
            let mut block = [L::splat_i(0); M];
            if const { L::BLOCKS > 1 && PLANE == 0 } {
                for j in 0..4 {
                    sub_blocks::<L, M, PLANE, 2>(step, &mut block, 2 * j, codes, &mut prefetch);
                }
            } else {
                for j in 0..8 {
                    sub_blocks::<L, M, PLANE, 1>(step, &mut block, j, codes, &mut prefetch);
                }
            }
            let (d, minima) = Self::scales::<L>(step.weights, x_sums);
            add_block::<L, M, 4>(x_scales, sums, block, d, Some(minima));
        }
    }
}

/// block += dot · scale for `B` sub-blocks from the `j`-th on; `B` is 1 if there are fifth bits.
///
/// # Safety
/// As [`ProductKernel::block`]; `codes` are the superblock's.
#[inline(always)]
unsafe fn sub_blocks<L: Lanes, const M: usize, const PLANE: usize, const B: usize>(
    step: &ProductStep,
    block: &mut [L::I; M],
    j: usize,
    codes: *const i8,
    prefetch: &mut Prefetch,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let stride = PLANE + LOW;
        let lines = step.weights.add(K_HEAD + j * stride);
        let x = codes.add(j * 32);
        let mut dot = [[L::splat_i(0); M]; B];
        if const { PLANE > 0 } {
            fifth_dots::<L, M, 0>(&mut dot[0], lines, x, prefetch);
            if const { L::NARROW } {
                // A narrow sum holds 16 columns of codes up to 31.
                let scale = L::load_scales(step.weights.add(K_SCALES + LANES * j));
                add_scaled::<L, M>(block, dot[0], scale);
                dot[0] = [L::splat_i(0); M];
            }
            fifth_dots::<L, M, 1>(&mut dot[0], lines, x, prefetch);
        } else {
            dot = code_dots::<L, M, B>(None, CodeBlocks { lines, stride, x }, prefetch);
        }
        for (i, dot) in dot.into_iter().enumerate() {
            if j + i < K_HEAD / LINE {
                prefetch.next::<L>();
            }
            let scale = L::load_scales(step.weights.add(K_SCALES + LANES * (j + i)));
            add_scaled::<L, M>(block, dot, scale);
        }
    }
}

impl Q6K {
    /// Whether a line is prefetched with the `i`-th four of the 16 columns of run `j`: three with
    /// each run, and those of the head with the first runs.
    #[inline(always)]
    pub(super) fn is_prefetched(j: usize, i: usize) -> bool {
        i < 3 || j < K_HEAD / LINE
    }

    /// The codes of 16 columns: two lines of low bits, and the plane of their high bits.
    ///
    /// # Safety
    /// The lines are readable.
    #[inline(always)]
    pub(super) unsafe fn codes<L: Lanes>(plane: *const u8, lines: *const u8) -> [L::B; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let plane = L::load_b(plane);
            let (a, b) = L::nibbles(L::load_b(lines));
            let (c, d) = L::nibbles(L::load_b(lines.add(LINE)));
            [
                L::with_bits::<4>(a, plane, 0x30),
                L::with_bits::<2>(b, plane, 0x30),
                L::with_bits::<0>(c, plane, 0x30),
                L::with_bits::<-2>(d, plane, 0x30),
            ]
        }
    }
}

impl ProductKernel for Q6K {
    const EIGHT_ROWS: EightRows = EightRows::Narrow;

    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &ProductStep, sums: *mut f32) {
        // SAFETY: the caller's promise: a superblock of 256 columns, M prepared rows.
        unsafe {
            let rows = &step.rows.coarse;
            let codes = rows.codes.as_ptr().add(step.cell * BLOCK);
            let x_scales = rows.scales.as_ptr().add(step.cell);
            let below = rows.starts[1].as_ptr().add(step.cell * 16);
            let mut prefetch = Prefetch::of(step);
            // With few sums, or sums in assembly, nothing lies between prefetches anyway.
            let at_once = const { L::NARROW || M == 1 };
            if at_once {
                prefetch.lines::<L>(K_HEAD / LINE);
            }
            let mut block = [L::splat_i(0); M];
            for j in 0..16 {
                let sub = step.weights.add(K_HEAD + j / 2 * (2 * LINE + LOW));
                if at_once {
                    prefetch.lines::<L>(3);
                }
                let plane = sub.add(j % 2 * LINE);
                let lines = sub.add(2 * LINE + j % 2 * 2 * LINE);
                let w = Q6K::codes::<L>(plane, lines);
                let scale = L::load_signed_scales(step.weights.add(K_SCALES + 16 * j).cast());
                let x = codes.add(j * 16);
                if const { L::NARROW } {
                    for (r, block) in block.iter_mut().enumerate() {
                        let start = L::splat_i(*below.add(r * 16 + j));
                        let dot = run_dot::<L>(Some(start), w, x.add(r * BLOCK));
                        *block = L::add_scaled(*block, dot, scale);
                    }
                } else {
                    let mut dot = starts::<L, M>(below.add(j), 16);
                    for (i, w) in w.into_iter().enumerate() {
                        if !at_once && Self::is_prefetched(j, i) {
                            prefetch.after_sums::<L, 1, M>(1, std::array::from_mut(&mut dot));
                        }
                        narrow_dots::<L, M>(&mut dot, w, x.add(4 * i));
                    }
                    add_scaled::<L, M>(&mut block, dot, scale);
                }
            }
            let d = L::load(step.weights.cast());
            add_block::<L, M, 0>(x_scales, sums, block, d, None);
        }
    }
}

/// The scales or minima of 16 sub-blocks as bytes, in adjacent pairs for each row.
#[repr(align(64))]
struct Bytes([u8; 16 * LANES]);

impl Bytes {
    /// The pairs of sub-blocks 2 · i and 2 · i + 1.
    #[inline(always)]
    fn pairs<L: Lanes>(&self, i: usize) -> L::I {
        let pairs = &self.0[2 * LANES * i..][..2 * LANES];
        // SAFETY: 32 bytes.
        unsafe { L::load_pairs(pairs.as_ptr()) }
    }

    /// Writes the bytes of sub-blocks 4 · i to 4 · i + 3.
    #[inline(always)]
    fn put<L: Lanes>(&mut self, i: usize, bytes: L::B) {
        let to = &mut self.0[LINE * i..][..LINE];
        // SAFETY: 64 bytes.
        unsafe { L::store_b(to.as_mut_ptr(), bytes) }
    }
}

/// The codes of 16 columns, which are the pairs of bits of a line.
///
/// # Safety
/// `line` is readable.
#[inline(always)]
unsafe fn two_bits<L: Lanes>(line: *const u8) -> [L::B; 4] {
    // SAFETY: the caller's promise.
    let line = unsafe { L::load_b(line) };
    [L::bits::<0>(line, 3), L::bits::<-2>(line, 3), L::bits::<-4>(line, 3), L::bits::<-6>(line, 3)]
}

/// block += dot · scale over 16 columns for M rows, whose sums begin with `start` or 0. Sums of 16
/// products of codes up to 7 fit in 16 bits.
///
/// # Safety
/// `x` is these columns of the first of M rows, 256 codes apart; there is a start for each of them,
/// 16 apart.
#[inline(always)]
unsafe fn add_run<L: Lanes, const M: usize>(
    block: &mut [L::I; M],
    start: Option<*const i32>,
    w: [L::B; 4],
    x: *const i8,
    scale: L::I,
) {
    for (r, block) in block.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            // Not `map`, whose closure would be compiled without the caller's instruction set.
            #[allow(clippy::manual_map)]
            let start = match start {
                Some(start) => Some(L::splat_i(*start.add(r * 16))),
                None => None,
            };
            *block = L::add_half(*block, run_dot::<L>(start, w, x.add(r * BLOCK)), scale);
        }
    }
}

impl ProductKernel for Q2K {
    const EIGHT_ROWS: EightRows = EightRows::Always;

    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &ProductStep, sums: *mut f32) {
        // SAFETY: the caller's promise: a superblock of 256 columns, M prepared rows.
        unsafe {
            let rows = &step.rows.coarse;
            let codes = rows.codes.as_ptr().add(step.cell * BLOCK);
            let x_scales = rows.scales.as_ptr().add(step.cell);
            let x_sums = rows.run_sums.as_ptr().add(step.cell * 16);
            let mut prefetch = Prefetch::of(step);
            let mut scales = Bytes([0; 256]);
            let mut minima = Bytes([0; 256]);
            for i in 0..4 {
                prefetch.next::<L>();
                let (low, high) = L::nibbles(L::load_b(step.weights.add(K_SCALES + i * LINE)));
                scales.put::<L>(i, low);
                minima.put::<L>(i, high);
            }
            let mut block = [L::splat_i(0); M];
            for i in 0..8 {
                let lines = step.weights.add(Q2_HEAD + 2 * i * LINE);
                let (first, second) = L::halves(scales.pairs::<L>(i));
                let x = codes.add(32 * i);
                prefetch.next::<L>();
                add_run::<L, M>(&mut block, None, two_bits::<L>(lines), x, first);
                prefetch.next::<L>();
                let w = two_bits::<L>(lines.add(LINE));
                add_run::<L, M>(&mut block, None, w, x.add(16), second);
            }
            prefetch.next::<L>();
            let d = L::load_f16(step.weights.cast());
            let dmin = L::load_f16(step.weights.add(32).cast());
            let mut pairs = [L::splat_i(0); 8];
            for (i, pairs) in pairs.iter_mut().enumerate() {
                *pairs = minima.pairs::<L>(i);
            }
            add_block::<L, M, 8>(x_scales, sums, block, d, Some(Minima { pairs, x_sums, dmin }));
        }
    }
}

impl ProductKernel for Q3K {
    const EIGHT_ROWS: EightRows = EightRows::Always;

    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &ProductStep, sums: *mut f32) {
        // SAFETY: the caller's promise: a superblock of 256 columns, M prepared rows.
        unsafe {
            let rows = &step.rows.coarse;
            let codes = rows.codes.as_ptr().add(step.cell * BLOCK);
            let x_scales = rows.scales.as_ptr().add(step.cell);
            let below = rows.starts[0].as_ptr().add(step.cell * 16);
            let mut prefetch = Prefetch::of(step);
            prefetch.lines::<L>(Q3_HEAD / LINE);
            let mut scales = Bytes([0; 256]);
            let high = L::load_b(step.weights.add(LINE));
            let (a, b) = L::nibbles(L::load_b(step.weights.add(2 * LINE)));
            let (c, d) = L::nibbles(L::load_b(step.weights.add(3 * LINE)));
            scales.put::<L>(0, L::with_bits::<4>(a, high, 0x30));
            scales.put::<L>(1, L::with_bits::<2>(b, high, 0x30));
            scales.put::<L>(2, L::with_bits::<0>(c, high, 0x30));
            scales.put::<L>(3, L::with_bits::<-2>(d, high, 0x30));
            let mut block = [L::splat_i(0); M];
            for i in 0..8 {
                let lines = step.weights.add(Q3_HEAD + i * 3 * LINE);
                let a = L::load_b(lines);
                let b = L::load_b(lines.add(LINE));
                let c = L::load_b(lines.add(2 * LINE));
                let x = codes.add(32 * i);
                let (first, second) = L::halves(L::pairs_less(scales.pairs::<L>(i), 32));
                let fourth = L::with_bits::<-4>(L::bits::<-6>(a, 3), c, 4);
                let w = [L::bits::<0>(a, 7), L::bits::<-3>(a, 7), L::bits::<0>(b, 7), fourth];
                prefetch.lines::<L>(2);
                add_run::<L, M>(&mut block, Some(below.add(2 * i)), w, x, first);
                prefetch.next::<L>();
                let fourth = L::with_bits::<-5>(L::bits::<-6>(b, 3), c, 4);
                let w = [L::bits::<-3>(b, 7), L::bits::<0>(c, 7), L::bits::<-3>(c, 7), fourth];
                add_run::<L, M>(&mut block, Some(below.add(2 * i + 1)), w, x.add(16), second);
            }
            let d = L::load_f16(step.weights.cast());
            add_block::<L, M, 0>(x_scales, sums, block, d, None);
        }
    }
}

impl ProductKernel for Iq4Xs {
    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &ProductStep, sums: *mut f32) {
        // SAFETY: the caller's promise: a superblock of 256 columns, M prepared rows.
        unsafe {
            let rows = &step.rows.coarse;
            let codes = rows.codes.as_ptr().add(step.cell * BLOCK);
            let x_scales = rows.scales.as_ptr().add(step.cell);
            let x_sums = rows.sums.as_ptr().add(step.cell * 8);
            let mut prefetch = Prefetch::of(step);
            prefetch.lines::<L>(IQ4_HEAD / LINE);
            let mut block = [L::splat(0.0); M];
            for j in 0..8 {
                let lines = step.weights.add(IQ4_HEAD + j * LOW);
                let mut dot = [L::splat_i(0); M];
                for (r, dot) in dot.iter_mut().enumerate() {
                    *dot = L::biased(-128 * i32::from(*x_sums.add(r * 8 + j)));
                }
                let codes = codes.add(j * 32);
                level_dots::<L, M>(&mut dot, &IQ4.moved, true, lines, codes, &mut prefetch);
                let scale = L::load_i8(step.weights.add(K_SCALES + LANES * j).cast());
                add_scaled_floats::<L, M>(&mut block, dot, scale);
            }
            let d = L::load_f16(step.weights.cast());
            let mut total = load_sums::<L, M>(sums);
            for r in 0..M {
                let scale = *x_scales.add(r);
                total[r] = L::fma(block[r], L::mul(d, L::splat(scale)), total[r]);
            }
            store_sums::<L, M>(sums, total);
        }
    }
}
