//! Products of weights in blocks of 32 with a scale each and 8-bit activations with a scale for
//! every 32 columns. For every block in order: sum += dot · (d · x's scale), where the dot product
//! is an exact integer; then, with minima, sum += m · (x's scale · the sum of x's codes). It does
//! not depend on packing.

use std::marker::PhantomData;

use super::steps::{CodeBlocks, Prefetch, add_scaled, code_dots, dots_less, fifth_dots};
use super::steps::{level_dots, load_sums, starts, store_sums, widened};
use super::{ProductKernel, ProductStep};
use crate::kernels::block::{BLOCK, LINE};
use crate::kernels::codes32::Codes;
use crate::kernels::lanes::{LANES, Lanes};

/// The product of blocks of codes.
pub(super) struct Kernel32<W>(PhantomData<W>);

impl<W: Codes> ProductKernel for Kernel32<W> {
    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize>(step: &ProductStep, sums: *mut f32) {
        if const { L::BLOCKS > 1 && !W::FIFTH && !W::EIGHT && W::LEVELS.is_none() } {
            // SAFETY: the caller's promise.
            return unsafe { pairs::<L, M, W>(step, sums) };
        }
        // A narrow sum holds 16 columns of codes up to 31, but not 32.
        let whole_halves = const { L::NARROW && W::FIFTH && W::ZERO == 0 };
        // SAFETY: the caller's promise: groups of `columns` / 32 blocks, M prepared rows.
        unsafe {
            let rows = &step.rows.fine;
            let x = rows.codes.as_ptr().add(step.cell * BLOCK);
            let scales = rows.scales.as_ptr().add(step.cell * 8);
            let offsets = rows.offsets.as_ptr().add(step.cell * 8);
            let below = rows.starts.each_ref().map(|starts| starts.as_ptr().add(step.cell * 8));
            let x_sums = rows.sums.as_ptr().add(step.cell * 8);
            let mut prefetch = Prefetch::of(step);
            let mut total = load_sums::<L, M>(sums);
            for b in 0..step.columns / 32 {
                let group = step.weights.add(b / W::BLOCKS * W::BYTES);
                let at = b % W::BLOCKS;
                let lines = group.add(W::HEAD + at * W::CODES);
                let codes = x.add(b * 32);
                if at == 0 {
                    prefetch.lines::<L>(W::HEAD / LINE);
                }
                let mut dot = match W::ZERO {
                    8 => starts::<L, M>(below[0].add(b), 8),
                    16 => starts::<L, M>(below[1].add(b), 8),
                    _ => [L::splat_i(0); M],
                };
                if W::ZERO == 128 {
                    for (r, dot) in dot.iter_mut().enumerate() {
                        *dot = L::biased(-128 * i32::from(*x_sums.add(r * 8 + b)));
                    }
                }
                match W::LEVELS {
                    None if W::EIGHT => {
                        for g in 0..8 {
                            prefetch.next::<L>();
                            let w = L::load_b(lines.add(g * LINE));
                            dots_less::<L, M>(&mut dot, w, codes.add(g * 4), true);
                        }
                    }
                    None if whole_halves => {
                        let one = L::load_scales([1; LANES].as_ptr());
                        let mut whole = [L::splat_i(0); M];
                        fifth_dots::<L, M, 0>(&mut dot, lines, codes, &mut prefetch);
                        add_scaled::<L, M>(&mut whole, dot, one);
                        dot = [L::splat_i(0); M];
                        fifth_dots::<L, M, 1>(&mut dot, lines, codes, &mut prefetch);
                        add_scaled::<L, M>(&mut whole, dot, one);
                        dot = whole;
                    }
                    None if W::FIFTH => {
                        fifth_dots::<L, M, 0>(&mut dot, lines, codes, &mut prefetch);
                        fifth_dots::<L, M, 1>(&mut dot, lines, codes, &mut prefetch);
                    }
                    None => {
                        let block = CodeBlocks { lines, stride: W::CODES, x: codes };
                        [dot] = code_dots::<L, M, 1>(Some([dot]), block, &mut prefetch);
                    }
                    Some(levels) => {
                        let moved = &levels.moved;
                        let by_128 = W::ZERO == 128;
                        level_dots::<L, M>(&mut dot, moved, by_128, lines, codes, &mut prefetch);
                    }
                }
                if W::ZERO < 128 && !whole_halves {
                    dot = widened::<L, M>(dot);
                }
                let d = W::scales::<L>(group, at);
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

/// [`Kernel32::block`] for codes of four bits, with the integer sums of a pair of blocks in
/// registers.
///
/// # Safety
/// As [`ProductKernel::block`]; a group of `W` is a pair of blocks.
#[inline(always)]
unsafe fn pairs<L: Lanes, const M: usize, W: Codes>(step: &ProductStep, sums: *mut f32) {
    debug_assert!(W::BLOCKS == 2 && matches!(W::ZERO, 0 | 8), "{}", W::FORMAT);
    // SAFETY: the caller's promise: `columns` / 64 pairs of blocks, M prepared rows.
    unsafe {
        let rows = &step.rows.fine;
        let mut x = rows.codes.as_ptr().add(step.cell * BLOCK);
        let mut scales = rows.scales.as_ptr().add(step.cell * 8);
        let mut offsets = rows.offsets.as_ptr().add(step.cell * 8);
        let mut below = rows.starts[0].as_ptr().add(step.cell * 8);
        let mut group = step.weights;
        let mut prefetch = Prefetch::of(step);
        let mut total = load_sums::<L, M>(sums);
        // The pointer is incremented, because an index would take a register in the operand of
        // every product.
        let end = group.add(step.columns / 64 * W::BYTES);
        while group < end {
            prefetch.lines::<L>(W::HEAD / LINE);
            let start = [starts::<L, M>(below, 8), starts::<L, M>(below.add(1), 8)];
            let start = if W::ZERO == 0 { None } else { Some(start) };
            let blocks = CodeBlocks { lines: group.add(W::HEAD), stride: W::CODES, x };
            let dot = code_dots::<L, M, 2>(start, blocks, &mut prefetch);
            for (i, dot) in dot.into_iter().enumerate() {
                let dot = widened::<L, M>(dot);
                let d = W::scales::<L>(group, i);
                for r in 0..M {
                    let scale = L::mul(d, L::splat(*scales.add(r * 8 + i)));
                    total[r] = L::fma(L::float(dot[r]), scale, total[r]);
                }
                if W::MINIMA {
                    let m = L::load_f16(group.add(LINE + i * 32).cast());
                    for (r, total) in total.iter_mut().enumerate() {
                        *total = L::fma(m, L::splat(*offsets.add(r * 8 + i)), *total);
                    }
                }
            }
            group = group.add(W::BYTES);
            x = x.add(64);
            scales = scales.add(2);
            offsets = offsets.add(2);
            below = below.add(2);
        }
        store_sums::<L, M>(sums, total);
    }
}
