//! Converts a file's blocks to the codes and scales that the shaders read. Every weight keeps its
//! exact value, except in formats without a layout here, which become 16-bit floats. It must not
//! depend on a device.

use half::f16;

use super::kernels::ShaderLayout;
use crate::kernels::{Format, Matrix, PackError, Pool, checked_row};

/// How the device stores a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Encoding {
    /// What the shader reads.
    pub(super) layout: ShaderLayout,
    /// How many columns share a scale; 0 if there are no scales.
    pub(super) run: usize,
}

impl Encoding {
    pub(super) fn of(format: Format) -> Self {
        let (layout, run) = match format {
            Format::F32 => (ShaderLayout::F32, 0),
            Format::BF16 => (ShaderLayout::BF16, 0),
            Format::Q8_0 | Format::Q5_0 => (ShaderLayout::Eight, 32),
            Format::Q6K => (ShaderLayout::Eight, 16),
            Format::Q5_1 | Format::Q5K => (ShaderLayout::EightMin, 32),
            Format::Q4_0 | Format::Q4_1 | Format::Q4K => (ShaderLayout::Four, 32),
            _ => (ShaderLayout::F16, 0),
        };
        Self { layout, run }
    }

    /// Whether the weights of `format` are widened to 16-bit floats.
    fn widens(self, format: Format) -> bool {
        self.layout == ShaderLayout::F16 && format != Format::F16
    }

    /// Bits of a weight, and how many floats each run of columns has in addition.
    fn sizes(self) -> (usize, usize) {
        match self.layout {
            ShaderLayout::F32 => (32, 0),
            ShaderLayout::F16 | ShaderLayout::BF16 => (16, 0),
            ShaderLayout::Eight => (8, 1),
            ShaderLayout::EightMin => (8, 2),
            ShaderLayout::Four => (4, 2),
        }
    }

    /// Bytes of a row's codes, or of its floats.
    pub(super) fn code_bytes(self, columns: usize) -> usize {
        columns * self.sizes().0 / 8
    }

    /// Bytes of a row's scales and minima.
    pub(super) fn scale_bytes(self, columns: usize) -> usize {
        4 * self.sizes().1 * (columns / self.run.max(1))
    }

    /// The logarithm to base 2 of how many groups of eight columns share a scale.
    pub(super) fn group_shift(self) -> u32 {
        (self.run / 8).max(1).ilog2()
    }
}

/// Encodes rows as they are stored in a file, one after the other: their codes and their scales.
///
/// # Errors
/// [`PackError`] if the bytes are not such rows.
pub(super) fn encode(
    format: Format,
    [rows, columns]: [usize; 2],
    file: &[u8],
    pool: &Pool,
) -> Result<(Vec<u8>, Vec<u8>), PackError> {
    let encoding = Encoding::of(format);
    let code_bytes = encoding.code_bytes(columns);
    let scale_bytes = encoding.scale_bytes(columns);
    checked_row(format, rows, columns, file.len())?;
    let mut codes = vec![0; rows * code_bytes];
    if scale_bytes == 0 && !encoding.widens(format) {
        codes.copy_from_slice(file);
        return Ok((codes, Vec::new()));
    }
    let matrix = Matrix::pack(format, rows, columns, file, pool)?;
    if scale_bytes == 0 {
        pool.chunks(&mut codes, code_bytes, |i, to| {
            let mut values = vec![0.0; columns];
            matrix.row(i, &mut values);
            for (to, x) in to.chunks_exact_mut(2).zip(values) {
                to.copy_from_slice(&f16::from_f32(x).to_le_bytes());
            }
        });
        return Ok((codes, Vec::new()));
    }
    let mut scales = vec![0; rows * scale_bytes];
    let mut both: Vec<_> =
        codes.chunks_exact_mut(code_bytes).zip(scales.chunks_exact_mut(scale_bytes)).collect();
    pool.chunks(&mut both, 1, |i, both| {
        for (codes, scales) in both {
            encoding.put(format, &matrix, i, codes, scales);
        }
    });
    Ok((codes, scales))
}

