//! Activations made ready for products: once for all matrices that read them (query, key and
//! value; gate and up). Knows formats only by what they ask of activations.
//!
//! Every row lies in blocks of 256 columns, and the same block of all rows side by side: the
//! addresses that one step of a product reads then never fall on one cache set.

use super::format::{Format, Operand};
use super::isa::Isa;
use super::lanes::{self, Lanes, Work};
use super::pool::{Pool, Shareable};
use super::tile::BLOCK;

/// `m` rows of activations, in the forms that the formats of their products read. Reused from one
/// product to the next it allocates nothing.
#[derive(Debug, Default)]
pub struct Rows {
    count: usize,
    inputs: usize,
    /// `[block][row][256]`, if a product reads floats.
    pub(super) floats: Vec<f32>,
    /// A scale for every 32 columns.
    pub(super) fine: Codes,
    /// A scale for every 256.
    pub(super) coarse: Codes,
    float: bool,
}

/// Rows as 8-bit integers in −127..=127: x ≈ code · scale. Blocks are padded with zeros.
#[derive(Debug, Default)]
pub(super) struct Codes {
    /// `[block][row][256]`.
    pub(super) codes: Vec<i8>,
    /// `[block][row][8]` if fine, `[block][row]` if coarse.
    pub(super) scales: Vec<f32>,
    /// What takes the zero point of unsigned weights off: for 8 bits (fine) −128 · the sums of 32
    /// codes `[block][row][8]`; for 6 bits (coarse) −32 · the sums of 16 `[block][row][16]`.
    pub(super) wide: Vec<i32>,
    /// The same for 4 bits (fine): −8 · the sums of 32 codes `[block][row][8]`.
    pub(super) narrow: Vec<i32>,
    /// For minima (coarse): the sums of 32 codes, `[block][row][8]`.
    pub(super) sums: Vec<i16>,
    ready: bool,
}

impl Rows {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes `x`, `[m, inputs]`, in the forms that products with matrices of these formats read.
    /// What was held before is forgotten.
    ///
    /// # Panics
    /// If `x` is no whole number of rows, or `inputs` is 0.
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

    /// Rows held.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Columns of each.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Blocks of 256 columns, the last padded.
    pub(super) fn blocks(&self) -> usize {
        self.inputs.div_ceil(BLOCK)
    }

    /// Whether a product with this format can read what was prepared.
    pub(super) fn ready_for(&self, format: Format) -> bool {
        match format.operand() {
            Operand::Float => self.float,
            Operand::Fine => self.fine.ready,
            Operand::Coarse => self.coarse.ready,
        }
    }

    fn fill(&mut self, pool: &Pool, x: &[f32]) {
        // A cell is one block of one row; a task takes a run of them worth a dispatch.
        const CELLS: usize = 16;
        let (count, inputs) = (self.count, self.inputs);
        let cells = count * self.blocks();
        let floats = self.float.then(|| Shareable(self.floats.as_mut_ptr()));
        let fine = self.fine.ready.then(|| self.fine.parts());
        let coarse = self.coarse.ready.then(|| self.coarse.parts());
        pool.run(cells.div_ceil(CELLS), |task| {
            for cell in task * CELLS..cells.min((task + 1) * CELLS) {
                let (block, row) = (cell / count, cell % count);
                let from = &x[row * inputs + block * BLOCK..(row + 1) * inputs];
                let from = &from[..from.len().min(BLOCK)];
                let mut padded = [0.0; BLOCK];
                padded[..from.len()].copy_from_slice(from);
                if let Some(floats) = &floats {
                    // SAFETY: the vector holds `cells` blocks, and each cell is one task's alone.
                    unsafe { floats.get().add(cell * BLOCK).cast::<[f32; BLOCK]>().write(padded) };
                }
                if let Some(fine) = &fine {
                    // SAFETY: sized for `cells` cells; each is one task's alone.
                    unsafe { quantise(pool.isa(), &padded, fine, cell, true) };
                }
                if let Some(coarse) = &coarse {
                    // SAFETY: as above.
                    unsafe { quantise(pool.isa(), &padded, coarse, cell, false) };
                }
            }
        });
    }
}

