//! Formats whose blocks are expanded, as superblocks that a product reads: the scales of every 16
//! columns, then codes of 4 bits that stand for the format's levels. If the matrix is repacked, all
//! of it is laid out like this once; otherwise a product lays out one superblock at a time, which
//! all rows of activations then share. It does not depend on products.

use half::f16;

use super::{eight, float_at, fold, low_of, put, put_quad};
use crate::kernels::block::{BLOCK, BlockCodes, LINE, RUN, half_at};
use crate::kernels::codes32::Levels;
use crate::kernels::expand::ExpandBlock;
use crate::kernels::format::Format;
use crate::kernels::lanes::LANES;

/// How scales are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kernels) enum RunScales {
    /// As a float for each row, the unit, and bytes by which it is multiplied: odd numbers.
    Odd,
    /// As half floats.
    Halves,
}

impl RunScales {
    /// Bytes before the codes of a superblock.
    pub(in crate::kernels) const fn bytes(self) -> usize {
        match self {
            Self::Odd => LINE + BLOCK / RUN * LANES,
            Self::Halves => BLOCK / RUN * 2 * LANES,
        }
    }
}

/// Bytes of the codes of a superblock.
const CODES: usize = BLOCK / 8 * LINE;

/// Room for a superblock.
#[repr(C, align(64))]
pub(in crate::kernels) struct LevelBlock([u8; RunScales::Halves.bytes() + CODES]);

impl LevelBlock {
    pub(in crate::kernels) const ZERO: Self = Self([0; _]);

    pub(in crate::kernels) fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr()
    }
}

/// A format whose blocks are expanded.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Expansion {
    pub(super) format: Format,
    pub(super) expand: ExpandBlock,
    /// What its codes stand for.
    pub(in crate::kernels) levels: &'static Levels,
    pub(in crate::kernels) scales: RunScales,
}

impl Expansion {
    /// Bytes of a superblock.
    pub(super) fn bytes(&self) -> usize {
        self.scales.bytes() + CODES
    }

    /// Writes the `at`-th block of a row's superblock.
    fn put(&self, block: &[u8], at: usize, lane: usize, to: &mut [u8]) {
        let columns = self.format.block();
        let mut codes = [0; BLOCK];
        let mut factors = [0; BLOCK / RUN];
        let unit = (self.expand)(block, &mut codes[..columns], &mut factors[..columns / RUN]);
        let (head, lines) = to.split_at_mut(self.scales.bytes());
        let factors = (at * columns / RUN..).zip(&factors[..columns / RUN]);
        match self.scales {
            RunScales::Odd => {
                put(head, 4 * lane, &unit.to_le_bytes());
                for (j, &factor) in factors {
                    head[LINE + j * LANES + lane] = factor as u8;
                }
            }
            RunScales::Halves => {
                for (j, factor) in factors {
                    put(head, (j * LANES + lane) * 2, &factor.to_le_bytes());
                }
            }
        }
        for i in 0..columns / 8 {
            put_quad(lines, at * columns / 8 + i, lane, fold(eight(&codes, 8 * i)));
        }
    }

    /// Writes up to sixteen rows, as they are stored in a file, into a zeroed tile of superblocks.
    pub(super) fn write(&self, rows: &[&[u8]], tile: &mut [u8]) {
        let bytes = self.format.block_bytes();
        let count = BLOCK / self.format.block();
        for (i, superblock) in tile.chunks_exact_mut(self.bytes()).enumerate() {
            for (lane, row) in rows.iter().enumerate() {
                let blocks = row.chunks_exact(bytes).skip(i * count).take(count);
                for (at, block) in blocks.enumerate() {
                    self.put(block, at, lane, superblock);
                }
            }
        }
    }

    /// Lays out a superblock of `raw`, the file's blocks of up to 256 columns,
    /// `[block][row][bytes]`. The columns after them get the scale 0.
    pub(super) fn fill(&self, raw: &[u8], to: &mut LevelBlock) {
        let bytes = self.format.block_bytes();
        let mut filled = 0;
        for (at, blocks) in raw.chunks_exact(LANES * bytes).enumerate() {
            for (lane, block) in blocks.chunks_exact(bytes).enumerate() {
                self.put(block, at, lane, &mut to.0);
            }
            filled = (at + 1) * self.format.block();
        }
        // Blocks with a unit are whole superblocks.
        if self.scales == RunScales::Halves {
            to.0[filled / RUN * 2 * LANES..self.scales.bytes()].fill(0);
        }
    }

    /// Reads the blocks of a row of a tile of superblocks back.
    pub(super) fn read(&self, tile: &[u8], lane: usize, take: &mut dyn FnMut(&BlockCodes)) {
        let columns = self.format.block();
        let mut to = BlockCodes::ZERO;
        for superblock in tile.chunks_exact(self.bytes()) {
            let (head, lines) = superblock.split_at(self.scales.bytes());
            for first in (0..BLOCK).step_by(columns) {
                for (i, code) in to.codes[..columns].iter_mut().enumerate() {
                    *code = self.levels.exact[usize::from(low_of(lines, lane, first + i))];
                }
                for (j, scale) in (first / RUN..).zip(&mut to.scales[..columns / RUN]) {
                    *scale = match self.scales {
                        RunScales::Odd => {
                            float_at(head, 4 * lane) * f32::from(head[LINE + j * LANES + lane])
                        }
                        RunScales::Halves => half_at(head, (j * LANES + lane) * 2),
                    };
                }
                take(&to);
            }
        }
    }

    /// Writes rows of blocks, as they are stored in a file, into a zeroed tile of the file's
    /// blocks: `[block][row][bytes]`.
    pub(super) fn write_blocks(&self, rows: &[&[u8]], tile: &mut [u8]) {
        let bytes = self.format.block_bytes();
        for (lane, row) in rows.iter().enumerate() {
            let blocks = tile.chunks_exact_mut(LANES * bytes);
            for (block, to) in row.chunks_exact(bytes).zip(blocks) {
                put(to, lane * bytes, block);
            }
        }
    }

    /// Reads the blocks of a row of such a tile back.
    pub(super) fn read_blocks(&self, tile: &[u8], lane: usize, take: &mut dyn FnMut(&BlockCodes)) {
        let columns = self.format.block();
        let bytes = self.format.block_bytes();
        let mut to = BlockCodes::ZERO;
        for blocks in tile.chunks_exact(LANES * bytes) {
            let block = &blocks[lane * bytes..][..bytes];
            let mut codes = [0; BLOCK];
            let mut factors = [0; BLOCK / RUN];
            let unit = (self.expand)(block, &mut codes[..columns], &mut factors[..columns / RUN]);
            to.scales = factors.map(|factor| match self.scales {
                RunScales::Odd => unit * f32::from(factor),
                RunScales::Halves => f16::from_bits(factor).to_f32(),
            });
            to.codes = codes.map(|code| self.levels.exact[usize::from(code)]);
            take(&to);
        }
    }
}
