//! Formats of 32-weight blocks with a scale each. Two blocks (MXFP4: four) share a line of scales.

use super::{
    LINE, LOW, Packed, bit_planes, byte_of, half_at, low_of, plane_bit, put, put_nibbles, put_quad,
};
use crate::kernels::lanes::LANES;

/// Bytes of two blocks of Q8_0, scales first.
pub(in crate::kernels) const PAIR_8: usize = LINE + 2 * CODES_8;
/// Bytes of two blocks of Q4_0 or IQ4_NL, scales first.
pub(in crate::kernels) const PAIR_4: usize = LINE + 2 * LOW;
/// Bytes of two blocks of Q4_1: scales, minima, codes.
pub(in crate::kernels) const PAIR_4_1: usize = 2 * LINE + 2 * LOW;
/// Bytes of two blocks of Q5_0: scales, then fifth bits and low bits of each.
pub(in crate::kernels) const PAIR_5: usize = LINE + 2 * (LINE + LOW);
/// Bytes of two blocks of Q5_1: scales, minima, then as Q5_0.
pub(in crate::kernels) const PAIR_5_1: usize = 2 * LINE + 2 * (LINE + LOW);
/// Bytes of four blocks of MXFP4: exponents, codes.
pub(in crate::kernels) const QUAD_FP4: usize = LINE + 4 * LOW;

/// Bytes of 32 columns of 8-bit codes.
const CODES_8: usize = 512;

