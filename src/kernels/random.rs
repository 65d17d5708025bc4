//! Random weights in the bytes of a file, for measurements and tests.

use half::{bf16, f16};

use super::format::Format;

/// A row of `inputs` weights, centred near 0 with a deviation near 1/√inputs.
pub fn row(format: Format, inputs: usize, seed: u64) -> Vec<u8> {
    let mut bits = Bits(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let deviation = 1.0 / (inputs.max(1) as f32).sqrt();
    let mut row = vec![0u8; inputs / format.block() * format.block_bytes()];
    match format {
        Format::F32 | Format::F16 | Format::BF16 => {
            let size = format.block_bytes();
            for to in row.chunks_exact_mut(size) {
                let x = bits.uniform() * deviation * 3f32.sqrt();
                match format {
                    Format::F32 => to.copy_from_slice(&x.to_le_bytes()),
                    Format::F16 => to.copy_from_slice(&f16::from_f32(x).to_le_bytes()),
                    _ => to.copy_from_slice(&bf16::from_f32(x).to_le_bytes()),
                }
            }
        }
        _ => {
            for block in row.chunks_exact_mut(format.block_bytes()) {
                for to in block.chunks_mut(8) {
                    to.copy_from_slice(&bits.next().to_le_bytes()[..to.len()]);
                }
                // A uniform code of n bits deviates by 2ⁿ/√12, a six-bit scale is about 36 at the
                // root of its mean square, a signed byte 74. The minima take the codes' mean off.
                let d = deviation * (0.75 + 0.25 * bits.uniform());
                let half = |x: f32| f16::from_f32(x).to_le_bytes();
                match format {
                    Format::Q8_0 => block[..2].copy_from_slice(&half(d / 74.0)),
                    Format::Q4_0 => block[..2].copy_from_slice(&half(d / 4.6)),
                    Format::Q4K => {
                        block[..2].copy_from_slice(&half(d / (4.6 * 36.0)));
                        block[2..4].copy_from_slice(&half(7.5 * d / (4.6 * 36.0)));
                    }
                    Format::Q5K => {
                        block[..2].copy_from_slice(&half(d / (9.2 * 36.0)));
                        block[2..4].copy_from_slice(&half(15.5 * d / (9.2 * 36.0)));
                    }
                    _ => block[208..].copy_from_slice(&half(d / (18.5 * 74.0))),
                }
            }
        }
    }
    row
}

/// xorshift64.
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// In −1..1.
    fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}
