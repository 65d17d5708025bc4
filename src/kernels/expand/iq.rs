//! The formats whose weights are groups from a codebook. It deals with blocks only.

use super::codebooks::{IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS};
use super::{parts_of_32, u16_at};
use crate::kernels::block::{half_at, u32_at};

/// Eight signs, of which seven are stored: the number of minus signs is even.
fn even_signs(seven: u32) -> u8 {
    let seven = (seven & 127) as u8;
    seven | ((seven.count_ones() & 1) << 7) as u8
}

/// Writes the codes of levels, or of their negatives where the bit of `signs` is set.
fn put(to: &mut [u8], entry: &[u8], signs: u8) {
    for (i, (to, &code)) in to.iter_mut().zip(entry).enumerate() {
        *to = code ^ (15 * (signs >> i & 1));
    }
}

/// 66 bytes: d, then for every 32 columns four indices and a word of 4 × 7 signs and a scale.
pub(in crate::kernels) fn iq2_xxs(block: &[u8], codes: &mut [u8], factors: &mut [u16]) -> f32 {
    for (i, (codes, factors)) in parts_of_32(codes, factors) {
        let word = u32_at(block, 6 + 8 * i);
        factors.fill(odd(word >> 28));
        for (l, codes) in codes.chunks_exact_mut(8).enumerate() {
            let index = usize::from(block[2 + 8 * i + l]);
            put(codes, &IQ2_XXS[index], even_signs(word >> (7 * l)));
        }
    }
    half_at(block, 0) * 0.125
}

/// 74 bytes: d, 32 words of a 9-bit index and 7 signs, 16 scales of 4 bits.
pub(in crate::kernels) fn iq2_xs(block: &[u8], codes: &mut [u8], factors: &mut [u16]) -> f32 {
    four_bit_factors(&block[66..74], factors);
    for (i, codes) in codes.chunks_exact_mut(8).enumerate() {
        let word = u16_at(block, 2 + 2 * i);
        put(codes, &IQ2_XS[usize::from(word & 511)], even_signs(u32::from(word >> 9)));
    }
    half_at(block, 0) * 0.125
}

/// 82 bytes: d, 32 low bytes of indices, 32 bytes of signs, 2 more bits of each index, and 16
/// scales of 4 bits.
pub(in crate::kernels) fn iq2_s(block: &[u8], codes: &mut [u8], factors: &mut [u16]) -> f32 {
    four_bit_factors(&block[74..82], factors);
    for (i, codes) in codes.chunks_exact_mut(8).enumerate() {
        let high = usize::from(block[66 + i / 4] >> (2 * (i % 4)) & 3);
        let index = usize::from(block[2 + i]) | high << 8;
        put(codes, &IQ2_S[index], block[34 + i]);
    }
    half_at(block, 0) * 0.125
}

/// 2 · scale + 1: every scale of these formats is an odd multiple of the unit that is returned.
fn odd(scale: u32) -> u16 {
    2 * scale as u16 + 1
}

/// The factors of scales of four bits.
fn four_bit_factors(packed: &[u8], factors: &mut [u16]) {
    for (pair, &byte) in factors.chunks_exact_mut(2).zip(packed) {
        pair[0] = odd(u32::from(byte & 15));
        pair[1] = odd(u32::from(byte >> 4));
    }
}

/// 98 bytes: d, 64 indices, then one word for every 32 columns with 4 × 7 signs and a scale.
pub(in crate::kernels) fn iq3_xxs(block: &[u8], codes: &mut [u8], factors: &mut [u16]) -> f32 {
    for (i, (codes, factors)) in parts_of_32(codes, factors) {
        let word = u32_at(block, 66 + 4 * i);
        factors.fill(odd(word >> 28));
        for (l, codes) in codes.chunks_exact_mut(8).enumerate() {
            let signs = even_signs(word >> (7 * l));
            let at = 2 + 8 * i + 2 * l;
            put(&mut codes[..4], &IQ3_XXS[usize::from(block[at])], signs);
            put(&mut codes[4..], &IQ3_XXS[usize::from(block[at + 1])], signs >> 4);
        }
    }
    half_at(block, 0) * 0.25
}

/// 110 bytes: d, 64 low bytes of indices, a ninth bit of each, 32 bytes of signs, and a 4-bit scale
/// for every 32 columns.
pub(in crate::kernels) fn iq3_s(block: &[u8], codes: &mut [u8], factors: &mut [u16]) -> f32 {
    for (i, factors) in factors.chunks_exact_mut(2).enumerate() {
        factors.fill(odd(u32::from(block[106 + i / 2] >> (4 * (i % 2)) & 15)));
    }
    for (i, codes) in codes.chunks_exact_mut(4).enumerate() {
        let high = usize::from(block[66 + i / 8] >> (i % 8) & 1);
        let index = usize::from(block[2 + i]) | high << 8;
        put(codes, &IQ3_S[index], block[74 + i / 2] >> (4 * (i % 2)));
    }
    half_at(block, 0)
}

/// Writes the codes of levels that are shifted by an eighth up or down.
fn put_shifted(to: &mut [u8], entry: &[u8], down: bool) {
    for (to, &code) in to.iter_mut().zip(entry) {
        *to = 2 * code + u8::from(!down);
    }
}

/// 50 bytes: d, 32 low bytes of indices, then one word for every 32 columns with 4 × 3 more bits, a
/// 3-bit scale and the direction of the shift.
pub(in crate::kernels) fn iq1_s(block: &[u8], codes: &mut [u8], factors: &mut [u16]) -> f32 {
    for (i, (codes, factors)) in parts_of_32(codes, factors) {
        let word = u16_at(block, 34 + 2 * i);
        factors.fill(odd(u32::from(word >> 12 & 7)));
        for (l, codes) in codes.chunks_exact_mut(8).enumerate() {
            let high = usize::from(word >> (3 * l) & 7);
            let index = usize::from(block[2 + 4 * i + l]) | high << 8;
            put_shifted(codes, &IQ1[index], word & 0x8000 != 0);
        }
    }
    half_at(block, 0) * 0.125
}

/// 56 bytes: 32 low bytes of indices, 4 bits for each (three more bits of it and the direction of
/// the shift), then four words, each with 4 × 3-bit scales and a quarter of d.
pub(in crate::kernels) fn iq1_m(block: &[u8], codes: &mut [u8], factors: &mut [u16]) -> f32 {
    let word = |i: usize| u16_at(block, 48 + 2 * i);
    let d = (0..4).fold(0, |d, i| d | word(i) >> 12 << (4 * i));
    for (j, factor) in factors.iter_mut().enumerate() {
        *factor = odd(u32::from(word(j / 4) >> (3 * (j % 4)) & 7));
    }
    for (i, codes) in codes.chunks_exact_mut(8).enumerate() {
        let more = block[32 + i / 2] >> (4 * (i % 2));
        let index = usize::from(block[i]) | usize::from(more & 7) << 8;
        put_shifted(codes, &IQ1[index], more & 8 != 0);
    }
    half::f16::from_bits(d).to_f32() * 0.125
}
