//! What tiles, expanded blocks and products agree on: the sizes of a superblock and the levels that
//! 4-bit codes stand for. It does not depend on a layout.

use half::f16;

/// Columns in a superblock.
pub(super) const BLOCK: usize = 256;
/// Bytes in a line, which is one operand.
pub(super) const LINE: usize = 64;
/// Bytes of the low four bits of 32 columns.
pub(super) const LOW: usize = 256;

/// The levels of IQ4_NL and IQ4_XS.
pub(super) const IQ4_LEVELS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the values of 4-bit floats with 2 exponent bits and 1 mantissa bit.
pub(super) const FP4_LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Reads the little-endian half float at `at`.
pub(super) fn half_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// Reads the little-endian 32-bit word at `at`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
