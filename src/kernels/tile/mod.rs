//! The packed layout: tiles of 16 weight rows, cut into superblocks of 256 columns that a product
//! reads strictly forward, scales first. Four columns of all sixteen rows share a cache line (one
//! operand of a dot-product instruction). A line holds two such groups of 4-bit codes, or four of
//! 2-bit codes; further bits are in separate planes. No byte is stored twice. It does not depend on
//! products.
//!
//! | format | superblock |
//! |---|---|
//! | F32, F16, BF16 | 256 × 16 weights, column by column |
//! | blocks of 32 | groups of 2 (MXFP4: 4) blocks: scales, minima, codes block by block |
//! | Q2_K | d, dmin, 16 × 16 scales and minima, 16 × low bits |
//! | Q3_K | d, 16 × 16 scales of 6 bits, 8 × codes |
//! | Q4_K, Q5_K | d, dmin, 8 × 16 scales, 8 × 16 minima, 8 × (fifth bits, low bits) |
//! | Q6_K | d as f32, 16 × 16 scales, 8 × (high bits, low bits) |
//! | IQ4_XS | d, 8 × 16 scales, 8 × codes |
//! | expanded | the file's blocks, 16 rows side by side |
//! | repacked | 16 × 16 scales, 16 × codes of levels |

mod block256;
mod block32;
mod levels;

use half::{bf16, f16};

use super::block::{BLOCK, BlockCodes, LINE};
use super::codes32;
use super::expand;
use super::format::Format;
use super::lanes::LANES;

pub(super) use block256::{IQ4_HEAD, K_HEAD, K_MINIMA, K_SCALES, Q2_HEAD, Q3_HEAD};
pub(super) use block256::{Iq4Xs, Q2K, Q3K, Q6K, WithMinima};
pub(super) use levels::{Expansion, LevelBlock, RunScales};

/// The version of the packed bytes of all formats; packed weights stored on disk carry it. It
/// changes when the bytes of any format do, which a test checks.
pub const LAYOUT_VERSION: u32 = 2;

/// How the tiles of one format are laid out.
pub(super) struct TileLayout {
    /// Weights per block.
    block: usize,
    /// How many columns are laid out together; the columns of a tile are padded to a multiple of
    /// this.
    columns: usize,
    /// Bytes that these columns take.
    bytes: usize,
    kind: TileKind,
}

/// Writes up to sixteen rows, as they are stored in a file, into a zeroed tile.
type WriteRows = fn(rows: &[&[u8]], tile: &mut [u8]);
/// Reads the blocks of a row of a tile.
type ReadBlocks = fn(tile: &[u8], lane: usize, take: &mut dyn FnMut(&BlockCodes));

enum TileKind {
    /// Floats: how up to sixteen rows are written, and how one of them is read.
    Floats(WriteRows, fn(&[u8], usize, &mut [f32])),
    /// An order of its own: how up to sixteen rows are written, and how the blocks of one of them
    /// are read.
    Packed(WriteRows, ReadBlocks),
    /// The file's blocks, expanded in every product.
    Expanded(Expansion),
    /// Repacked for products.
    Repacked(Expansion),
}

impl TileLayout {
    /// The layout of a matrix of this format. If it would be expanded in every product, `repack`
    /// decides whether its tiles are laid out for products instead.
    pub(super) fn of(format: Format, repack: bool) -> Self {
        use block32::Block32;
        use block256::*;
        let expanded = |expand, levels, scales| {
            Self::expanded(Expansion { format, expand, levels, scales }, repack)
        };
        let odd = |expand, levels| expanded(expand, levels, RunScales::Odd);
        let halves = |expand, levels| expanded(expand, levels, RunScales::Halves);
        match format {
            Format::F32 => Self::floats::<f32, 4>(),
            Format::F16 => Self::floats::<f16, 2>(),
            Format::BF16 => Self::floats::<bf16, 2>(),
            Format::Q8_0 => Self::packed::<Block32<codes32::Q8_0>>(),
            Format::Q4_0 => Self::packed::<Block32<codes32::Q4_0>>(),
            Format::Q4_1 => Self::packed::<Block32<codes32::Q4_1>>(),
            Format::Q5_0 => Self::packed::<Block32<codes32::Q5_0>>(),
            Format::Q5_1 => Self::packed::<Block32<codes32::Q5_1>>(),
            Format::Q2K => Self::packed::<Q2K>(),
            Format::Q3K => Self::packed::<Q3K>(),
            Format::Q4K => Self::packed::<WithMinima<0>>(),
            Format::Q5K => Self::packed::<WithMinima<LINE>>(),
            Format::Q6K => Self::packed::<Q6K>(),
            Format::Iq4Nl => Self::packed::<Block32<codes32::Iq4Nl>>(),
            Format::Iq4Xs => Self::packed::<Iq4Xs>(),
            Format::Mxfp4 => Self::packed::<Block32<codes32::Mxfp4>>(),
            Format::Iq3Xxs => odd(expand::iq3_xxs, &expand::IQ3_XXS),
            Format::Iq3S => odd(expand::iq3_s, &expand::IQ3_S),
            Format::Iq2Xxs => odd(expand::iq2_xxs, &expand::IQ2),
            Format::Iq2Xs => odd(expand::iq2_xs, &expand::IQ2),
            Format::Iq2S => odd(expand::iq2_s, &expand::IQ2),
            Format::Iq1S => odd(expand::iq1_s, &expand::IQ1),
            Format::Iq1M => odd(expand::iq1_m, &expand::IQ1),
            Format::Tq1_0 => halves(expand::tq1_0, &expand::TWO_BITS),
            Format::Tq2_0 => halves(expand::tq2_0, &expand::TWO_BITS),
            Format::Nvfp4 => halves(expand::nvfp4, &expand::FP4),
            Format::Q1_0 => halves(expand::q1_0, &expand::TWO_BITS),
            Format::Q2_0 => halves(expand::q2_0, &expand::TWO_BITS),
        }
    }

