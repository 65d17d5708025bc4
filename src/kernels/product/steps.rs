//! The steps that the kernels of several formats share. It does not depend on any format.

use super::ProductStep;
use crate::kernels::block::{BLOCK, LINE};
use crate::kernels::lanes::{LANES, Lanes};

/// The sums of M rows, `[M][16]`.
///
/// # Safety
/// They are readable.
#[inline(always)]
pub(super) unsafe fn load_sums<L: Lanes, const M: usize>(sums: *const f32) -> [L::F; M] {
    let mut total = [L::splat(0.0); M];
    for (r, total) in total.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *total = unsafe { L::load(sums.add(r * LANES)) };
    }
    total
}

/// Writes the sums of M rows back.
///
/// # Safety
/// There is room for them.
#[inline(always)]
pub(super) unsafe fn store_sums<L: Lanes, const M: usize>(sums: *mut f32, total: [L::F; M]) {
    for (r, total) in total.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { L::store(sums.add(r * LANES), total) };
    }
}

/// The next line to prefetch.
pub(super) struct Prefetch {
    at: *const u8,
    stride: usize,
}

impl Prefetch {
    #[inline(always)]
    pub(super) fn of(step: &ProductStep) -> Self {
        Self { at: step.prefetch, stride: step.stride }
    }

    #[inline(always)]
    pub(super) fn next<L: Lanes>(&mut self) {
        L::prefetch(self.at);
        self.at = self.at.wrapping_add(self.stride);
    }

    /// The next `lines` lines.
    #[inline(always)]
    pub(super) fn lines<L: Lanes>(&mut self, lines: usize) {
        for _ in 0..lines {
            self.next::<L>();
        }
    }
}

/// dot += w · x for M rows.
///
/// # Safety
/// `x` is four columns of the first of M rows, 256 codes apart.
#[inline(always)]
pub(super) unsafe fn dots<L: Lanes, const M: usize>(dot: &mut [L::I; M], w: L::B, x: *const i8) {
    for (r, dot) in dot.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *dot = unsafe { L::dot(*dot, w, x.add(r * BLOCK)) };
    }
}

/// dot += (w − 128) · x for M rows, under the conditions of [`Lanes::dot_biased`], if `by_128`;
/// otherwise as [`dots`].
///
/// # Safety
/// As [`dots`].
#[inline(always)]
pub(super) unsafe fn dots_less<L: Lanes, const M: usize>(
    dot: &mut [L::I; M],
    w: L::B,
    x: *const i8,
    by_128: bool,
) {
    for (r, dot) in dot.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            let x = x.add(r * BLOCK);
            *dot = if by_128 { L::dot_biased(*dot, w, x) } else { L::dot(*dot, w, x) };
        }
    }
}

/// Where to find the codes of neighbouring blocks of 32 columns, four bits each in four lines, and
/// the columns that they are multiplied with.
#[derive(Clone, Copy)]
pub(super) struct CodeBlocks {
    /// The first block.
    pub(super) lines: *const u8,
    /// Bytes from one block to the next.
    pub(super) stride: usize,
    /// The first 32 columns (one block) of the first of M rows, which are 256 codes apart.
    pub(super) x: *const i8,
}

impl CodeBlocks {
    /// The low and the high four bits of a line of each of `B` blocks, `at` bytes from its first.
    ///
    /// # Safety
    /// The lines are readable.
    #[inline(always)]
    unsafe fn nibbles<L: Lanes, const B: usize>(
        &self,
        at: usize,
        prefetch: &mut Prefetch,
    ) -> ([L::B; B], [L::B; B]) {
        // SAFETY: the caller's promise.
        unsafe {
            prefetch.next::<L>();
            let first = L::nibbles(L::load_b(self.lines.add(at)));
            let mut low = [first.0; B];
            let mut high = [first.1; B];
            for i in 1..B {
                prefetch.next::<L>();
                (low[i], high[i]) = L::nibbles(L::load_b(self.lines.add(i * self.stride + at)));
            }
            (low, high)
        }
    }

    /// dot += w · x for four columns, from `column` on, of each of `B` blocks.
    ///
    /// # Safety
    /// There are M rows of that many columns.
    // The rows are the outer loop, so that the next step of a sum comes as late as possible.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn dots<L: Lanes, const M: usize, const B: usize>(
        &self,
        dot: &mut [[L::I; M]; B],
        w: [L::B; B],
        column: usize,
    ) {
        for r in 0..M {
            for i in 0..B {
                // SAFETY: the caller's promise.
                dot[i][r] =
                    unsafe { L::dot(dot[i][r], w[i], self.x.add(r * BLOCK + i * 32 + column)) };
            }
        }
    }
}

/// dot + codes · x over 32 columns for M rows, for `B` blocks at once. A product takes several
/// cycles, so it helps to have more sums in progress than the rows of one block.
///
/// # Safety
/// The lines and columns are readable.
#[inline(always)]
pub(super) unsafe fn code_dots<L: Lanes, const M: usize, const B: usize>(
    mut dot: [[L::I; M]; B],
    blocks: CodeBlocks,
    prefetch: &mut Prefetch,
) -> [[L::I; M]; B] {
    for g in 0..4 {
        // SAFETY: the caller's promise.
        unsafe {
            let (low, high) = blocks.nibbles::<L, B>(g * LINE, prefetch);
            blocks.dots::<L, M, B>(&mut dot, low, g * 8);
            blocks.dots::<L, M, B>(&mut dot, high, g * 8 + 4);
        }
    }
    dot
}

