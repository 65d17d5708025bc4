//! The packed layout: tiles of 16 weight rows, cut into superblocks of 256 columns that a product
//! reads strictly forward, scales first. Four columns of all sixteen rows share a cache line (one
//! operand of a dot-product instruction); 4-bit codes put two such groups in one line, a fifth or
//! sixth bit lies in planes beside them. No byte is stored twice.
//!
//! | format | superblock |
//! |---|---|
//! | F32, F16, BF16 | 256 × 16 weights, column by column |
//! | Q8_0, Q4_0 | up to 4 × (scales of two blocks, codes of two blocks) |
//! | Q4_K, Q5_K | d, dmin, 8 × 16 scales, 8 × 16 minima, 8 × (fifth bits, low bits) |
//! | Q6_K | d as f32, 16 × 16 scales, 8 × (high bits, low bits) |

use half::f16;

use super::blocks;
use super::format::Format;
use super::lanes::LANES;

/// Columns of a superblock.
pub(super) const BLOCK: usize = 256;
/// Bytes before the codes of a K superblock.
pub(super) const K_HEAD: usize = 320;
/// Where the sub-block scales of a K superblock begin.
pub(super) const K_SCALES: usize = 64;
/// Where the sub-block minima of a Q4_K or Q5_K superblock begin.
pub(super) const K_MINIMA: usize = 192;
/// Bytes of the low four bits of 32 columns.
pub(super) const LOW: usize = 256;
/// Bytes of a line: one operand.
pub(super) const LINE: usize = 64;
/// Bytes of two 32-column blocks of Q8_0, scales first.
pub(super) const PAIR_8: usize = LINE + 2 * 512;
/// Bytes of two 32-column blocks of Q4_0, scales first.
pub(super) const PAIR_4: usize = LINE + 2 * LOW;

/// Bytes of a whole superblock.
pub(super) fn superblock_bytes(format: Format) -> usize {
    match format {
        Format::F32 => BLOCK * LANES * 4,
        Format::F16 | Format::BF16 => BLOCK * LANES * 2,
        Format::Q8_0 => 4 * PAIR_8,
        Format::Q4_0 => 4 * PAIR_4,
        Format::Q4K => K_HEAD + 8 * LOW,
        Format::Q5K => K_HEAD + 8 * (LOW + LINE),
        Format::Q6K => K_HEAD + 8 * (LOW + 2 * LINE),
    }
}

/// Bytes of a tile of `inputs` columns.
pub(super) fn tile_bytes(format: Format, inputs: usize) -> usize {
    match format {
        Format::F32 => inputs * LANES * 4,
        Format::F16 | Format::BF16 => inputs * LANES * 2,
        Format::Q8_0 => inputs.div_ceil(64) * PAIR_8,
        Format::Q4_0 => inputs.div_ceil(64) * PAIR_4,
        Format::Q4K | Format::Q5K | Format::Q6K => inputs / BLOCK * superblock_bytes(format),
    }
}