    fn floats<W: Plain<SIZE>, const SIZE: usize>() -> Self {
        Self {
            block: 1,
            columns: 1,
            bytes: SIZE * LANES,
            kind: TileKind::Floats(write_floats::<SIZE>, read_floats::<W, SIZE>),
        }
    }

    fn packed<P: Packed>() -> Self {
        Self {
            block: P::COLUMNS,
            columns: P::COLUMNS * P::BLOCKS,
            bytes: P::BYTES,
            kind: TileKind::Packed(write_packed::<P>, read_packed::<P>),
        }
    }

    fn expanded(expansion: Expansion, repack: bool) -> Self {
        let block = expansion.format.block();
        let (columns, bytes, kind) = match repack {
            true => (BLOCK, expansion.bytes(), TileKind::Repacked(expansion)),
            false => {
                let bytes = LANES * expansion.format.block_bytes();
                (block, bytes, TileKind::Expanded(expansion))
            }
        };
        Self { block, columns, bytes, kind }
    }

    /// Bytes of a whole superblock.
    pub(super) fn superblock_bytes(&self) -> usize {
        BLOCK / self.columns * self.bytes
    }

    /// Bytes of a tile of `inputs` columns, or `None` if they overflow.
    pub(super) fn tile_bytes(&self, inputs: usize) -> Option<usize> {
        inputs.div_ceil(self.columns).checked_mul(self.bytes)
    }

    /// Writes up to sixteen rows, as they are stored in a file, into a zeroed tile.
    pub(super) fn write(&self, rows: &[&[u8]], tile: &mut [u8]) {
        match self.kind {
            TileKind::Floats(write, _) | TileKind::Packed(write, _) => write(rows, tile),
            TileKind::Expanded(blocks) => blocks.write_blocks(rows, tile),
            TileKind::Repacked(blocks) => blocks.write(rows, tile),
        }
    }

    /// The superblock, or the part of one at the end of a tile, as its product reads it: in `room`
    /// if it has to be expanded.
    #[inline(always)]
    pub(super) fn for_product(&self, superblock: &[u8], room: &mut LevelBlock) -> *const u8 {
        match self.kind {
            TileKind::Expanded(blocks) => {
                blocks.fill(&superblock[..superblock.len().min(self.superblock_bytes())], room);
                room.as_ptr()
            }
            _ => superblock.as_ptr(),
        }
    }

    /// What the codes and scales stand for, if the format is one of those that are expanded.
    pub(super) fn expansion(&self) -> Option<Expansion> {
        match self.kind {
            TileKind::Expanded(blocks) | TileKind::Repacked(blocks) => Some(blocks),
            TileKind::Floats(..) | TileKind::Packed(..) => None,
        }
    }

    /// Reads a row of a tile back as floats, exactly as the format defines them.
    pub(super) fn read(&self, tile: &[u8], lane: usize, out: &mut [f32]) {
        if let TileKind::Floats(_, read) = self.kind {
            return read(tile, lane, out);
        }
        let mut blocks = out.chunks_exact_mut(self.block);
        self.codes(tile, lane, &mut |codes| {
            if let Some(out) = blocks.next() {
                codes.write(out);
            }
        });
    }

    /// Reads the blocks of a row of a tile back, if they are not floats. There may be more blocks
    /// than the row has, because tiles are padded.
    pub(super) fn codes(&self, tile: &[u8], lane: usize, take: &mut dyn FnMut(&BlockCodes)) {
        match self.kind {
            TileKind::Floats(..) => {}
            TileKind::Packed(_, read) => read(tile, lane, take),
            TileKind::Expanded(blocks) => blocks.read_blocks(tile, lane, take),
            TileKind::Repacked(blocks) => blocks.read(tile, lane, take),
        }
    }
}

/// The packed order of one quantised format.
trait Packed {
    const FORMAT: Format;
    /// Weights per block.
    const COLUMNS: usize = Self::FORMAT.block();
    /// Bytes of a block in a file.
    const BLOCK_BYTES: usize = Self::FORMAT.block_bytes();
    /// How many blocks are laid out together.
    const BLOCKS: usize = 1;
    /// Bytes of these blocks for sixteen rows.
    const BYTES: usize;