impl Encoding {
    /// Writes row `i` of a matrix with scales.
    fn put(self, format: Format, matrix: &Matrix, i: usize, codes: &mut [u8], scales: &mut [u8]) {
        let columns = format.block();
        // The shaders read 4-bit codes without a sign, so the zero point is in the minimum.
        let zero = if format == Format::Q4_0 { 8 } else { 0 };
        let with_minimum = self.sizes().1 == 2;
        let mut codes = codes.chunks_exact_mut(self.code_bytes(columns));
        let mut scales = scales.chunks_exact_mut(self.scale_bytes(columns));
        matrix.codes(i, &mut |block| {
            let (Some(codes), Some(scales)) = (codes.next(), scales.next()) else { return };
            let code = |i: usize| (block.codes[i] + zero) as u8;
            for (i, to) in codes.iter_mut().enumerate() {
                *to = match self.layout {
                    ShaderLayout::Four => code(2 * i) | code(2 * i + 1) << 4,
                    _ => code(i),
                };
            }
            let runs = (0..columns).step_by(self.run).map(|column| column / 16);
            let values = runs.flat_map(|run| {
                let scale = block.scales[run];
                let minimum = if zero > 0 { f32::from(zero) * scale } else { block.minima[run] };
                [Some(scale), with_minimum.then_some(minimum)].into_iter().flatten()
            });
            for (to, value) in scales.chunks_exact_mut(4).zip(values) {
                to.copy_from_slice(&value.to_le_bytes());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::random_row;

    /// What the shaders compute from an encoded row.
    fn decoded(encoding: Encoding, codes: &[u8], scales: &[u8], columns: usize) -> Vec<f32> {
        let scale = |at: usize| f32::from_le_bytes(scales[4 * at..4 * at + 4].try_into().unwrap());
        let float = |c: usize| f32::from_le_bytes(codes[4 * c..4 * c + 4].try_into().unwrap());
        let pair = |c: usize| [codes[2 * c], codes[2 * c + 1]];
        (0..columns)
            .map(|c| match encoding.layout {
                ShaderLayout::F32 => float(c),
                ShaderLayout::F16 => f16::from_le_bytes(pair(c)).to_f32(),
                ShaderLayout::BF16 => half::bf16::from_le_bytes(pair(c)).to_f32(),
                ShaderLayout::Eight => f32::from(codes[c] as i8) * scale(c / encoding.run),
                ShaderLayout::EightMin => {
                    let run = 2 * (c / encoding.run);
                    f32::from(codes[c]) * scale(run) - scale(run + 1)
                }
                ShaderLayout::Four => {
                    let run = 2 * (c / encoding.run);
                    let code = codes[c / 2] >> (4 * (c % 2)) & 15;
                    f32::from(code) * scale(run) - scale(run + 1)
                }
            })
            .collect()
    }

    #[test]
    fn encoded_weights_keep_their_values() {
        let pool = Pool::new(1);
        let columns = 512;
        let rows = 3;
        for format in Format::ALL {
            let files: Vec<Vec<u8>> = (0..rows).map(|i| random_row(format, columns, i)).collect();
            let file = files.concat();
            let matrix = Matrix::pack(format, files.len(), columns, &file, &pool).unwrap();
            let shape = [files.len(), columns];
            let (codes, scales) = encode(format, shape, &file, &pool).unwrap();
            let encoding = Encoding::of(format);
            let code = encoding.code_bytes(columns);
            let scale = encoding.scale_bytes(columns);
            for i in 0..files.len() {
                let mut expected = vec![0.0; columns];
                matrix.row(i, &mut expected);
                if encoding.widens(format) {
                    expected.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32());
                }
                let codes = &codes[i * code..(i + 1) * code];
                let scales = &scales[i * scale..(i + 1) * scale];
                assert_eq!(decoded(encoding, codes, scales, columns), expected, "{format} row {i}");
            }
        }
    }

    #[test]
    fn rows_of_another_length_are_refused() {
        let pool = Pool::new(1);
        for format in [Format::Q4K, Format::F16, Format::Iq2S] {
            let row = random_row(format, 256, 1);
            assert!(encode(format, [1, 512], &row, &pool).is_err(), "{format}");
        }
    }
}
