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

/// Columns that share a scale and a minimum in [`BlockCodes`].
pub(super) const RUN: usize = 16;

/// A block of a quantised format as numbers: a weight is code · scale − minimum, exactly.
pub struct BlockCodes {
    /// As many as the block has weights.
    pub codes: [i8; BLOCK],
    /// The scale of each 16 of them.
    pub scales: [f32; BLOCK / RUN],
    /// The minimum of each 16 of them.
    pub minima: [f32; BLOCK / RUN],
}

impl BlockCodes {
    pub(super) const ZERO: Self =
        Self { codes: [0; BLOCK], scales: [0.0; BLOCK / RUN], minima: [0.0; BLOCK / RUN] };

    /// The weights.
    pub(super) fn write(&self, out: &mut [f32]) {
        for (i, (x, code)) in out.iter_mut().zip(self.codes).enumerate() {
            *x = self.scales[i / RUN] * f32::from(code) - self.minima[i / RUN];
        }
    }
}

/// Reads the little-endian half float at `at`.
pub(super) fn half_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// Reads the little-endian 32-bit word at `at`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