/// The levels of IQ4_NL and IQ4_XS.
pub(in crate::kernels) const IQ4_LEVELS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the values of 4-bit floats with 2 exponent bits and 1 mantissa bit.
pub(in crate::kernels) const FP4_LEVELS: [i8; 16] =
    [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

pub(super) struct Q8_0;
pub(super) struct Q4_0;
pub(super) struct Q4_1;
pub(super) struct Q5_0;
pub(super) struct Q5_1;
pub(super) struct Iq4Nl;
pub(super) struct Mxfp4;

/// Where the half float of a row lies in a line of two blocks.
fn place(at: usize, lane: usize) -> usize {
    at * 2 * LANES + 2 * lane
}

/// Bits 4 of the 32 columns, from a word of them in column order.
fn put_fifth(word: u32, lane: usize, to: &mut [u8]) {
    let mut codes = [0; 32];
    for (i, code) in codes.iter_mut().enumerate() {
        *code = (word >> i & 1) as u8;
    }
    put_quad(to, 0, lane, bit_planes(&codes, 0));
}

fn word_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A code of five bits.
fn five_bits(lines: &[u8], lane: usize, column: usize) -> u8 {
    low_of(&lines[LINE..], lane, column) | plane_bit(lines, lane, column) << 4
}

/// 34 bytes: d, 32 signed codes.
impl Packed for Q8_0 {
    const COLUMNS: usize = 32;
    const BLOCK_BYTES: usize = 34;
    const BLOCKS: usize = 2;
    const BYTES: usize = PAIR_8;

    #[inline(always)]
    fn write(block: &[u8], at: usize, lane: usize, group: &mut [u8]) {
        put(group, place(at, lane), &block[..2]);
        let lines = &mut group[LINE + at * CODES_8..][..CODES_8];
        for line in 0..8 {
            // Moved up by 128 to be unsigned.
            put_quad(lines, line, lane, word_at(block, 2 + 4 * line) ^ 0x8080_8080);
        }
    }

    fn read(group: &[u8], at: usize, lane: usize, out: &mut [f32]) {
        let d = half_at(group, place(at, lane));
        let lines = &group[LINE + at * CODES_8..][..CODES_8];
        for (c, x) in out.iter_mut().enumerate() {
            *x = f32::from((byte_of(lines, c / 4, lane, c) ^ 0x80) as i8) * d;
        }
    }
}

/// 18 bytes: d, the low halves of all bytes, then the high ones.
impl Packed for Q4_0 {
    const COLUMNS: usize = 32;
    const BLOCK_BYTES: usize = 18;
    const BLOCKS: usize = 2;
    const BYTES: usize = PAIR_4;

    #[inline(always)]
    fn write(block: &[u8], at: usize, lane: usize, group: &mut [u8]) {
        put(group, place(at, lane), &block[..2]);
        put_nibbles(&block[2..18], lane, &mut group[LINE + at * LOW..][..LOW]);
    }

    fn read(group: &[u8], at: usize, lane: usize, out: &mut [f32]) {
        let d = half_at(group, place(at, lane));
        for (c, x) in out.iter_mut().enumerate() {
            *x = (f32::from(low_of(&group[LINE + at * LOW..], lane, c)) - 8.0) * d;
        }
    }
}

/// As Q4_0, the codes being indices of levels.
impl Packed for Iq4Nl {
    const COLUMNS: usize = 32;
    const BLOCK_BYTES: usize = 18;
    const BLOCKS: usize = 2;
    const BYTES: usize = PAIR_4;

    #[inline(always)]
    fn write(block: &[u8], at: usize, lane: usize, group: &mut [u8]) {
        Q4_0::write(block, at, lane, group);
    }

    fn read(group: &[u8], at: usize, lane: usize, out: &mut [f32]) {
        let d = half_at(group, place(at, lane));
        for (c, x) in out.iter_mut().enumerate() {
            let level = IQ4_LEVELS[usize::from(low_of(&group[LINE + at * LOW..], lane, c))];
            *x = d * f32::from(level);
        }
    }
}

/// 20 bytes: d, m, codes as in Q4_0.
impl Packed for Q4_1 {
    const COLUMNS: usize = 32;
    const BLOCK_BYTES: usize = 20;
    const BLOCKS: usize = 2;
    const BYTES: usize = PAIR_4_1;

    #[inline(always)]
    fn write(block: &[u8], at: usize, lane: usize, group: &mut [u8]) {
        put(group, place(at, lane), &block[..2]);
        put(group, LINE + place(at, lane), &block[2..4]);
        put_nibbles(&block[4..20], lane, &mut group[2 * LINE + at * LOW..][..LOW]);
    }

    fn read(group: &[u8], at: usize, lane: usize, out: &mut [f32]) {
        let d = half_at(group, place(at, lane));
        let m = half_at(group, LINE + place(at, lane));
        for (c, x) in out.iter_mut().enumerate() {
            *x = f32::from(low_of(&group[2 * LINE + at * LOW..], lane, c)) * d + m;
        }
    }
}

/// 22 bytes: d, the fifth bits, codes as in Q4_0.
impl Packed for Q5_0 {
    const COLUMNS: usize = 32;
    const BLOCK_BYTES: usize = 22;
    const BLOCKS: usize = 2;
    const BYTES: usize = PAIR_5;

    #[inline(always)]
    fn write(block: &[u8], at: usize, lane: usize, group: &mut [u8]) {
        put(group, place(at, lane), &block[..2]);
        let lines = &mut group[LINE + at * (LINE + LOW)..][..LINE + LOW];
        put_fifth(word_at(block, 2), lane, lines);
        put_nibbles(&block[6..22], lane, &mut lines[LINE..]);
    }

    fn read(group: &[u8], at: usize, lane: usize, out: &mut [f32]) {
        let d = half_at(group, place(at, lane));
        let lines = &group[LINE + at * (LINE + LOW)..][..LINE + LOW];
        for (c, x) in out.iter_mut().enumerate() {
            *x = (f32::from(five_bits(lines, lane, c)) - 16.0) * d;
        }
    }
}

/// 24 bytes: d, m, the fifth bits, codes as in Q4_0.
impl Packed for Q5_1 {
    const COLUMNS: usize = 32;
    const BLOCK_BYTES: usize = 24;
    const BLOCKS: usize = 2;
    const BYTES: usize = PAIR_5_1;

    #[inline(always)]
    fn write(block: &[u8], at: usize, lane: usize, group: &mut [u8]) {
        put(group, place(at, lane), &block[..2]);
        put(group, LINE + place(at, lane), &block[2..4]);
        let lines = &mut group[2 * LINE + at * (LINE + LOW)..][..LINE + LOW];
        put_fifth(word_at(block, 4), lane, lines);
        put_nibbles(&block[8..24], lane, &mut lines[LINE..]);
    }

    fn read(group: &[u8], at: usize, lane: usize, out: &mut [f32]) {
        let d = half_at(group, place(at, lane));
        let m = half_at(group, LINE + place(at, lane));
        let lines = &group[2 * LINE + at * (LINE + LOW)..][..LINE + LOW];
        for (c, x) in out.iter_mut().enumerate() {
            *x = f32::from(five_bits(lines, lane, c)) * d + m;
        }
    }
}

/// 17 bytes: an exponent, codes as in Q4_0.
impl Packed for Mxfp4 {
    const COLUMNS: usize = 32;
    const BLOCK_BYTES: usize = 17;
    const BLOCKS: usize = 4;
    const BYTES: usize = QUAD_FP4;

    #[inline(always)]
    fn write(block: &[u8], at: usize, lane: usize, group: &mut [u8]) {
        group[at * LANES + lane] = block[0];
        put_nibbles(&block[1..17], lane, &mut group[LINE + at * LOW..][..LOW]);
    }

    fn read(group: &[u8], at: usize, lane: usize, out: &mut [f32]) {
        let d = half_of_e8m0(group[at * LANES + lane]);
        for (c, x) in out.iter_mut().enumerate() {
            let level = FP4_LEVELS[usize::from(low_of(&group[LINE + at * LOW..], lane, c))];
            *x = d * f32::from(level);
        }
    }
}

/// Half of 2 to the power of `exponent` − 127, as the levels are doubled.
fn half_of_e8m0(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 | 1 => 0x0020_0000 << exponent,
        _ => u32::from(exponent - 1) << 23,
    })
}