    /// Writes a row's block, the `at`-th of its group.
    fn write(block: &[u8], at: usize, lane: usize, group: &mut [u8]);
    /// Reads it back. What the format does not have remains 0.
    fn read(group: &[u8], at: usize, lane: usize, to: &mut BlockCodes);
}

/// Writes group after group, with all rows of each, so that the written lines stay in the
/// first-level cache.
fn write_packed<P: Packed>(rows: &[&[u8]], tile: &mut [u8]) {
    for (g, group) in tile.chunks_exact_mut(P::BYTES).enumerate() {
        for (lane, row) in rows.iter().enumerate().take(LANES) {
            let blocks = row.chunks_exact(P::BLOCK_BYTES).skip(g * P::BLOCKS);
            for (at, block) in blocks.take(P::BLOCKS).enumerate() {
                P::write(block, at, lane, group);
            }
        }
    }
}

fn read_packed<P: Packed>(tile: &[u8], lane: usize, take: &mut dyn FnMut(&BlockCodes)) {
    let mut codes = BlockCodes::ZERO;
    for group in tile.chunks_exact(P::BYTES) {
        for at in 0..P::BLOCKS {
            P::read(group, at, lane, &mut codes);
            take(&codes);
        }
    }
}

fn write_floats<const SIZE: usize>(rows: &[&[u8]], tile: &mut [u8]) {
    for (lane, row) in rows.iter().enumerate() {
        for (from, to) in row.as_chunks::<SIZE>().0.iter().zip(tile.chunks_exact_mut(SIZE * LANES))
        {
            to[lane * SIZE..(lane + 1) * SIZE].copy_from_slice(from);
        }
    }
}

fn read_floats<W: Plain<SIZE>, const SIZE: usize>(tile: &[u8], lane: usize, out: &mut [f32]) {
    for (from, x) in tile.as_chunks::<SIZE>().0.chunks_exact(LANES).zip(out) {
        *x = W::value(from[lane]);
    }
}

/// Floats as they are in memory.
trait Plain<const SIZE: usize> {
    fn value(bytes: [u8; SIZE]) -> f32;
}

impl Plain<4> for f32 {
    fn value(bytes: [u8; 4]) -> f32 {
        Self::from_le_bytes(bytes)
    }
}

impl Plain<2> for f16 {
    fn value(bytes: [u8; 2]) -> f32 {
        Self::from_le_bytes(bytes).to_f32()
    }
}

impl Plain<2> for bf16 {
    fn value(bytes: [u8; 2]) -> f32 {
        Self::from_le_bytes(bytes).to_f32()
    }
}

fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    to[at..at + bytes.len()].copy_from_slice(bytes);
}

fn float_at(bytes: &[u8], at: usize) -> f32 {
    f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Eight codes starting at `at`, the first in the lowest byte.
fn eight(codes: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&codes[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// Packs the low halves of eight bytes into four bytes: the first four bytes give the low halves,
/// the others the high halves.
fn fold(eight: u64) -> u32 {
    let low = eight & 0x0f0f_0f0f_0f0f_0f0f;
    (low | low >> 28) as u32
}

/// Writes a row's four bytes of a line.
fn put_quad(lines: &mut [u8], line: usize, lane: usize, quad: u32) {
    let line = &mut lines[line * LINE..][..LINE];
    line.as_chunks_mut().0[lane] = quad.to_le_bytes();
}

/// Byte `column % 4` of a row in a line.
fn byte_of(lines: &[u8], line: usize, lane: usize, column: usize) -> u8 {
    lines[line * LINE + lane * 4 + column % 4]
}

/// Writes 16 bytes of two codes each (the low halves are the first 16 columns) into four lines.
fn put_nibbles(bytes: &[u8], lane: usize, to: &mut [u8]) {
    for i in 0..2 {
        let eight = eight(bytes, 8 * i);
        put_quad(to, i, lane, fold(eight));
        put_quad(to, i + 2, lane, fold(eight >> 4));
    }
}

/// The low four bits of one of 32 codes.
fn low_of(lines: &[u8], lane: usize, column: usize) -> u8 {
    byte_of(lines, column / 8, lane, column) >> (column / 4 % 2 * 4) & 15
}

/// One bit of each of 32 codes, in the four bytes of a line: one bit plane for every four columns.
fn bit_planes(codes: &[u8], bit: u32) -> u32 {
    (0..4).fold(0, |planes, i| {
        let pair = eight(codes, 8 * i) >> bit & 0x0101_0101_0101_0101;
        planes | (pair as u32) << (2 * i) | ((pair >> 32) as u32) << (2 * i + 1)
    })
}

/// Reads the bit of a column from the planes of 32 columns.
fn plane_bit(line: &[u8], lane: usize, column: usize) -> u8 {
    byte_of(line, 0, lane, column) >> (column / 4) & 1
}
