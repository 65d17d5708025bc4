//! Formats of 256-weight blocks: one or two floats, then integer scales for every 16 or 32 columns.
//! It determines where their parts are, not how they are multiplied.

use half::f16;

use super::{
    Packed, bit_planes, byte_of, eight, float_at, fold, low_of, plane_bit, put, put_nibbles,
    put_quad,
};
use crate::kernels::block::{BLOCK, BlockCodes, IQ4_LEVELS, LINE, LOW, half_at};
use crate::kernels::format::Format;
use crate::kernels::lanes::LANES;

/// Bytes before the codes of a Q4_K, Q5_K or Q6_K superblock.
pub(in crate::kernels) const K_HEAD: usize = 320;
/// Where the scales of these formats and of Q2_K and IQ4_XS begin.
pub(in crate::kernels) const K_SCALES: usize = 64;
/// Where the minima of a Q4_K or Q5_K superblock begin.
pub(in crate::kernels) const K_MINIMA: usize = 192;
/// Bytes before the codes of a Q2_K superblock.
pub(in crate::kernels) const Q2_HEAD: usize = 320;
/// Bytes before the codes of a Q3_K superblock: a line with d, a line with the high bits of the
/// scales, two lines with their low bits.
pub(in crate::kernels) const Q3_HEAD: usize = 4 * LINE;
/// Bytes before the codes of an IQ4_XS superblock: d and the scales. The first line is half empty.
pub(in crate::kernels) const IQ4_HEAD: usize = 3 * LINE;

pub(in crate::kernels) struct Q2K;
pub(in crate::kernels) struct Q3K;
/// Q4_K (`PLANE` is 0) and Q5_K (`PLANE` is the line of fifth bits before each sub-block).
pub(in crate::kernels) struct WithMinima<const PLANE: usize>;
pub(in crate::kernels) struct Q6K;
pub(in crate::kernels) struct Iq4Xs;

/// Where the `j`-th byte of a row is among the bytes of sixteen rows, which are stored in pairs per
/// row.
fn paired(j: usize, lane: usize) -> usize {
    2 * LANES * (j / 2) + 2 * lane + j % 2
}

/// Writes two bits of each of 16 codes: each pair of bits of a byte belongs to another four
/// columns.
fn put_pairs(codes: &[u8], lane: usize, lines: &mut [u8], line: usize) {
    let quads = (0..2).fold(0, |quads, i| {
        let eight = eight(codes, 8 * i) & 0x0303_0303_0303_0303;
        quads | (eight as u32) << (4 * i) | ((eight >> 32) as u32) << (4 * i + 2)
    });
    put_quad(lines, line, lane, quads);
}

/// Reads two bits of one of 16 codes.
fn pair_of(lines: &[u8], line: usize, lane: usize, column: usize) -> u8 {
    byte_of(lines, line, lane, column) >> (column / 4 % 4 * 2) & 3
}

/// Writes three bits of each of 32 codes into three lines. A byte holds two codes, of four columns
/// each, and above them the low bits of the third or the last four columns, whose high bits are at
/// the end of the last line. A product extracts six of eight groups with a shift and a mask.
fn put_threes(codes: &[u8; 32], lane: usize, lines: &mut [u8]) {
    let [a, b, c, d, e, f, g, h] =
        std::array::from_fn(|i| u32::from_le_bytes(std::array::from_fn(|j| codes[4 * i + j])));
    let low = |quad: u32| (quad & 0x0303_0303) << 6;
    let high = |quad: u32| quad >> 2 & 0x0101_0101;
    put_quad(lines, 0, lane, a | b << 3 | low(d));
    put_quad(lines, 1, lane, c | e << 3 | low(h));
    put_quad(lines, 2, lane, f | g << 3 | high(d) << 6 | high(h) << 7);
}

/// Reads three bits of one of 32 codes.
fn three_of(lines: &[u8], lane: usize, column: usize) -> u8 {
    let byte = |line| byte_of(lines, line, lane, column);
    match column / 4 {
        0 => byte(0) & 7,
        1 => byte(0) >> 3 & 7,
        2 => byte(1) & 7,
        3 => byte(0) >> 6 | (byte(2) >> 6 & 1) << 2,
        4 => byte(1) >> 3 & 7,
        5 => byte(2) & 7,
        6 => byte(2) >> 3 & 7,
        _ => byte(1) >> 6 | byte(2) >> 7 << 2,
    }
}

