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

    /// For weights that are read line by line from `weights` on, once.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    #[inline(always)]
    pub(super) fn after(weights: *const u8) -> Self {
        Self { at: weights.wrapping_add(super::PREFETCH_DISTANCE), stride: LINE }
    }

    #[inline(always)]
    pub(super) fn next<L: Lanes>(&mut self) {
        L::prefetch(self.at);
        self.at = self.at.wrapping_add(self.stride);
    }

    /// The next `lines` lines, after these sums.
    ///
    /// # Safety
    /// As for any operation on lanes.
    #[inline(always)]
    pub(super) unsafe fn after_sums<L: Lanes, const B: usize, const M: usize>(
        &mut self,
        lines: usize,
        sums: &mut [[L::I; M]; B],
    ) {
        for sums in sums {
            for sum in sums {
                // SAFETY: the caller's promise.
                *sum = unsafe { L::summed(*sum) };
            }
        }
        self.lines::<L>(lines);
    }

    /// The next `lines` lines.
    #[inline(always)]
    pub(super) fn lines<L: Lanes>(&mut self, lines: usize) {
        for _ in 0..lines {
            self.next::<L>();
        }
    }
}

/// narrow += w · x for M rows, as narrow sums ([`Lanes::dot_narrow`]).
///
/// # Safety
/// `x` is four columns of the first of M rows, 256 codes apart.
#[inline(always)]
pub(super) unsafe fn narrow_dots<L: Lanes, const M: usize>(
    narrow: &mut [L::I; M],
    w: L::B,
    x: *const i8,
) {
    for (r, narrow) in narrow.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *narrow = unsafe { L::dot_narrow(*narrow, w, x.add(r * BLOCK)) };
    }
}

/// start + w · x over the 16 columns of four lines for one row, as a narrow sum. Kernels that use
/// it keep these weights in registers for all rows, rather than the sums of all rows for all
/// weights, so more rows than there are registers can share the work of unpacking them.
///
/// # Safety
/// `x` is 16 columns.
#[inline(always)]
pub(super) unsafe fn run_dot<L: Lanes>(start: Option<L::I>, w: [L::B; 4], x: *const i8) -> L::I {
    // SAFETY: the caller's promise.
    unsafe {
        let first = match start {
            Some(start) => L::dot_narrow(start, w[0], x),
            None => L::narrow(w[0], x),
        };
        let second = L::dot_narrow(first, w[1], x.add(4));
        L::dot_narrow(L::dot_narrow(second, w[2], x.add(8)), w[3], x.add(12))
    }
}

/// The start of narrow sums of codes minus a zero point, for M rows.
///
/// # Safety
/// `starts` has one for each row, `stride` apart.
#[inline(always)]
pub(super) unsafe fn starts<L: Lanes, const M: usize>(
    starts: *const i32,
    stride: usize,
) -> [L::I; M] {
    let mut narrow = [L::splat_i(0); M];
    for (r, narrow) in narrow.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *narrow = L::splat_i(unsafe { *starts.add(r * stride) });
    }
    narrow
}

/// Narrow sums as one number per lane.
#[inline(always)]
pub(super) fn widened<L: Lanes, const M: usize>(mut narrow: [L::I; M]) -> [L::I; M] {
    for sum in &mut narrow {
        *sum = L::widened(*sum);
    }
    narrow
}

/// dot += (w − 128) · x for M rows, under the conditions of [`Lanes::dot_biased`], if `by_128`;
/// otherwise as [`narrow_dots`].
///
/// # Safety
/// As [`narrow_dots`].
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
            *dot = if by_128 { L::dot_biased(*dot, w, x) } else { L::dot_narrow(*dot, w, x) };
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
    unsafe fn nibbles<L: Lanes, const B: usize>(&self, at: usize) -> ([L::B; B], [L::B; B]) {
        // SAFETY: the caller's promise.
        unsafe {
            let first = L::nibbles(L::load_b(self.lines.add(at)));
            let mut low = [first.0; B];
            let mut high = [first.1; B];
            for i in 1..B {
                (low[i], high[i]) = L::nibbles(L::load_b(self.lines.add(i * self.stride + at)));
            }
            (low, high)
        }
    }

    /// The narrow sums w · x over the first four columns of each of `B` blocks.
    ///
    /// # Safety
    /// There are M rows of that many columns.
    // The rows are the outer loop for the reason of `dots`.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn first<L: Lanes, const M: usize, const B: usize>(
        &self,
        w: [L::B; B],
    ) -> [[L::I; M]; B] {
        let mut dot = [[L::splat_i(0); M]; B];
        for r in 0..M {
            for i in 0..B {
                // SAFETY: the caller's promise.
                dot[i][r] = unsafe { L::narrow(w[i], self.x.add(r * BLOCK + i * 32)) };
            }
        }
        dot
    }

    /// dot += codes · x, as narrow sums, for the eight columns of a line of each of `B` blocks.
    ///
    /// # Safety
    /// The lines are readable; there are M rows of that many columns.
    #[inline(always)]
    unsafe fn line_dots<L: Lanes, const M: usize, const B: usize>(
        &self,
        dot: &mut [[L::I; M]; B],
        line: usize,
        prefetch: &mut Prefetch,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let (low, high) = self.nibbles::<L, B>(line * LINE);
            self.dots::<L, M, B>(dot, low, line * 8);
            prefetch.after_sums::<L, B, M>(1, dot);
            self.dots::<L, M, B>(dot, high, line * 8 + 4);
            prefetch.after_sums::<L, B, M>(B - 1, dot);
        }
    }

    /// dot += w · x, as narrow sums, for four columns, from `column` on, of each of `B` blocks.
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
                unsafe {
                    let x = self.x.add(r * BLOCK + i * 32 + column);
                    dot[i][r] = L::dot_narrow(dot[i][r], w[i], x);
                }
            }
        }
    }
}