impl Codes {
    fn resize(&mut self, cells: usize, fine: bool) {
        self.codes.resize(cells * BLOCK, 0);
        self.scales.resize(cells * if fine { 8 } else { 1 }, 0.0);
        self.wide.resize(cells * if fine { 8 } else { 16 }, 0);
        if fine {
            self.narrow.resize(cells * 8, 0);
        } else {
            self.sums.resize(cells * 8, 0);
        }
    }

    fn parts(&mut self) -> Parts {
        Parts {
            codes: Shareable(self.codes.as_mut_ptr()),
            scales: Shareable(self.scales.as_mut_ptr()),
            wide: Shareable(self.wide.as_mut_ptr()),
            narrow: Shareable(self.narrow.as_mut_ptr()),
            sums: Shareable(self.sums.as_mut_ptr()),
        }
    }
}

struct Parts {
    codes: Shareable<i8>,
    scales: Shareable<f32>,
    wide: Shareable<i32>,
    narrow: Shareable<i32>,
    sums: Shareable<i16>,
}

/// Quantises one block of one row into its cell.
///
/// # Safety
/// The parts hold the cell, and nobody else touches it.
unsafe fn quantise(isa: Isa, x: &[f32; BLOCK], to: &Parts, cell: usize, fine: bool) {
    // Only the compiler's choice of instructions is gained: no operation here can round in two
    // ways.
    let (codes, scales) = lanes::run(isa, Quantise { x, fine });
    let mut sums = [0i32; 16];
    for (sum, codes) in sums.iter_mut().zip(codes.chunks_exact(16)) {
        *sum = codes.iter().map(|&c| i32::from(c)).sum();
    }
    // SAFETY: the caller's promise; the counts are those of `Codes::resize`.
    unsafe {
        to.codes.get().add(cell * BLOCK).cast::<[i8; BLOCK]>().write(codes);
        for j in 0..8 {
            let sum = sums[2 * j] + sums[2 * j + 1];
            if fine {
                to.scales.get().add(cell * 8 + j).write(scales[j]);
                to.wide.get().add(cell * 8 + j).write(-128 * sum);
                to.narrow.get().add(cell * 8 + j).write(-8 * sum);
            } else {
                to.sums.get().add(cell * 8 + j).write(sum as i16);
            }
        }
        if !fine {
            to.scales.get().add(cell).write(scales[0]);
            for (j, sum) in sums.iter().enumerate() {
                to.wide.get().add(cell * 16 + j).write(-32 * sum);
            }
        }
    }
}

struct Quantise<'a> {
    x: &'a [f32; BLOCK],
    fine: bool,
}

impl Work for Quantise<'_> {
    type Output = ([i8; BLOCK], [f32; 8]);

    #[inline(always)]
    fn run<L: Lanes>(self) -> Self::Output {
        // Adding 1.5·2²³ leaves the nearest integer (ties to even) in the low bits.
        const ROUND: f32 = 12_582_912.0;
        let mut peaks = [0f32; 8];
        for (peak, x) in peaks.iter_mut().zip(self.x.chunks_exact(32)) {
            for v in x {
                let v = v.abs();
                *peak = if v > *peak { v } else { *peak };
            }
        }
        if !self.fine {
            let peak = peaks.iter().fold(0f32, |a, &b| if b > a { b } else { a });
            peaks = [peak; 8];
        }
        let mut codes = [0i8; BLOCK];
        let mut scales = [0f32; 8];
        for j in 0..8 {
            // Below this the reciprocal would overflow; such a block is zero.
            if peaks[j] > 1e-30 {
                scales[j] = peaks[j] / 127.0;
                let inverse = 127.0 / peaks[j];
                let x = &self.x[32 * j..32 * j + 32];
                for (code, v) in codes[32 * j..32 * j + 32].iter_mut().zip(x) {
                    *code = (v * inverse + ROUND).to_bits() as i8;
                }
            }
        }
        (codes, scales)
    }
}
