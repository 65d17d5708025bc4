//! The skinny product y = x · Wᵀ for a few rows of activations: every weight is read once and used
//! for all rows. It does not depend on models.
//!
//! It is row-invariant: a result is the sum over a row's superblocks of 256 columns in order, and
//! each block is summed in an order that its format fixes. Lanes, rows, tiles and threads only
//! decide where it is computed. So a row gives the same bits alone and in a batch.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx;
mod block256;
mod block32;
mod float;
mod levels;
mod steps;

use std::mem::MaybeUninit;

use block32::Kernel32;
use float::Float;
use levels::OfLevels;

use super::block::{BLOCK, LINE};
use super::codes32;
use super::expand;
use super::format::{Format, Storage};
use super::lanes::{self, LANES, Lanes, Work, element};
use super::matrix::Matrix;
use super::pool::{Pool, Shareable};
use super::quantized_rows::QuantizedRows;
use super::tile;
use super::tile::{LevelBlock, RunScales, TileLayout};

/// How many rows a thread keeps sums for while it works through a tile. Longer batches are computed
/// in parts, each of which reads the thread's tiles from the second-level cache again.
const PART: usize = 64;

/// How many rows every kernel multiplies with a tile before it comes to the next one.
const SWEEP: usize = 32;

/// Tasks per thread: enough that the others can take over from a thread that is delayed.
const TASKS: usize = 24;

/// Bytes between the weights that are read and those that are prefetched: the bandwidth times the
/// latency of the memory.
const PREFETCH_DISTANCE: usize = 6 << 10;

/// Bytes of weights in a task that reads them more than once.
const KEPT: usize = 256 << 10;

/// Multiplies the prepared rows with each matrix: `y` becomes `[rows.count(), matrix.outputs()]`.
/// All products run in one dispatch; matrices may differ in format and outputs.
///
/// # Panics
/// If a matrix does not have `rows.inputs()` inputs, the rows were not prepared for its format, or
/// a result has the wrong size.
pub fn multiply(pool: &Pool, rows: &QuantizedRows, products: &mut [(&Matrix, &mut [f32])]) {
    let count = rows.count();
    let tiles: usize = products.iter().map(|(matrix, _)| matrix.tiles()).sum();
    if tiles == 0 || count == 0 {
        return;
    }
    let share = tiles.div_ceil(pool.threads() * TASKS);
    let mut runs = Vec::new();
    for (i, (matrix, y)) in products.iter().enumerate() {
        assert_eq!(matrix.inputs(), rows.inputs(), "the columns of {matrix:?} and of its rows");
        assert!(rows.ready_for(matrix.format()), "rows prepared for {}", matrix.format());
        assert_eq!(y.len(), count * matrix.outputs(), "the results of {matrix:?}");
        let kept = if count > SWEEP { (KEPT / matrix.tile_bytes()).max(1) } else { share };
        let share = share.min(kept);
        let starts = (0..matrix.tiles()).step_by(share);
        runs.extend(starts.map(|t| (i, t..matrix.tiles().min(t + share))));
    }
    let products: Vec<(&Matrix, Shareable<f32>)> =
        products.iter_mut().map(|(matrix, y)| (*matrix, Shareable(y.as_mut_ptr()))).collect();
    pool.run(runs.len(), |run| {
        let (i, tiles) = &runs[run];
        let (matrix, y) = &products[*i];
        let tiles = Tiles { matrix, rows, tiles: tiles.clone(), y: y.get() };
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if pool.isa() == super::isa::Isa::Amx
            && let Some(kernel) = amx::kernel(matrix.format(), count)
        {
            // SAFETY: the shapes and rows were checked above, each tile belongs to only one work,
            // and the machine has what a pool's instruction set stands for.
            return unsafe { kernel(&tiles) };
        }
        lanes::run(pool.isa(), tiles);
    });
}

/// A run of tiles of one matrix, to be multiplied with all rows.
struct Tiles<'a> {
    matrix: &'a Matrix,
    rows: &'a QuantizedRows,
    tiles: std::ops::Range<usize>,
    /// `[rows, outputs]`; this work writes only the columns of its tiles.
    y: *mut f32,
}