/// Reads codes of two bits: 32 bytes hold 128 columns; the codes of a byte are 32 columns apart.
fn two_bit_codes(bytes: &[u8]) -> [u8; BLOCK] {
    let mut codes = [0; BLOCK];
    for (bytes, codes) in bytes.chunks_exact(32).zip(codes.chunks_exact_mut(128)) {
        for (pair, codes) in codes.chunks_exact_mut(32).enumerate() {
            for (code, byte) in codes.iter_mut().zip(bytes) {
                *code = byte >> (2 * pair) & 3;
            }
        }
    }
    codes
}

/// 84 bytes: 16 bytes of a scale and a minimum each, 64 of codes, d, dmin.
impl Packed for Q2K {
    const FORMAT: Format = Format::Q2K;
    const BYTES: usize = Q2_HEAD + 16 * LINE;

    #[inline(always)]
    fn write(block: &[u8], _: usize, lane: usize, to: &mut [u8]) {
        put(to, 2 * lane, &block[80..82]);
        put(to, 32 + 2 * lane, &block[82..84]);
        for (j, byte) in block[..16].iter().enumerate() {
            to[K_SCALES + paired(j, lane)] = *byte;
        }
        for (j, codes) in two_bit_codes(&block[16..80]).chunks_exact(16).enumerate() {
            put_pairs(codes, lane, &mut to[Q2_HEAD..], j);
        }
    }

    fn read(from: &[u8], _: usize, lane: usize, to: &mut BlockCodes) {
        let d = half_at(from, 2 * lane);
        let dmin = half_at(from, 32 + 2 * lane);
        for (j, codes) in to.codes.chunks_exact_mut(16).enumerate() {
            let byte = from[K_SCALES + paired(j, lane)];
            to.scales[j] = d * f32::from(byte & 15);
            to.minima[j] = dmin * f32::from(byte >> 4);
            for (c, code) in codes.iter_mut().enumerate() {
                *code = pair_of(&from[Q2_HEAD..], j, lane, c) as i8;
            }
        }
    }
}

/// 110 bytes: 32 of third bits (a byte holds those of columns 32 apart), 64 of two bits, 12 of
/// scales, d.
impl Packed for Q3K {
    const FORMAT: Format = Format::Q3K;
    const BYTES: usize = Q3_HEAD + 8 * (3 * LINE);

    #[inline(always)]
    fn write(block: &[u8], _: usize, lane: usize, to: &mut [u8]) {
        put(to, 2 * lane, &block[108..110]);
        let scales = &block[96..108];
        // Line 1 has bits 4 and 5 of scale 4 · i + k in the i-th pair of byte k. Lines 2 and 3 have
        // the low bits: those of i = 0 and 2 in the low halves, those of 1 and 3 in the high
        // halves.
        for j in 0..16 {
            let i = j / 4;
            let k = j % 4;
            let high = scales[8 + k] >> (2 * i) & 3;
            let low = scales[j % 8] >> (4 * (j / 8)) & 15;
            to[LINE + paired(k, lane)] |= high << (2 * i);
            to[(2 + i / 2) * LINE + paired(k, lane)] |= low << (4 * (i % 2));
        }
        let codes = two_bit_codes(&block[32..96]);
        let third = &block[..32];
        for (j, (low, to)) in
            codes.chunks_exact(32).zip(to[Q3_HEAD..].chunks_exact_mut(3 * LINE)).enumerate()
        {
            let mut codes = [0; 32];
            for ((code, low), third) in codes.iter_mut().zip(low).zip(third) {
                *code = low | (third >> j & 1) << 2;
            }
            put_threes(&codes, lane, to);
        }
    }

