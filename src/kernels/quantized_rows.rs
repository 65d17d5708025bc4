//! Activations, quantised once for all products that read them (query, key and value; gate and up).
//! It depends on formats only through the form in which their products read activations.
//!
//! A row is cut into blocks of 256 columns, and the same block of all rows is stored contiguously.
//! The addresses that a product reads together then do not compete for one cache set.

use super::block::BLOCK;
use super::format::{Format, Operand};
use super::lanes::{self, LANES, Lanes, Work};
use super::math;
use super::pool::{Pool, Shareable};

/// `m` rows of activations, in the forms that the formats of their products read. Reusing it for
/// the next product saves the allocations.
#[derive(Debug, Default)]
pub struct QuantizedRows {
    count: usize,
    inputs: usize,
    /// `[block][row][256]`, if a product reads floats.
    pub(super) floats: Vec<f32>,
    /// One scale for every 32 columns.
    pub(super) fine: RowCodes,
    /// One scale for every 256 columns.
    pub(super) coarse: RowCodes,
    float: bool,
}

/// Rows as 8-bit integers in −127..=127: x ≈ code · scale. Blocks are padded with zeros.
#[derive(Debug, Default)]
pub(super) struct RowCodes {
    /// `[block][row][256]`.
    pub(super) codes: Vec<i8>,
    /// `[block][row][8]` if fine, `[block][row]` if coarse.
    pub(super) scales: Vec<f32>,
    /// Corrections for the zero point of weights, as starts of narrow sums. Fine, for zero points
    /// of 8 and 16 over 32 codes: `[block][row][8]`. Coarse, for 4 and 32 over 16 codes:
    /// `[block][row][16]`.
    pub(super) starts: [Vec<i32>; 2],
    /// For minima (fine): scale · the sum of 32 codes, `[block][row][8]`.
    pub(super) offsets: Vec<f32>,
    /// For larger zero points, and minima (coarse): the sums of 32 codes, `[block][row][8]`.
    pub(super) sums: Vec<i16>,
    /// The sums of 16 codes (coarse), `[block][row][16]`.
    pub(super) run_sums: Vec<i16>,
    ready: bool,
}

impl QuantizedRows {
    /// An empty set of rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores `x`, `[m, inputs]`, in the forms that products with matrices of these formats read.
    /// The rows held before are replaced.
    ///
    /// # Panics
    /// If `x` is not a whole number of rows, or `inputs` is 0.
    pub fn prepare(
        &mut self,
        pool: &Pool,
        x: &[f32],
        inputs: usize,
        formats: impl IntoIterator<Item = Format>,
    ) {
        assert!(inputs > 0 && x.len().is_multiple_of(inputs), "whole rows of {inputs}");
        self.count = x.len() / inputs;
        self.inputs = inputs;
        (self.float, self.fine.ready, self.coarse.ready) = (false, false, false);
        for format in formats {
            match format.operand() {
                Operand::Float => self.float = true,
                Operand::Fine => self.fine.ready = true,
                Operand::Coarse => self.coarse.ready = true,
            }
        }
        let cells = self.count * self.blocks();
        if self.float {
            self.floats.resize(cells * BLOCK, 0.0);
        }
        if self.fine.ready {
            self.fine.resize(cells, true);
        }
        if self.coarse.ready {
            self.coarse.resize(cells, false);
        }
        self.fill(pool, x);
    }

    /// How many rows it holds.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of columns in each row.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Blocks of 256 columns, the last padded.
    pub(super) fn blocks(&self) -> usize {
        self.inputs.div_ceil(BLOCK)
    }

    /// Whether a product with this format can read the prepared rows.
    pub(super) fn ready_for(&self, format: Format) -> bool {
        match format.operand() {
            Operand::Float => self.float,
            Operand::Fine => self.fine.ready,
            Operand::Coarse => self.coarse.ready,
        }
    }

    fn fill(&mut self, pool: &Pool, x: &[f32]) {
        // A cell is one block of one row; a task takes enough cells to be worth a dispatch.
        const CELLS: usize = 32;
        let count = self.count;
        let inputs = self.inputs;
        let cells = count * self.blocks();
        let floats = self.float.then_some(Shareable(self.floats.as_mut_ptr()));
        let fine = self.fine.ready.then(|| self.fine.parts());
        let coarse = self.coarse.ready.then(|| self.coarse.parts());
        pool.run(cells.div_ceil(CELLS), |task| {
            for cell in task * CELLS..cells.min((task + 1) * CELLS) {
                let block = cell / count;
                let row = cell % count;
                let from = &x[row * inputs + block * BLOCK..(row + 1) * inputs];
                let from = &from[..from.len().min(BLOCK)];
                let mut padded;
                let from: &[f32; BLOCK] = match from.try_into() {
                    Ok(whole) => whole,
                    Err(_) => {
                        padded = [0.0; BLOCK];
                        padded[..from.len()].copy_from_slice(from);
                        &padded
                    }
                };
                if let Some(floats) = &floats {
                    // SAFETY: the vector holds `cells` blocks, and only one task writes each cell.
                    unsafe { floats.get().add(cell * BLOCK).cast::<[f32; BLOCK]>().write(*from) };
                }
                if let Some(to) = &fine {
                    lanes::run(pool.isa(), Quantise::<true> { x: from, to, cell });
                }
                if let Some(to) = &coarse {
                    lanes::run(pool.isa(), Quantise::<false> { x: from, to, cell });
                }
            }
        });
    }
}