/// The same with codes of five bits, one block at a time, because the fifth bits take the registers
/// of a second block. A block has a line of fifth bits before its four lines of low bits.
///
/// # Safety
/// The lines are readable; `x` is 32 columns of the first of M rows, 256 codes apart.
#[inline(always)]
pub(super) unsafe fn fifth_dots<L: Lanes, const M: usize>(
    dot: &mut [L::I; M],
    lines: *const u8,
    x: *const i8,
    prefetch: &mut Prefetch,
) {
    // SAFETY: the caller's promise.
    unsafe {
        prefetch.next::<L>();
        let plane = L::load_b(lines);
        let lines = lines.add(LINE);
        fifth_bits::<L, M, 4, 3>(dot, plane, lines, x, prefetch);
        fifth_bits::<L, M, 2, 1>(dot, plane, lines.add(LINE), x.add(8), prefetch);
        fifth_bits::<L, M, 0, -1>(dot, plane, lines.add(2 * LINE), x.add(16), prefetch);
        fifth_bits::<L, M, -2, -3>(dot, plane, lines.add(3 * LINE), x.add(24), prefetch);
    }
}

/// One line of low bits, of two groups of four columns, whose fifth bits in the plane are to be
/// shifted by these numbers.
///
/// # Safety
/// `line` is readable; `x` is eight columns of the first of M rows, 256 codes apart.
#[inline(always)]
unsafe fn fifth_bits<L: Lanes, const M: usize, const LOW: i32, const HIGH: i32>(
    dot: &mut [L::I; M],
    plane: L::B,
    line: *const u8,
    x: *const i8,
    prefetch: &mut Prefetch,
) {
    // SAFETY: the caller's promise.
    unsafe {
        prefetch.next::<L>();
        let (low, high) = L::nibbles(L::load_b(line));
        dots::<L, M>(dot, L::with_bits::<LOW>(low, plane, 0x10), x);
        dots::<L, M>(dot, L::with_bits::<HIGH>(high, plane, 0x10), x.add(4));
    }
}

/// As [`code_dots`], one block at a time, with codes that stand for `levels`; if those are shifted
/// up by 128, as [`dots_less`].
///
/// # Safety
/// The lines are readable; `x` is 32 columns of the first of M rows, 256 codes apart.
#[inline(always)]
pub(super) unsafe fn level_dots<L: Lanes, const M: usize>(
    dot: &mut [L::I; M],
    levels: &[u8; LINE],
    by_128: bool,
    lines: *const u8,
    x: *const i8,
    prefetch: &mut Prefetch,
) {
    // SAFETY: the caller's promise; a line of levels.
    unsafe {
        let levels = L::load_b(levels.as_ptr());
        for g in 0..4 {
            prefetch.next::<L>();
            let (low, high) = L::nibbles(L::load_b(lines.add(g * LINE)));
            for (w, x) in [(low, x.add(g * 8)), (high, x.add(g * 8 + 4))] {
                dots_less::<L, M>(dot, L::lookup(levels, w), x, by_128);
            }
        }
    }
}

/// sums += pairs · x for M rows.
///
/// # Safety
/// `x` is two numbers of the first of M rows, `stride` apart.
#[inline(always)]
pub(super) unsafe fn pair_dots<L: Lanes, const M: usize>(
    sums: &mut [L::I; M],
    pairs: L::I,
    x: *const i16,
    stride: usize,
) {
    for (r, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *sum = unsafe { L::dot_pairs(*sum, pairs, x.add(r * stride)) };
    }
}

/// block += dot · scale, the sum over a superblock's parts.
#[inline(always)]
pub(super) fn add_scaled<L: Lanes, const M: usize>(
    block: &mut [L::F; M],
    dot: [L::I; M],
    scale: L::F,
) {
    for r in 0..M {
        block[r] = L::fma(L::float(dot[r]), scale, block[r]);
    }
}

/// sums += block · (d · x's scale); then, if there are minima, sums −= low · (dmin · x's scale).
///
/// # Safety
/// As [`super::ProductKernel::block`].
#[inline(always)]
pub(super) unsafe fn add_block<L: Lanes, const M: usize>(
    step: &ProductStep,
    sums: *mut f32,
    block: [L::F; M],
    d: L::F,
    minima: Option<([L::I; M], L::F)>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut total = load_sums::<L, M>(sums);
        for r in 0..M {
            let scale = *step.rows.coarse.scales.as_ptr().add(step.cell + r);
            total[r] = L::fma(block[r], L::mul(d, L::splat(scale)), total[r]);
            if let Some((low, dmin)) = minima {
                let dmin = L::mul(dmin, L::splat(-scale));
                total[r] = L::fma(L::float(low[r]), dmin, total[r]);
            }
        }
        store_sums::<L, M>(sums, total);
    }
}
