//! Random weights in the bytes of a file, for measurements and tests. It does not depend on a
//! model.

use half::{bf16, f16};

use super::format::{Format, Storage};

/// A row of `inputs` weights with a mean near 0 and a standard deviation near 1/√inputs.
pub fn row(format: Format, inputs: usize, seed: u64) -> Vec<u8> {
    let mut bits = Bits(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let deviation = 1.0 / (inputs.max(1) as f32).sqrt();
    let mut row = vec![0u8; inputs / format.block() * format.block_bytes()];
    if format.storage() == Storage::Floats {
        for to in row.chunks_exact_mut(format.block_bytes()) {
            let x = bits.uniform() * deviation * 3f32.sqrt();
            match format {
                Format::F32 => to.copy_from_slice(&x.to_le_bytes()),
                Format::F16 => to.copy_from_slice(&f16::from_f32(x).to_le_bytes()),
                _ => to.copy_from_slice(&bf16::from_f32(x).to_le_bytes()),
            }
        }
        return row;
    }
    for block in row.chunks_exact_mut(format.block_bytes()) {
        for to in block.chunks_mut(8) {
            to.copy_from_slice(&bits.next().to_le_bytes()[..to.len()]);
        }
        set_scale(format, block, deviation * (0.75 + 0.25 * bits.uniform()));
    }
    row
}

/// Sets the scale of a block of random codes and inner scales so that its weights have the standard
/// deviation `deviation`, and the minimum so that their mean is 0.
fn set_scale(format: Format, block: &mut [u8], deviation: f32) {
    // Where the scale is, the standard deviation of the weights at scale 1, and minus their mean at
    // minimum 0, if they have a minimum. A uniform code of n bits has the deviation 2ⁿ/√12; the
    // root mean square of a six-bit scale is about 36, that of a signed byte 74.
    let (at, spread, minimum) = match format {
        Format::F32 | Format::F16 | Format::BF16 => return,
        Format::Q8_0 => (0, 74.0, None),
        Format::Q4_0 => (0, 4.6, None),
        Format::Q4_1 => (0, 4.6, Some(-7.5)),
        Format::Q5_0 => (0, 9.2, None),
        Format::Q5_1 => (0, 9.2, Some(-15.5)),
        Format::Q2K => (80, 13.9, Some(1.5)),
        Format::Q3K => (108, 43.0, None),
        Format::Q4K => (0, 4.6 * 36.0, Some(7.5)),
        Format::Q5K => (0, 9.2 * 36.0, Some(15.5)),
        Format::Q6K => (208, 18.5 * 74.0, None),
        Format::Iq4Nl => (0, 67.0, None),
        Format::Iq4Xs => (0, 1250.0, None),
        Format::Iq3Xxs | Format::Iq3S => (0, 141.0, None),
        Format::Iq2Xxs | Format::Iq2Xs | Format::Iq2S => (0, 55.0, None),
        Format::Iq1S => (0, 7.2, None),
        Format::Tq1_0 => (52, 0.82, None),
        Format::Tq2_0 => (64, 1.22, None),
        Format::Q1_0 => (0, 1.0, None),
        Format::Q2_0 => (0, 1.22, None),
        // Its scale is in the high bits of four words.
        Format::Iq1M => {
            let d = f16::from_f32(deviation / 7.2).to_bits();
            for i in 0..4 {
                let byte = &mut block[49 + 2 * i];
                *byte = *byte & 15 | ((d >> (4 * i) & 15) as u8) << 4;
            }
            return;
        }
        // The scale is an exponent: the nearest power of two.
        Format::Mxfp4 => {
            block[0] = (128.0 + (deviation / 5.85).log2().round()) as u8;
            return;
        }
        Format::Nvfp4 => {
            block[..4].fill(ue4m3(2.0 * deviation / 5.85));
            return;
        }
    };
    let mut put = |at: usize, x: f32| {
        block[at..at + 2].copy_from_slice(&f16::from_f32(x).to_le_bytes());
    };
    put(at, deviation / spread);
    if let Some(minimum) = minimum {
        put(at + 2, minimum * deviation / spread);
    }
}

/// Rounds a number under 1 down to an unsigned 8-bit float of 4 exponent and 3 mantissa bits.
fn ue4m3(x: f32) -> u8 {
    let exponent = x.to_bits() >> 23;
    let fraction = x.to_bits() >> 20 & 7;
    match exponent {
        121.. => ((exponent - 120) << 3 | fraction) as u8,
        // Here neighbouring values differ by 2⁻⁹.
        _ => (x * 512.0) as u8,
    }
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

    /// A uniform number in −1..1.
    fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Matrix, Pool};

    #[test]
    fn weights_of_every_format_keep_activations_at_their_size() {
        let pool = Pool::new(1);
        let inputs = 1024;
        for format in Format::ALL {
            let rows: Vec<Vec<u8>> = (3..19).map(|seed| super::row(format, inputs, seed)).collect();
            let matrix = Matrix::pack(format, 16, inputs, &rows.concat(), &pool).unwrap();
            let mut row = vec![0.0; inputs];
            let mut squares = 0.0;
            let mut sum = 0.0;
            for i in 0..16 {
                matrix.row(i, &mut row);
                squares += row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
                sum += row.iter().map(|x| f64::from(*x)).sum::<f64>();
            }
            let deviation = (squares / 16.0).sqrt();
            assert!((0.5..1.5).contains(&deviation), "{format}: {deviation}");
            let mean = sum / (16.0 * inputs as f64) * (inputs as f64).sqrt();
            assert!(mean.abs() < 0.6, "{format}: mean {mean}");
        }
    }
}