/// Writes one row, as it lies in a file, into a lane of a zeroed tile.
pub(super) fn write_row(format: Format, row: &[u8], lane: usize, tile: &mut [u8]) {
    match format {
        Format::F32 => write_floats::<4>(row, lane, tile),
        Format::F16 | Format::BF16 => write_floats::<2>(row, lane, tile),
        Format::Q8_0 => {
            for (i, block) in row.chunks_exact(34).enumerate() {
                let pair = &mut tile[i / 2 * PAIR_8..][..PAIR_8];
                put(pair, i % 2 * 32 + lane * 2, &block[..2]);
                write_bytes(&blocks::q8_0(block), lane, &mut pair[LINE + i % 2 * 512..][..512]);
            }
        }
        Format::Q4_0 => {
            for (i, block) in row.chunks_exact(18).enumerate() {
                let pair = &mut tile[i / 2 * PAIR_4..][..PAIR_4];
                put(pair, i % 2 * 32 + lane * 2, &block[..2]);
                write_low(&blocks::q4_0(block), lane, &mut pair[LINE + i % 2 * LOW..][..LOW]);
            }
        }
        Format::Q4K | Format::Q5K => {
            let open = if format == Format::Q4K { blocks::q4_k } else { blocks::q5_k };
            let bytes = superblock_bytes(format);
            for (block, to) in
                row.chunks_exact(format.block_bytes()).zip(tile.chunks_exact_mut(bytes))
            {
                let open = open(block);
                put(to, lane * 2, &open.d.to_le_bytes());
                put(to, 32 + lane * 2, &open.dmin.to_le_bytes());
                for j in 0..8 {
                    to[K_SCALES + 16 * j + lane] = open.scales[j];
                    to[K_MINIMA + 32 * (j / 2) + 2 * lane + j % 2] = open.minima[j];
                }
                write_codes(&open.codes, lane, &mut to[K_HEAD..], (bytes - K_HEAD) / 8 - LOW);
            }
        }
        Format::Q6K => {
            let bytes = superblock_bytes(format);
            for (block, to) in row.chunks_exact(210).zip(tile.chunks_exact_mut(bytes)) {
                let open = blocks::q6_k(block);
                put(to, lane * 4, &f16::from_bits(open.d).to_f32().to_le_bytes());
                for (j, scale) in open.scales.iter().enumerate() {
                    to[K_SCALES + 16 * j + lane] = *scale;
                }
                write_codes(&open.codes, lane, &mut to[K_HEAD..], 2 * LINE);
            }
        }
    }
}

/// Reads a lane of a tile back as floats, exactly as the format defines them.
pub(super) fn read_row(format: Format, tile: &[u8], lane: usize, out: &mut [f32]) {
    match format {
        Format::F32 => {
            for (c, x) in out.iter_mut().enumerate() {
                *x = float_at(tile, (c * LANES + lane) * 4);
            }
        }
        Format::F16 => {
            for (c, x) in out.iter_mut().enumerate() {
                *x = half_at(tile, (c * LANES + lane) * 2);
            }
        }
        Format::BF16 => {
            for (c, x) in out.iter_mut().enumerate() {
                let bits = blocks::half_at(tile, (c * LANES + lane) * 2);
                *x = half::bf16::from_bits(bits).to_f32();
            }
        }
        Format::Q8_0 => {
            for (i, out) in out.chunks_exact_mut(32).enumerate() {
                let pair = &tile[i / 2 * PAIR_8..][..PAIR_8];
                let d = half_at(pair, i % 2 * 32 + lane * 2);
                let codes = &pair[LINE + i % 2 * 512..][..512];
                for (c, x) in out.iter_mut().enumerate() {
                    let code = codes[c / 4 * LINE + lane * 4 + c % 4];
                    *x = f32::from((code ^ 0x80) as i8) * d;
                }
            }
        }
        Format::Q4_0 => {
            for (i, out) in out.chunks_exact_mut(32).enumerate() {
                let pair = &tile[i / 2 * PAIR_4..][..PAIR_4];
                let d = half_at(pair, i % 2 * 32 + lane * 2);
                let codes = &pair[LINE + i % 2 * LOW..][..LOW];
                for (c, x) in out.iter_mut().enumerate() {
                    *x = (f32::from(read_low(codes, lane, c)) - 8.0) * d;
                }
            }
        }
        Format::Q4K | Format::Q5K => {
            let bytes = superblock_bytes(format);
            let plane = (bytes - K_HEAD) / 8 - LOW;
            for (from, out) in tile.chunks_exact(bytes).zip(out.chunks_exact_mut(BLOCK)) {
                let (d, dmin) = (half_at(from, lane * 2), half_at(from, 32 + lane * 2));
                for (j, out) in out.chunks_exact_mut(32).enumerate() {
                    let scale = d * f32::from(from[K_SCALES + 16 * j + lane]);
                    let minimum = from[K_MINIMA + 32 * (j / 2) + 2 * lane + j % 2];
                    let minimum = dmin * f32::from(minimum);
                    let codes = &from[K_HEAD + j * (plane + LOW)..][..plane + LOW];
                    for (c, x) in out.iter_mut().enumerate() {
                        let mut code = read_low(&codes[plane..], lane, c);
                        if plane > 0 {
                            code |= (codes[lane * 4 + c % 4] >> (c / 4) & 1) << 4;
                        }
                        *x = scale * f32::from(code) - minimum;
                    }
                }
            }
        }
        Format::Q6K => {
            let bytes = superblock_bytes(format);
            for (from, out) in tile.chunks_exact(bytes).zip(out.chunks_exact_mut(BLOCK)) {
                let d = float_at(from, lane * 4);
                for (j, out) in out.chunks_exact_mut(16).enumerate() {
                    let scale = d * f32::from(from[K_SCALES + 16 * j + lane] as i8);
                    let codes = &from[K_HEAD + j / 2 * (LOW + 2 * LINE)..][..LOW + 2 * LINE];
                    for (i, x) in out.iter_mut().enumerate() {
                        let c = j % 2 * 16 + i;
                        let plane = codes[c / 16 * LINE + lane * 4 + c % 4];
                        let high = plane >> (2 * (c / 4 % 4)) & 3;
                        let code = read_low(&codes[2 * LINE..], lane, c) | high << 4;
                        *x = scale * (f32::from(code) - 32.0);
                    }
                }
            }
        }
    }
}

fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    to[at..at + bytes.len()].copy_from_slice(bytes);
}

fn float_at(bytes: &[u8], at: usize) -> f32 {
    f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn half_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_bits(blocks::half_at(bytes, at)).to_f32()
}

fn write_floats<const SIZE: usize>(row: &[u8], lane: usize, tile: &mut [u8]) {
    for (from, to) in row.chunks_exact(SIZE).zip(tile.chunks_exact_mut(SIZE * LANES)) {
        to[lane * SIZE..(lane + 1) * SIZE].copy_from_slice(from);
    }
}

/// Group `g` of four codes, as the four bytes of a lane.
fn quad(codes: &[u8], g: usize) -> u32 {
    u32::from_le_bytes([codes[4 * g], codes[4 * g + 1], codes[4 * g + 2], codes[4 * g + 3]])
}

fn put_quad(to: &mut [u8], line: usize, lane: usize, quad: u32) {
    put(to, line * LINE + lane * 4, &quad.to_le_bytes());
}

/// 32 codes of eight bits: a line for every group of four columns.
fn write_bytes(codes: &[u8; 32], lane: usize, to: &mut [u8]) {
    for g in 0..8 {
        put_quad(to, g, lane, quad(codes, g));
    }
}

/// The low four bits of 32 codes: a line for every two groups.
fn write_low(codes: &[u8], lane: usize, to: &mut [u8]) {
    for line in 0..4 {
        let (a, b) = (quad(codes, 2 * line), quad(codes, 2 * line + 1));
        put_quad(to, line, lane, a & 0x0f0f_0f0f | (b & 0x0f0f_0f0f) << 4);
    }
}

fn read_low(lines: &[u8], lane: usize, column: usize) -> u8 {
    let byte = lines[column / 8 * LINE + lane * 4 + column % 4];
    if column % 8 < 4 { byte & 15 } else { byte >> 4 }
}

/// 256 codes in eight sub-blocks: `plane` bytes of fifth (one line) or fifth and sixth bits (two
/// lines), then the low bits.
fn write_codes(codes: &[u8; 256], lane: usize, to: &mut [u8], plane: usize) {
    for (codes, to) in codes.chunks_exact(32).zip(to.chunks_exact_mut(plane + LOW)) {
        match plane / LINE {
            0 => {}
            1 => {
                let bits = (0..8).fold(0, |all, g| all | (quad(codes, g) >> 4 & 0x0101_0101) << g);
                put_quad(to, 0, lane, bits);
            }
            _ => {
                for line in 0..2 {
                    let bits = (0..4).fold(0, |all, g| {
                        all | (quad(codes, 4 * line + g) >> 4 & 0x0303_0303) << (2 * g)
                    });
                    put_quad(to, line, lane, bits);
                }
            }
        }
        write_low(codes, lane, &mut to[plane..]);
    }
}