    fn read(from: &[u8], _: usize, lane: usize, to: &mut BlockCodes) {
        let d = half_at(from, 2 * lane);
        for (j, codes) in to.codes.chunks_exact_mut(16).enumerate() {
            let i = j / 4;
            let k = j % 4;
            let high = from[LINE + paired(k, lane)] >> (2 * i) & 3;
            let low = from[(2 + i / 2) * LINE + paired(k, lane)] >> (4 * (i % 2)) & 15;
            to.scales[j] = d * (f32::from(low | high << 4) - 32.0);
            let lines = &from[Q3_HEAD + j / 2 * (3 * LINE)..][..3 * LINE];
            for (c, code) in codes.iter_mut().enumerate() {
                *code = three_of(lines, lane, j % 2 * 16 + c) as i8 - 4;
            }
        }
    }
}

/// Reads the eight scales and eight minima of six bits that begin at byte 4 of a Q4_K or Q5_K
/// block.
fn six_bit_scales(block: &[u8]) -> ([u8; 8], [u8; 8]) {
    let packed = &block[4..16];
    let mut scales = [0; 8];
    let mut minima = [0; 8];
    for j in 0..4 {
        scales[j] = packed[j] & 63;
        minima[j] = packed[j + 4] & 63;
        scales[j + 4] = packed[j + 8] & 15 | packed[j] >> 6 << 4;
        minima[j + 4] = packed[j + 8] >> 4 | packed[j + 4] >> 6 << 4;
    }
    (scales, minima)
}

/// Writes the head of a Q4_K or Q5_K superblock.
#[inline(always)]
fn put_head(block: &[u8], lane: usize, to: &mut [u8]) {
    put(to, 2 * lane, &block[..2]);
    put(to, 32 + 2 * lane, &block[2..4]);
    let (scales, minima) = six_bit_scales(block);
    for j in 0..8 {
        to[K_SCALES + LANES * j + lane] = scales[j];
        to[K_MINIMA + paired(j, lane)] = minima[j];
    }
}

/// Writes 32 bytes with the low bits of two sub-blocks, the first in the low halves. The first
/// begins at `lines`, the second `stride` bytes later.
#[inline(always)]
fn put_halves(bytes: &[u8], lane: usize, lines: &mut [u8], stride: usize) {
    let (first, second) = lines.split_at_mut(stride);
    for i in 0..4 {
        let eight = eight(bytes, 8 * i);
        put_quad(first, i, lane, fold(eight));
        put_quad(second, i, lane, fold(eight >> 4));
    }
}

/// 144 bytes: d, dmin, 12 of scales and minima, 128 of codes, with two sub-blocks in every 32
/// bytes; with fifth bits 176, of which 32 are the fifth bits of the eight sub-blocks, before the
/// other codes.
impl<const PLANE: usize> Packed for WithMinima<PLANE> {
    const FORMAT: Format = if PLANE == 0 { Format::Q4K } else { Format::Q5K };
    const BYTES: usize = K_HEAD + 8 * (PLANE + LOW);

    #[inline(always)]
    fn write(block: &[u8], _: usize, lane: usize, to: &mut [u8]) {
        put_head(block, lane, to);
        let (fifth, low) = block[16..].split_at(PLANE / 2);
        let stride = PLANE + LOW;
        let lines = to[K_HEAD..].chunks_exact_mut(2 * stride);
        for (i, (bytes, lines)) in low.chunks_exact(32).zip(lines).enumerate() {
            if PLANE > 0 {
                put_quad(lines, 0, lane, bit_planes(fifth, 2 * i as u32));
                put_quad(&mut lines[stride..], 0, lane, bit_planes(fifth, 2 * i as u32 + 1));
            }
            put_halves(bytes, lane, &mut lines[PLANE..], stride);
        }
    }

    fn read(from: &[u8], _: usize, lane: usize, to: &mut BlockCodes) {
        let d = half_at(from, 2 * lane);
        let dmin = half_at(from, 32 + 2 * lane);
        for (j, codes) in to.codes.chunks_exact_mut(32).enumerate() {
            let scale = d * f32::from(from[K_SCALES + LANES * j + lane]);
            let minimum = dmin * f32::from(from[K_MINIMA + paired(j, lane)]);
            to.scales[2 * j..2 * j + 2].fill(scale);
            to.minima[2 * j..2 * j + 2].fill(minimum);
            let lines = &from[K_HEAD + j * (PLANE + LOW)..][..PLANE + LOW];
            for (c, code) in codes.iter_mut().enumerate() {
                *code = low_of(&lines[PLANE..], lane, c) as i8;
                if PLANE > 0 {
                    *code |= (plane_bit(lines, lane, c) << 4) as i8;
                }
            }
        }
    }
}