impl Work for Tiles<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        // SAFETY: `multiply` has checked the shapes and that the rows are prepared, and it gives
        // each tile to only one work.
        unsafe {
            match self.matrix.format() {
                Format::F32 => self.each::<L, Float<element::F32>>(),
                Format::F16 => self.each::<L, Float<element::F16>>(),
                Format::BF16 => self.each::<L, Float<element::BF16>>(),
                Format::Q8_0 => self.each::<L, Kernel32<codes32::Q8_0>>(),
                Format::Q4_0 => self.each::<L, Kernel32<codes32::Q4_0>>(),
                Format::Q4_1 => self.each::<L, Kernel32<codes32::Q4_1>>(),
                Format::Q5_0 => self.each::<L, Kernel32<codes32::Q5_0>>(),
                Format::Q5_1 => self.each::<L, Kernel32<codes32::Q5_1>>(),
                Format::Iq4Nl => self.each::<L, Kernel32<codes32::Iq4Nl>>(),
                Format::Mxfp4 => self.each::<L, Kernel32<codes32::Mxfp4>>(),
                Format::Q2K => self.each::<L, tile::Q2K>(),
                Format::Q3K => self.each::<L, tile::Q3K>(),
                Format::Q4K => self.each::<L, tile::WithMinima<0>>(),
                Format::Q5K => self.each::<L, tile::WithMinima<LINE>>(),
                Format::Q6K => self.each::<L, tile::Q6K>(),
                Format::Iq4Xs => self.each::<L, tile::Iq4Xs>(),
                // All others are expanded.
                _ => {
                    let Some(of) = self.matrix.layout().expansion() else { return };
                    match (of.scales, of.levels.up) {
                        (RunScales::Halves, _) => self.each::<L, OfLevels<false, true>>(),
                        (RunScales::Odd, expand::LARGE) => self.each::<L, OfLevels<true, false>>(),
                        (RunScales::Odd, _) => self.each::<L, OfLevels<false, false>>(),
                    }
                }
            }
        }
    }
}

/// With which lanes a kernel takes eight rows of activations at once even if that many sums do not
/// fit in the registers.
enum EightRows {
    Never,
    /// With those that have [`Lanes::NARROW`].
    Narrow,
    Always,
}

/// How one format multiplies a superblock.
trait ProductKernel {
    const EIGHT_ROWS: EightRows = EightRows::Never;

    /// Adds the products of a superblock of sixteen weight rows with `M` rows of activations to
    /// `sums`, `[M][16]`.
    ///
    /// # Safety
    /// `step` names a superblock of this format's matrix and `M` prepared rows; `sums` has room.
    unsafe fn block<L: Lanes, const M: usize>(step: &ProductStep, sums: *mut f32);
}

/// Where one step of a product reads.
struct ProductStep<'a> {
    rows: &'a QuantizedRows,
    /// The superblock, possibly expanded.
    weights: *const u8,
    /// How many of its columns exist; a multiple of 64 for the integer formats.
    columns: usize,
    /// Index of the first row's cell, `block · rows + row`.
    cell: usize,
    /// What its codes stand for, if they stand for levels: shifted levels, repeated four times.
    levels: &'a [u8; LINE],
    /// Where to prefetch from: one line for each line read, `stride` bytes apart. The groups of
    /// rows that read the same superblock each prefetch some of the lines.
    prefetch: *const u8,
    stride: usize,
}

/// The sums of a part, one line per row, and after them the results of earlier tiles, which are
/// written together: fetching lines of the product after every tile would hold up the weights.
/// Rows beyond the part's length are never cleared: most parts are short, and clearing all lines
/// would take much of a short task's time.
#[repr(align(64))]
struct ProductSums {
    lines: [MaybeUninit<[f32; LANES]>; PART],
    /// How many tiles have results here.
    held: usize,
}

impl ProductSums {
    const UNWRITTEN: Self = Self { lines: [const { MaybeUninit::uninit() }; PART], held: 0 };

    /// Clears the sums of `part` rows.
    #[inline(always)]
    fn clear<L: Lanes>(&mut self, part: usize) {
        for sum in &mut self.lines[..part] {
            // SAFETY: a sum has a vector's lanes.
            unsafe { L::store(sum.as_mut_ptr().cast(), L::splat(0.0)) };
        }
    }
}