/// codes · x, as narrow sums that begin with `start` or 0, over 32 columns for M rows, for `B`
/// blocks at once. A product takes several cycles, so it helps to have more sums in progress than
/// the rows of one block.
///
/// # Safety
/// The lines and columns are readable.
#[inline(always)]
pub(super) unsafe fn code_dots<L: Lanes, const M: usize, const B: usize>(
    start: Option<[[L::I; M]; B]>,
    blocks: CodeBlocks,
    prefetch: &mut Prefetch,
) -> [[L::I; M]; B] {
    let mut dot = start.unwrap_or([[L::splat_i(0); M]; B]);
    // SAFETY: the caller's promise.
    unsafe {
        if const { !L::NARROW } {
            for line in 0..4 {
                blocks.line_dots::<L, M, B>(&mut dot, line, prefetch);
            }
            return dot;
        }
        // The compiler does not unroll a loop of assembly, and a zero would be added.
        let (low, high) = blocks.nibbles::<L, B>(0);
        prefetch.next::<L>();
        match start {
            Some(_) => blocks.dots::<L, M, B>(&mut dot, low, 0),
            None => dot = blocks.first::<L, M, B>(low),
        }
        prefetch.lines::<L>(B - 1);
        blocks.dots::<L, M, B>(&mut dot, high, 4);
        blocks.line_dots::<L, M, B>(&mut dot, 1, prefetch);
        blocks.line_dots::<L, M, B>(&mut dot, 2, prefetch);
        blocks.line_dots::<L, M, B>(&mut dot, 3, prefetch);
    }
    dot
}

/// The same over half of the 32 columns with codes of five bits, one block at a time, because the
/// fifth bits take the registers of a second block. A block has a line of fifth bits before its
/// four lines of low bits. `HALF` is 0 or 1.
///
/// # Safety
/// The lines are readable; `x` is the 32 columns of the first of M rows, 256 codes apart.
#[inline(always)]
pub(super) unsafe fn fifth_dots<L: Lanes, const M: usize, const HALF: usize>(
    dot: &mut [L::I; M],
    lines: *const u8,
    x: *const i8,
    prefetch: &mut Prefetch,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let plane = L::load_b(lines);
        let lines = lines.add(LINE * (1 + 2 * HALF));
        let x = x.add(16 * HALF);
        if const { HALF == 0 } {
            fifth_bits::<L, M, 4, 3>(dot, plane, lines, x, prefetch);
            prefetch.after_sums::<L, 1, M>(1, std::array::from_mut(dot));
            fifth_bits::<L, M, 2, 1>(dot, plane, lines.add(LINE), x.add(8), prefetch);
        } else {
            fifth_bits::<L, M, 0, -1>(dot, plane, lines, x, prefetch);
            fifth_bits::<L, M, -2, -3>(dot, plane, lines.add(LINE), x.add(8), prefetch);
        }
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
        let (low, high) = L::nibbles(L::load_b(line));
        narrow_dots::<L, M>(dot, L::with_bits::<LOW>(low, plane, 0x10), x);
        prefetch.after_sums::<L, 1, M>(1, std::array::from_mut(dot));
        narrow_dots::<L, M>(dot, L::with_bits::<HIGH>(high, plane, 0x10), x.add(4));
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

/// block += narrow · scale, the sum over a superblock's parts.
#[inline(always)]
pub(super) fn add_scaled<L: Lanes, const M: usize>(
    block: &mut [L::I; M],
    narrow: [L::I; M],
    scale: L::I,
) {
    for r in 0..M {
        block[r] = L::add_scaled(block[r], narrow[r], scale);
    }
}

/// The same with sums and scales that are too large for integers.
#[inline(always)]
pub(super) fn add_scaled_floats<L: Lanes, const M: usize>(
    block: &mut [L::F; M],
    dot: [L::I; M],
    scale: L::F,
) {
    for r in 0..M {
        block[r] = L::fma(L::float(dot[r]), scale, block[r]);
    }
}

/// What is subtracted from a superblock's sums: `N` pairs of minima per lane, each times the sum of
/// x's codes that it belongs to.
#[derive(Clone, Copy)]
pub(super) struct Minima<L: Lanes, const N: usize> {
    pub(super) pairs: [L::I; N],
    /// The sums for the first row; those of the next row come after 2 · N.
    pub(super) x_sums: *const i16,
    /// The scales of the minima.
    pub(super) dmin: L::F,
}

/// sums += block · (d · x's scale); then, if there are minima, sums −= low · (dmin · x's scale),
/// where low is their product with the sums of x.
///
/// # Safety
/// There are M sums, scales of x and, with minima, sums of x.
#[inline(always)]
pub(super) unsafe fn add_block<L: Lanes, const M: usize, const N: usize>(
    x_scales: *const f32,
    sums: *mut f32,
    block: [L::I; M],
    d: L::F,
    minima: Option<Minima<L, N>>,
) {
    for (r, block) in block.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            let sum = sums.add(r * LANES);
            let scale = *x_scales.add(r);
            let scaled = L::mul(d, L::splat(scale));
            let mut total = L::fma(L::float(block), scaled, L::load(sum));
            if let Some(minima) = &minima {
                let mut low = L::splat_i(0);
                for (i, pairs) in minima.pairs.iter().enumerate() {
                    let x = minima.x_sums.add(r * 2 * N + 2 * i);
                    low = L::dot_pairs(low, *pairs, x);
                }
                let scaled = L::mul(minima.dmin, L::splat(-scale));
                total = L::fma(L::float(low), scaled, total);
            }
            L::store(sum, total);
        }
    }
}
