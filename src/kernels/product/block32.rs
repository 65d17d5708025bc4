//! Weights in blocks of 32 with a scale each, and 8-bit activations with a scale for every 32
//! columns. For every block in order: sum += dot · (d · x's scale), the dot product an exact
//! integer; then, with minima, sum += m · (x's scale · the sum of x's codes).

use std::marker::PhantomData;

use super::{Kernel, Prefetch, Step, dots, fifth_bits, load_sums, store_sums};
use crate::kernels::lanes::Lanes;
use crate::kernels::tile::{
    BLOCK, FP4_LEVELS, IQ4_LEVELS, LINE, LOW, PAIR_4, PAIR_4_1, PAIR_5, PAIR_5_1, PAIR_8, QUAD_FP4,
};

pub(super) struct Q8_0;

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

/// Blocks whose codes have four bits in `LOW` bytes and perhaps a fifth in a line before them.
pub(super) trait Codes {
    /// Blocks that share a line of scales.
    const BLOCKS: usize = 2;
    /// Bytes of as many.
    const BYTES: usize;
    /// Whether a line of minima follows that of scales.
    const MINIMA: bool = false;
    /// Whether a line of fifth bits precedes the codes of a block.
    const FIFTH: bool = false;
    /// What is taken off a code, or off a level moved up by as much.
    const ZERO: u32;
    /// What a code stands for, moved up by `ZERO`: the same 16 levels four times.
    const LEVELS: Option<&'static [u8; LINE]> = None;

    /// The scales of the `at`-th block.
    ///
    /// # Safety
    /// `group` is a group of this format.
    #[inline(always)]
    unsafe fn scale<L: Lanes>(group: *const u8, at: usize) -> L::F {
        // SAFETY: the caller's promise.
        unsafe { L::load_f16(group.add(at * 32).cast()) }
    }
}

pub(super) struct Q4_0;
pub(super) struct Q4_1;
pub(super) struct Q5_0;
pub(super) struct Q5_1;
pub(super) struct Iq4Nl;
pub(super) struct Mxfp4;

impl Codes for Q4_0 {
    const BYTES: usize = PAIR_4;
    const ZERO: u32 = 8;
}

impl Codes for Q4_1 {
    const BYTES: usize = PAIR_4_1;
    const MINIMA: bool = true;
    const ZERO: u32 = 0;
}

impl Codes for Q5_0 {
    const BYTES: usize = PAIR_5;
    const FIFTH: bool = true;
    const ZERO: u32 = 16;
}

impl Codes for Q5_1 {
    const BYTES: usize = PAIR_5_1;
    const MINIMA: bool = true;
    const FIFTH: bool = true;
    const ZERO: u32 = 0;
}

impl Codes for Iq4Nl {
    const BYTES: usize = PAIR_4;
    const ZERO: u32 = 128;
    const LEVELS: Option<&'static [u8; LINE]> = Some(&IQ4);
}

impl Codes for Mxfp4 {
    const BLOCKS: usize = 4;
    const BYTES: usize = QUAD_FP4;
    const ZERO: u32 = 16;
    const LEVELS: Option<&'static [u8; LINE]> = Some(&FP4);

    #[inline(always)]
    unsafe fn scale<L: Lanes>(group: *const u8, at: usize) -> L::F {
        // SAFETY: the caller's promise.
        unsafe { L::load_half_e8m0(group.add(at * 16)) }
    }
}

/// The levels of IQ4_NL and IQ4_XS, moved up by 128.
pub(super) static IQ4: [u8; LINE] = moved(&IQ4_LEVELS, 128);
/// Those of MXFP4, moved up by 16.
static FP4: [u8; LINE] = moved(&FP4_LEVELS, 16);

const fn moved(levels: &[i8; 16], zero: u8) -> [u8; LINE] {
    let mut out = [0; LINE];
    let mut i = 0;
    while i < LINE {
        out[i] = (levels[i % 16] as u8).wrapping_add(zero);
        i += 1;
    }
    out
}

/// The product of blocks of codes.
pub(super) struct Block32<W>(PhantomData<W>);