/// 210 bytes: two halves of 128 columns, with 64 bytes of low bits each, then 32 of high bits each,
/// 16 signed scales, d.
impl Packed for Q6K {
    const FORMAT: Format = Format::Q6K;
    const BYTES: usize = K_HEAD + 8 * (2 * LINE + LOW);

    #[inline(always)]
    fn write(block: &[u8], _: usize, lane: usize, to: &mut [u8]) {
        let d = f16::from_le_bytes([block[208], block[209]]);
        put(to, 4 * lane, &d.to_f32().to_le_bytes());
        for (j, scale) in block[192..208].iter().enumerate() {
            to[K_SCALES + LANES * j + lane] = *scale;
        }
        let lines = to[K_HEAD..].chunks_exact_mut(2 * LINE + LOW);
        for (j, lines) in lines.enumerate() {
            // Sub-block j: bytes 32 · (j % 2) of its half's low bits; the first two use the low
            // four bits.
            let half = j / 4;
            let quarter = j % 4;
            let low = &block[64 * half + 32 * (quarter % 2)..][..32];
            let high = &block[128 + 32 * half..][..32];
            for line in 0..4 {
                let eight = eight(low, 8 * line) >> (4 * (quarter / 2));
                put_quad(&mut lines[2 * LINE..], line, lane, fold(eight));
            }
            let mut pairs = [0; 32];
            for (pair, byte) in pairs.iter_mut().zip(high) {
                *pair = byte >> (2 * quarter) & 3;
            }
            put_pairs(&pairs[..16], lane, lines, 0);
            put_pairs(&pairs[16..], lane, lines, 1);
        }
    }

    fn read(from: &[u8], _: usize, lane: usize, to: &mut BlockCodes) {
        let d = float_at(from, 4 * lane);
        for (j, codes) in to.codes.chunks_exact_mut(16).enumerate() {
            to.scales[j] = d * f32::from(from[K_SCALES + LANES * j + lane] as i8);
            let lines = &from[K_HEAD + j / 2 * (2 * LINE + LOW)..][..2 * LINE + LOW];
            for (c, code) in codes.iter_mut().enumerate() {
                let low = low_of(&lines[2 * LINE..], lane, j % 2 * 16 + c);
                *code = (low | pair_of(lines, j % 2, lane, c) << 4) as i8 - 32;
            }
        }
    }
}

/// 136 bytes: d, 2 with the high bits of the scales, 4 with their low bits, 128 of codes, 16 bytes
/// per sub-block.
impl Packed for Iq4Xs {
    const FORMAT: Format = Format::Iq4Xs;
    const BYTES: usize = IQ4_HEAD + 8 * LOW;

    #[inline(always)]
    fn write(block: &[u8], _: usize, lane: usize, to: &mut [u8]) {
        put(to, 2 * lane, &block[..2]);
        let high = u16::from_le_bytes([block[2], block[3]]);
        let (head, lines) = to.split_at_mut(IQ4_HEAD);
        for (j, (codes, lines)) in
            block[8..136].chunks_exact(16).zip(lines.chunks_exact_mut(LOW)).enumerate()
        {
            let low = block[4 + j / 2] >> (4 * (j % 2)) & 15;
            let scale = low | ((high >> (2 * j) & 3) as u8) << 4;
            head[K_SCALES + LANES * j + lane] = scale.wrapping_sub(32);
            put_nibbles(codes, lane, lines);
        }
    }

    fn read(from: &[u8], _: usize, lane: usize, to: &mut BlockCodes) {
        let d = half_at(from, 2 * lane);
        for (j, codes) in to.codes.chunks_exact_mut(32).enumerate() {
            let scale = d * f32::from(from[K_SCALES + LANES * j + lane] as i8);
            to.scales[2 * j..2 * j + 2].fill(scale);
            for (c, code) in codes.iter_mut().enumerate() {
                let index = low_of(&from[IQ4_HEAD + j * LOW..], lane, c);
                *code = IQ4_LEVELS[usize::from(index)];
            }
        }
    }
}
