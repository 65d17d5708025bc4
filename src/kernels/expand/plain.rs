//! Ternary weights, signs, two bits and NVFP4. It deals with blocks only.

use half::f16;

use super::u16_at;
use crate::kernels::block::RUN;

/// The `digit`-th ternary digit of a byte that holds five digits as a fraction of 256.
fn trit(byte: u8, digit: usize) -> u8 {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    let shifted = byte.wrapping_mul(POWERS[digit]);
    ((u16::from(shifted) * 3) >> 8) as u8
}

/// 54 bytes: 48 of five digits each (32, then 16 contiguous), 4 of four digits each, d.
pub(in crate::kernels) fn tq1_0(block: &[u8], codes: &mut [u8], factors: &mut [u16]) -> f32 {
    for (bytes, first, digits) in
        [(&block[..32], 0, 5), (&block[32..48], 160, 5), (&block[48..52], 240, 4)]
    {
        for digit in 0..digits {
            let to = &mut codes[first + digit * bytes.len()..][..bytes.len()];
            for (to, &byte) in to.iter_mut().zip(bytes) {
                *to = trit(byte, digit);
            }
        }
    }
    factors.fill(u16_at(block, 52));
    1.0
}

/// 66 bytes: 64 of four weights each, which are 32 columns apart, and d.
pub(in crate::kernels) fn tq2_0(block: &[u8], codes: &mut [u8], factors: &mut [u16]) -> f32 {
    for (bytes, codes) in block[..64].chunks_exact(32).zip(codes.chunks_exact_mut(128)) {
        for (pair, codes) in codes.chunks_exact_mut(32).enumerate() {
            for (to, byte) in codes.iter_mut().zip(bytes) {
                *to = byte >> (2 * pair) & 3;
            }
        }
    }
    factors.fill(u16_at(block, 64));
    1.0
}

/// 18 bytes: d, 128 signs.
pub(in crate::kernels) fn q1_0(block: &[u8], codes: &mut [u8], factors: &mut [u16]) -> f32 {
    for (codes, &byte) in codes.as_chunks_mut().0.iter_mut().zip(&block[2..18]) {
        // Byte i of the word keeps bit i, and the addition carries it to the highest place, where
        // that of byte 7 is already.
        let bits = (u64::from(byte) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
        let high = ((bits + 0x007f_7f7f_7f7f_7f7f) | bits) & 0x8080_8080_8080_8080;
        *codes = (high >> 6).to_le_bytes();
    }
    factors.fill(u16_at(block, 0));
    1.0
}

/// 18 bytes: d, 64 weights of two bits.
pub(in crate::kernels) fn q2_0(block: &[u8], codes: &mut [u8], factors: &mut [u16]) -> f32 {
    for (codes, &byte) in codes.as_chunks_mut().0.iter_mut().zip(&block[2..18]) {
        let word = u32::from(byte);
        *codes = ((word | word << 6 | word << 12 | word << 18) & 0x0303_0303).to_le_bytes();
    }
    factors.fill(u16_at(block, 0));
    1.0
}

/// 36 bytes: four scales, then 8 bytes for every 16 columns: the low halves, then the high ones.
pub(in crate::kernels) fn nvfp4(block: &[u8], codes: &mut [u8], factors: &mut [u16]) -> f32 {
    for (bytes, codes) in block[4..36].chunks_exact(8).zip(codes.chunks_exact_mut(RUN)) {
        for (i, byte) in bytes.iter().enumerate() {
            codes[i] = byte & 15;
            codes[i + 8] = byte >> 4;
        }
    }
    for (factor, &byte) in factors.iter_mut().zip(&block[..4]) {
        *factor = half_of_ue4m3(byte);
    }
    1.0
}

/// Half of an unsigned 8-bit float of 4 exponent and 3 mantissa bits, because the levels are
/// doubled. The NaN pattern counts as 0.
fn half_of_ue4m3(byte: u8) -> u16 {
    let exponent = u16::from(byte >> 3 & 15);
    let mantissa = u16::from(byte & 7);
    match (byte, exponent) {
        (0x7f, _) => 0,
        (_, 0) => f16::from_f32(f32::from(mantissa) * 2f32.powi(-10)).to_bits(),
        // Half floats have the bias 15 instead of 7; one less halves the number.
        _ => (exponent + 7) << 10 | mantissa << 7,
    }
}