impl<W: Codes> Kernel for Block32<W> {
    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &Step, sums: *mut f32) {
        // SAFETY: the caller's promise: groups of `columns` / 32 blocks, M prepared rows.
        unsafe {
            let rows = &step.rows.fine;
            let x = rows.codes.as_ptr().add(step.cell * BLOCK);
            let scales = rows.scales.as_ptr().add(step.cell * 8);
            let offsets = rows.offsets.as_ptr().add(step.cell * 8);
            let narrow = rows.narrow.as_ptr().add(step.cell * 8);
            let wide = rows.wide.as_ptr().add(step.cell * 8);
            let head = if W::MINIMA { 2 * LINE } else { LINE };
            let bytes = if W::FIFTH { LINE + LOW } else { LOW };
            let mut prefetch = Prefetch { at: step.prefetch, stride: step.stride };
            let mut total = load_sums::<L, M>(sums);
            for b in 0..step.columns / 32 {
                let group = step.weights.add(b / W::BLOCKS * W::BYTES);
                let at = b % W::BLOCKS;
                let lines = group.add(head + at * bytes);
                let codes = x.add(b * 32);
                if at == 0 {
                    prefetch.next::<L>();
                    if W::MINIMA {
                        prefetch.next::<L>();
                    }
                }
                let mut dot = [L::splat_i(0); M];
                for (r, dot) in dot.iter_mut().enumerate() {
                    *dot = match W::ZERO {
                        0 => L::splat_i(0),
                        8 => L::splat_i(*narrow.add(r * 8 + b)),
                        16 => L::splat_i(2 * *narrow.add(r * 8 + b)),
                        _ => L::biased(*wide.add(r * 8 + b)),
                    };
                }
                if W::FIFTH {
                    prefetch.next::<L>();
                    let plane = L::load_b(lines);
                    let lines = lines.add(LINE);
                    fifth_bits::<L, M, 0, 1>(&mut dot, plane, lines, codes, &mut prefetch);
                    fifth_bits::<L, M, 2, 3>(&mut dot, plane, lines, codes, &mut prefetch);
                    fifth_bits::<L, M, 4, 5>(&mut dot, plane, lines, codes, &mut prefetch);
                    fifth_bits::<L, M, 6, 7>(&mut dot, plane, lines, codes, &mut prefetch);
                } else {
                    for g in 0..4 {
                        prefetch.next::<L>();
                        let (low, high) = L::nibbles(L::load_b(lines.add(g * LINE)));
                        let codes = codes.add(g * 8);
                        level_dots::<L, W, M>(&mut dot, low, codes);
                        level_dots::<L, W, M>(&mut dot, high, codes.add(4));
                    }
                }
                let d = W::scale::<L>(group, at);
                for r in 0..M {
                    let scale = L::mul(d, L::splat(*scales.add(r * 8 + b)));
                    total[r] = L::fma(L::float(dot[r]), scale, total[r]);
                }
                if W::MINIMA {
                    let m = L::load_f16(group.add(LINE + at * 32).cast());
                    for (r, total) in total.iter_mut().enumerate() {
                        *total = L::fma(m, L::splat(*offsets.add(r * 8 + b)), *total);
                    }
                }
            }
            store_sums::<L, M>(sums, total);
        }
    }
}

/// dot += the weights of four columns · x for M rows.
///
/// # Safety
/// `x` is four columns of the first of M rows.
#[inline(always)]
unsafe fn level_dots<L: Lanes, W: Codes, const M: usize>(
    dot: &mut [L::I; M],
    codes: L::B,
    x: *const i8,
) {
    // SAFETY: the caller's promise; a line of levels.
    unsafe {
        match W::LEVELS {
            None => dots::<L, M>(dot, codes, x),
            Some(levels) => {
                let w = L::lookup(L::load_b(levels.as_ptr()), codes);
                if W::ZERO == 128 {
                    biased_dots::<L, M>(dot, w, x);
                } else {
                    dots::<L, M>(dot, w, x);
                }
            }
        }
    }
}

/// dot += (w − 128) · x for M rows, on the terms of [`Lanes::dot_biased`].
///
/// # Safety
/// `x` is four columns of the first of M rows.
#[inline(always)]
pub(super) unsafe fn biased_dots<L: Lanes, const M: usize>(
    dot: &mut [L::I; M],
    w: L::B,
    x: *const i8,
) {
    for (r, dot) in dot.iter_mut().enumerate() {
        // SAFETY: the caller gives M rows, 256 codes apart.
        *dot = unsafe { L::dot_biased(*dot, w, x.add(r * BLOCK)) };
    }
}