impl RowCodes {
    fn resize(&mut self, cells: usize, fine: bool) {
        self.codes.resize(cells * BLOCK, 0);
        self.scales.resize(cells * if fine { 8 } else { 1 }, 0.0);
        for starts in &mut self.starts {
            starts.resize(cells * if fine { 8 } else { 16 }, 0);
        }
        self.sums.resize(cells * 8, 0);
        if fine {
            self.offsets.resize(cells * 8, 0.0);
        } else {
            self.run_sums.resize(cells * 16, 0);
        }
    }

    fn parts(&mut self) -> RowParts {
        RowParts {
            codes: Shareable(self.codes.as_mut_ptr()),
            scales: Shareable(self.scales.as_mut_ptr()),
            starts: self.starts.each_mut().map(|starts| Shareable(starts.as_mut_ptr())),
            offsets: Shareable(self.offsets.as_mut_ptr()),
            sums: Shareable(self.sums.as_mut_ptr()),
            run_sums: Shareable(self.run_sums.as_mut_ptr()),
        }
    }
}

struct RowParts {
    codes: Shareable<i8>,
    scales: Shareable<f32>,
    starts: [Shareable<i32>; 2],
    offsets: Shareable<f32>,
    sums: Shareable<i16>,
    run_sums: Shareable<i16>,
}

/// Quantises one block of one row into its cell, which exists in `to` and belongs to this work
/// alone.
struct Quantise<'a, const FINE: bool> {
    x: &'a [f32; BLOCK],
    to: &'a RowParts,
    cell: usize,
}

impl<const FINE: bool> Work for Quantise<'_, FINE> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let x = self.x.as_ptr();
        let zero = L::splat(0.0);
        let mut peaks = [0f32; 8];
        let mut highest = zero;
        let mut odd = [zero; 2];
        for (j, peak) in peaks.iter_mut().enumerate() {
            // SAFETY: 32 of 256 floats.
            let (a, b) = unsafe { (L::load(x.add(32 * j)), L::load(x.add(32 * j + LANES))) };
            odd = [L::fma(a, zero, odd[0]), L::fma(b, zero, odd[1])];
            let a = L::max(a, L::sub(zero, a));
            let b = L::max(b, L::sub(zero, b));
            if FINE {
                *peak = L::greatest(L::max(a, b));
            } else {
                highest = L::max(highest, L::max(a, b));
            }
        }
        if !FINE {
            peaks = [L::greatest(highest); 8];
        }
        // Infinities and NaN must not become finite numbers when they are quantised, so they make
        // their block's products NaN.
        if math::sum::<L>(L::add(odd[0], odd[1])) != 0.0 {
            peaks = [f32::NAN; 8];
        }
        let unit = L::splat(math::UNIT);
        let mut scales = [0f32; 8];
        let mut inverses = [0f32; 8];
        for (j, peak) in peaks.into_iter().enumerate() {
            scales[j] = peak / 127.0;
            // Below this bound the reciprocal would overflow; such a block becomes zero.
            let inverse = 127.0 / peak;
            inverses[j] = if peak > 1e-30 { inverse } else { 0.0 };
        }
        // SAFETY: the cell exists.
        let codes = unsafe { self.to.codes.get().add(self.cell * BLOCK) };
        for half in 0..BLOCK / LANES {
            // SAFETY: 16 of 256 floats and codes.
            unsafe {
                let x = L::mul(L::load(x.add(half * LANES)), L::splat(inverses[half / 2]));
                L::store_i8(codes.add(half * LANES), L::sub(L::add(x, unit), unit));
            }
        }
        // SAFETY: 256 codes, just written; the cell exists, and the counts are those of
        // `RowCodes::resize`.
        unsafe { self.finish::<L>(&scales, codes) }
    }
}

impl<const FINE: bool> Quantise<'_, FINE> {
    /// Writes the scales and the corrections computed from the sums of the codes.
    ///
    /// # Safety
    /// The cell exists and is ours; `codes` are its 256.
    #[inline(always)]
    unsafe fn finish<L: Lanes>(&self, scales: &[f32; 8], codes: *const i8) {
        let to = self.to;
        let cell = self.cell;
        // SAFETY: the caller's promise.
        unsafe {
            let sums = L::run_sums(codes);
            let mut pairs = [0; 8];
            let mut offsets = [0.0; 8];
            let mut runs = [0; 16];
            for j in 0..8 {
                pairs[j] = (sums[2 * j] + sums[2 * j + 1]) as i16;
                offsets[j] = scales[j] * f32::from(pairs[j]);
            }
            for (run, sum) in runs.iter_mut().zip(sums) {
                *run = sum as i16;
            }
            put(&to.sums, cell, pairs);
            if FINE {
                put(&to.scales, cell, *scales);
                put(&to.offsets, cell, offsets);
            } else {
                put(&to.scales, cell, [scales[0]]);
                put(&to.run_sums, cell, runs);
            }
            let zeros = if FINE { [8, 16] } else { [4, 32] };
            for (to, zero) in to.starts.iter().zip(zeros) {
                let starts = L::narrow_starts(codes, zero);
                if FINE {
                    let mut joined = [0; 8];
                    for (j, joined) in joined.iter_mut().enumerate() {
                        *joined = L::joined_starts(starts[2 * j], starts[2 * j + 1]);
                    }
                    put(to, cell, joined);
                } else {
                    put(to, cell, starts);
                }
            }
        }
    }
}

/// Writes the values of a cell, as one array: the compiler does not know that what is written does
/// not overlap what is still to be read.
///
/// # Safety
/// The cell exists, has `N` values, and is ours.
#[inline(always)]
unsafe fn put<T, const N: usize>(to: &Shareable<T>, cell: usize, values: [T; N]) {
    // SAFETY: the caller's promise.
    unsafe { to.get().add(cell * N).cast::<[T; N]>().write(values) }
}
