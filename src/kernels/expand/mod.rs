//! Formats that stay in memory as the blocks of their file and are expanded while a product runs. A
//! superblock of sixteen rows at a time becomes 8-bit codes in the packed order with a float scale
//! for every 16 columns, which all rows of activations then share. It deals with blocks, not
//! products.
//!
//! Every value of these formats is exactly code · scale with an integer code within ±62.

mod codebooks;
mod iq;
mod plain;

pub(super) use super::block::RUN;
use super::block::{BLOCK, BlockCodes};
use super::format::Format;
use super::lanes::LANES;

pub(super) use iq::{iq1_m, iq1_s, iq2_s, iq2_xs, iq2_xxs, iq3_s, iq3_xxs};
pub(super) use plain::{nvfp4, q1_0, q2_0, tq1_0, tq2_0};

/// The number added to a code to make it unsigned.
const BIAS: u32 = 64;

/// Expands a block of one format: writes its codes and the scale of every [`RUN`] of them.
pub(super) type ExpandBlock = fn(block: &[u8], codes: &mut [i8], scales: &mut [f32]);

/// An expanded superblock of sixteen rows.
#[repr(C, align(64))]
pub(super) struct Expanded {
    /// A line holds four columns of each row; 64 is added to a code to make it unsigned.
    codes: [[u32; LANES]; BLOCK / 4],
    scales: [[f32; LANES]; BLOCK / RUN],
}

/// Where the scales of an [`Expanded`] begin.
pub(super) const SCALES: usize = BLOCK * LANES;

impl Expanded {
    pub(super) const ZERO: Self =
        Self { codes: [[0; LANES]; BLOCK / 4], scales: [[0.0; LANES]; BLOCK / RUN] };

    /// Expands `raw`, the blocks of up to 256 columns, `[block][row][bytes]`. The columns after
    /// them get the scale 0.
    pub(super) fn fill(&mut self, format: Format, expand: ExpandBlock, raw: &[u8]) {
        let columns = format.block();
        let quads = columns / 4;
        let runs = columns / RUN;
        let mut filled = 0;
        for (b, blocks) in raw.chunks_exact(LANES * format.block_bytes()).enumerate() {
            for (lane, block) in blocks.chunks_exact(format.block_bytes()).enumerate() {
                let mut codes = [0i8; BLOCK];
                let mut scales = [0f32; BLOCK / RUN];
                expand(block, &mut codes[..columns], &mut scales[..runs]);
                let to = &mut self.codes[b * quads..(b + 1) * quads];
                for (to, quad) in to.iter_mut().zip(codes.as_chunks().0) {
                    let quad = u32::from_le_bytes(quad.map(|code: i8| code as u8));
                    // For each byte: flipping the sign bit adds 128, of which 64 are subtracted
                    // again.
                    let offset = (quad ^ 0x8080_8080) - (128 - BIAS) * 0x0101_0101;
                    to[lane] = u32::from_ne_bytes(offset.to_le_bytes());
                }
                let to = &mut self.scales[b * runs..(b + 1) * runs];
                for (to, scale) in to.iter_mut().zip(scales) {
                    to[lane] = scale;
                }
            }
            filled = (b + 1) * runs;
        }
        self.scales[filled..].fill([0.0; LANES]);
    }
}

/// Writes rows of blocks of `bytes`, as they are stored in a file, into a zeroed tile:
/// `[block][row][bytes]`.
pub(super) fn write_tile(bytes: usize, rows: &[&[u8]], tile: &mut [u8]) {
    for (lane, row) in rows.iter().enumerate() {
        let blocks = tile.chunks_exact_mut(LANES * bytes);
        for (block, to) in row.chunks_exact(bytes).zip(blocks) {
            to[lane * bytes..][..bytes].copy_from_slice(block);
        }
    }
}

/// Reads the blocks of a row of a tile back.
pub(super) fn read_row(
    format: Format,
    expand: ExpandBlock,
    tile: &[u8],
    lane: usize,
    take: &mut dyn FnMut(&BlockCodes),
) {
    let columns = format.block();
    let bytes = format.block_bytes();
    let mut to = BlockCodes::ZERO;
    for blocks in tile.chunks_exact(LANES * bytes) {
        let block = &blocks[lane * bytes..][..bytes];
        expand(block, &mut to.codes[..columns], &mut to.scales[..columns / RUN]);
        take(&to);
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// For each 32 columns: their index, codes and two scales.
fn parts_of_32<'a>(
    codes: &'a mut [i8],
    scales: &'a mut [f32],
) -> impl Iterator<Item = (usize, (&'a mut [i8], &'a mut [f32]))> {
    codes.chunks_exact_mut(32).zip(scales.chunks_exact_mut(2)).enumerate()
}