impl Tiles<'_> {
    /// # Safety
    /// The shapes fit, the rows are prepared for the format, and no other work has these tiles.
    #[inline(always)]
    unsafe fn each<L: Lanes, K: ProductKernel>(&self) {
        let mut sums = ProductSums::UNWRITTEN;
        let mut room = LevelBlock::ZERO;
        let layout = self.matrix.layout();
        let mut start = 0;
        while start < self.rows.count() {
            let part = PART.min(self.rows.count() - start);
            for t in self.tiles.clone() {
                // SAFETY: this function's own contract; `part` rows from `start` exist.
                unsafe {
                    self.tile::<L, K>(&layout, t, start, part, &mut sums, &mut room);
                    self.store::<L>(&mut sums, t, start, part);
                }
            }
            start += part;
        }
    }

    /// Computes the sums of one tile with `part` rows from `start`.
    ///
    /// # Safety
    /// As `each`.
    #[inline(always)]
    unsafe fn tile<L: Lanes, K: ProductKernel>(
        &self,
        layout: &TileLayout,
        t: usize,
        start: usize,
        part: usize,
        sums: &mut ProductSums,
        room: &mut LevelBlock,
    ) {
        let tile = self.matrix.tile(t);
        let superblock = layout.superblock_bytes();
        let floats = self.matrix.format().storage() == Storage::Floats;
        let quantum = if floats { 1 } else { 64 };
        let inputs = self.matrix.inputs().next_multiple_of(quantum);
        let groups = part.div_ceil(const { most_rows::<L, K>() });
        let levels = layout.expansion().map_or(&[0; LINE], |of| &of.levels.moved);
        sums.clear::<L>(part);
        for block in 0..self.rows.blocks() {
            let rest = &tile[block * superblock..];
            let weights = layout.for_product(rest, room);
            let prefetch = rest.as_ptr().wrapping_add(PREFETCH_DISTANCE);
            let stride = LINE / groups;
            let mut row = 0;
            for group in 0..groups {
                let m = (part - row).div_ceil(groups - group);
                let step = ProductStep {
                    rows: self.rows,
                    weights,
                    columns: BLOCK.min(inputs - block * BLOCK),
                    levels,
                    cell: block * self.rows.count() + start + row,
                    prefetch: prefetch.wrapping_add(superblock * group / groups),
                    stride,
                };
                let sums = sums.lines[row..row + m].as_mut_ptr().cast();
                // SAFETY: `m` rows from `start + row` exist, and `sums` holds as many.
                unsafe { block_of::<L, K>(m, &step, sums) };
                row += m;
            }
        }
    }

    /// Takes the sums of `part` rows from `start` on as the results of tile `t`, and writes all
    /// results if there is no room for another tile's, or no other tile.
    ///
    /// # Safety
    /// As `each`; these sums are written. Tiles come in order.
    #[inline(always)]
    unsafe fn store<L: Lanes>(&self, sums: &mut ProductSums, t: usize, start: usize, part: usize) {
        let scale = self.matrix.scale();
        if scale != 1.0 {
            for sum in &mut sums.lines[..part] {
                // SAFETY: the caller's promise.
                for sum in unsafe { sum.assume_init_mut() } {
                    *sum *= scale;
                }
            }
        }
        let last = t + 1 == self.tiles.end;
        let room = PART / part - 1;
        // Where the results of a row begin.
        let first = |r: usize| if room > 1 { part + r * room } else { r };
        if room > 1 {
            for r in 0..part {
                sums.lines[first(r) + sums.held] = sums.lines[r];
            }
        }
        sums.held += 1;
        if sums.held < room && !last {
            return;
        }
        let outputs = self.matrix.outputs();
        for r in 0..part {
            for (t, result) in (t + 1 - sums.held..).zip(&sums.lines[first(r)..][..sums.held]) {
                let lanes = LANES.min(outputs - t * LANES);
                // SAFETY: row start + r and the columns of tile t are within [rows, outputs] and
                // belong to us alone; its result was written above.
                unsafe {
                    let y = self.y.add((start + r) * outputs + t * LANES);
                    if lanes == LANES {
                        L::store(y, L::load(result.as_ptr().cast()));
                    } else {
                        std::ptr::copy_nonoverlapping(result.as_ptr().cast(), y, lanes);
                    }
                }
            }
        }
        sums.held = 0;
    }
}

/// How many rows of activations a kernel takes at once at most.
const fn most_rows<L: Lanes, K: ProductKernel>() -> usize {
    match K::EIGHT_ROWS {
        _ if L::ROWS == 1 => 1,
        EightRows::Always => 8,
        EightRows::Narrow if L::NARROW => 8,
        _ => L::ROWS,
    }
}

/// Calls the kernel for `m` rows, at most [`most_rows`].
///
/// # Safety
/// As [`ProductKernel::block`].
#[inline(always)]
unsafe fn block_of<L: Lanes, K: ProductKernel>(m: usize, step: &ProductStep, sums: *mut f32) {
    // SAFETY: the caller's promise. The constants keep the compiler from compiling row counts that
    // an instruction set never uses.
    unsafe {
        if const { L::ROWS > 1 } {
            match m {
                2 => return K::block::<L, 2>(step, sums),
                3 => return K::block::<L, 3>(step, sums),
                4 => return K::block::<L, 4>(step, sums),
                _ => {}
            }
        }
        if const { most_rows::<L, K>() > 4 } {
            match m {
                5 => return K::block::<L, 5>(step, sums),
                6 => return K::block::<L, 6>(step, sums),
                7 => return K::block::<L, 7>(step, sums),
                8 => return K::block::<L, 8>(step, sums),
                _ => {}
            }
        }
        K::block::<L, 1>(step, sums);
    }
}
