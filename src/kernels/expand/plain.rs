//! Ternary weights, signs, two bits and NVFP4. It deals with blocks only.

use super::RUN;
use crate::kernels::block::{FP4_LEVELS, half_at};

/// The `digit`-th ternary digit, minus 1, of a byte that holds five digits as a fraction of 256.
fn trit(byte: u8, digit: usize) -> i8 {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    let shifted = byte.wrapping_mul(POWERS[digit]);
    ((u16::from(shifted) * 3) >> 8) as i8 - 1
}

/// 54 bytes: 48 of five digits each (32, then 16 contiguous), 4 of four digits each, d.
pub(in crate::kernels) fn tq1_0(block: &[u8], codes: &mut [i8], scales: &mut [f32]) {
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
    scales.fill(half_at(block, 52));
}

/// 66 bytes: 64 of four weights each, which are 32 columns apart, and d.
pub(in crate::kernels) fn tq2_0(block: &[u8], codes: &mut [i8], scales: &mut [f32]) {
    for (bytes, codes) in block[..64].chunks_exact(32).zip(codes.chunks_exact_mut(128)) {
        for (pair, codes) in codes.chunks_exact_mut(32).enumerate() {
            for (to, byte) in codes.iter_mut().zip(bytes) {
                *to = (byte >> (2 * pair) & 3) as i8 - 1;
            }
        }
    }
    scales.fill(half_at(block, 64));
}

/// 18 bytes: d, 128 signs.
pub(in crate::kernels) fn q1_0(block: &[u8], codes: &mut [i8], scales: &mut [f32]) {
    for (codes, byte) in codes.chunks_exact_mut(8).zip(&block[2..18]) {
        for (bit, to) in codes.iter_mut().enumerate() {
            *to = 2 * (byte >> bit & 1) as i8 - 1;
        }
    }
    scales.fill(half_at(block, 0));
}

/// 18 bytes: d, 64 weights of two bits.
pub(in crate::kernels) fn q2_0(block: &[u8], codes: &mut [i8], scales: &mut [f32]) {
    for (codes, byte) in codes.chunks_exact_mut(4).zip(&block[2..18]) {
        for (pair, to) in codes.iter_mut().enumerate() {
            *to = (byte >> (2 * pair) & 3) as i8 - 1;
        }
    }
    scales.fill(half_at(block, 0));
}

/// 36 bytes: four scales, then 8 bytes for every 16 columns: the low halves, then the high ones.
pub(in crate::kernels) fn nvfp4(block: &[u8], codes: &mut [i8], scales: &mut [f32]) {
    for (bytes, codes) in block[4..36].chunks_exact(8).zip(codes.chunks_exact_mut(RUN)) {
        for (i, byte) in bytes.iter().enumerate() {
            codes[i] = FP4_LEVELS[usize::from(byte & 15)];
            codes[i + 8] = FP4_LEVELS[usize::from(byte >> 4)];
        }
    }
    for (scale, &byte) in scales.iter_mut().zip(&block[..4]) {
        *scale = half_of_ue4m3(byte);
    }
}

/// Half of an unsigned 8-bit float of 4 exponent and 3 mantissa bits, because the levels are
/// doubled. The NaN pattern counts as 0.
fn half_of_ue4m3(byte: u8) -> f32 {
    let exponent = i32::from(byte >> 3 & 15);
    let mantissa = f32::from(byte & 7);
    match (byte, exponent) {
        (0x7f, _) => 0.0,
        (_, 0) => mantissa * 2f32.powi(-10),
        _ => (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 8),
    }
}
