//! Converts a file's blocks to the codes and scales that the shaders read. Every weight keeps its
//! exact value, except in formats without a layout here, which become 16-bit floats. It must not
//! depend on a device.

use half::f16;

use super::kernels::ShaderLayout;
use crate::kernels::{Format, Matrix, PackError, Pool};

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

    /// Bytes of a row's codes, or of its floats.
    pub(super) fn code_bytes(self, columns: usize) -> usize {
        match self.layout {
            ShaderLayout::F32 => 4 * columns,
            ShaderLayout::F16 | ShaderLayout::BF16 => 2 * columns,
            ShaderLayout::Eight | ShaderLayout::EightMin => columns,
            ShaderLayout::Four => columns / 2,
        }
    }

    /// Bytes of a row's scales and minima.
    pub(super) fn scale_bytes(self, columns: usize) -> usize {
        match self.layout {
            ShaderLayout::F32 | ShaderLayout::F16 | ShaderLayout::BF16 => 0,
            ShaderLayout::Eight => 4 * (columns / self.run),
            ShaderLayout::EightMin | ShaderLayout::Four => 8 * (columns / self.run),
        }
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
    let mut codes = vec![0; rows * code_bytes];
    if encoding.widens(format) {
        let matrix = Matrix::pack(format, rows, columns, file, pool)?;
        pool.chunks(&mut codes, code_bytes, |i, to| {
            let mut values = vec![0.0; columns];
            matrix.row(i, &mut values);
            for (to, x) in to.chunks_exact_mut(2).zip(values) {
                to.copy_from_slice(&f16::from_f32(x).to_le_bytes());
            }
        });
        return Ok((codes, Vec::new()));
    }
    let inputs = columns;
    let outputs = rows;
    let row_bytes = format.row_bytes(columns);
    let row_bytes =
        row_bytes.ok_or(PackError::RowLength { format, inputs, block: format.block() })?;
    let expected = row_bytes * rows;
    if file.len() != expected {
        return Err(PackError::Bytes { format, outputs, inputs, expected, got: file.len() });
    }
    let row = |i: usize| &file[i * row_bytes..(i + 1) * row_bytes];
    if scale_bytes == 0 {
        pool.chunks(&mut codes, code_bytes, |i, to| to.copy_from_slice(row(i)));
        return Ok((codes, Vec::new()));
    }
    let mut scales = vec![0; rows * scale_bytes];
    pool.chunks(&mut codes, code_bytes, |i, to| {
        let block = encoding.code_bytes(format.block());
        each_block(format, row(i), to, block, |found, to| match encoding.layout {
            ShaderLayout::Four => {
                for (to, pair) in to.iter_mut().zip(found.codes.chunks_exact(2)) {
                    *to = pair[0] | pair[1] << 4;
                }
            }
            _ => to.copy_from_slice(&found.codes[..to.len()]),
        });
    });
    pool.chunks(&mut scales, scale_bytes, |i, to| {
        let block = encoding.scale_bytes(format.block());
        each_block(format, row(i), to, block, |found, to| {
            let with_minimum = encoding.layout != ShaderLayout::Eight;
            let values = found.scales.iter().flat_map(|&(scale, minimum)| {
                [Some(scale), with_minimum.then_some(minimum)].into_iter().flatten()
            });
            for (to, value) in to.chunks_exact_mut(4).zip(values) {
                to.copy_from_slice(&value.to_le_bytes());
            }
        });
    });
    Ok((codes, scales))
}

fn each_block(
    format: Format,
    row: &[u8],
    to: &mut [u8],
    size: usize,
    mut put: impl FnMut(&Decoded, &mut [u8]),
) {
    let mut found = Decoded { codes: [0; 256], scales: [(0.0, 0.0); 16] };
    for (block, to) in row.chunks_exact(format.block_bytes()).zip(to.chunks_exact_mut(size)) {
        found.read(format, block);
        put(&found, to);
    }
}

/// A block as codes, with a scale and a minimum for each run: a weight is code · scale − minimum.
struct Decoded {
    /// Signed codes are stored as their bits.
    codes: [u8; 256],
    scales: [(f32, f32); 16],
}

impl Decoded {
    fn read(&mut self, format: Format, block: &[u8]) {
        let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
        match format {
            Format::Q8_0 => {
                self.scales[0].0 = half(0);
                self.codes[..32].copy_from_slice(&block[2..34]);
            }
            Format::Q4_0 => {
                // (code − 8) · scale.
                self.scales[0] = (half(0), 8.0 * half(0));
                self.halves(0, &block[2..18]);
            }
            Format::Q4_1 => {
                self.scales[0] = (half(0), -half(2));
                self.halves(0, &block[4..20]);
            }
            Format::Q5_0 => {
                self.scales[0].0 = half(0);
                self.halves(0, &block[6..22]);
                self.fifth(&block[2..6]);
                for code in self.codes[..32].iter_mut() {
                    *code = code.wrapping_sub(16);
                }
            }
            Format::Q5_1 => {
                self.scales[0] = (half(0), -half(2));
                self.halves(0, &block[8..24]);
                self.fifth(&block[4..8]);
            }
            Format::Q4K => {
                self.six_bit_scales(block);
                for (i, bytes) in block[16..144].chunks_exact(32).enumerate() {
                    self.wide_halves(64 * i, bytes);
                }
            }
            Format::Q5K => {
                self.six_bit_scales(block);
                for (i, bytes) in block[48..176].chunks_exact(32).enumerate() {
                    self.wide_halves(64 * i, bytes);
                }
                for (column, code) in self.codes.iter_mut().enumerate() {
                    *code |= (block[16 + column % 32] >> (column / 32) & 1) << 4;
                }
            }
            Format::Q6K => {
                let d = half(208);
                for (run, scale) in block[192..208].iter().enumerate() {
                    self.scales[run].0 = d * f32::from(*scale as i8);
                }
                for (column, code) in self.codes.iter_mut().enumerate() {
                    // Halves of 128 columns, in quarters of 32.
                    let part = column / 128;
                    let quarter = column / 32 % 4;
                    let i = column % 32;
                    let low = block[64 * part + 32 * (quarter % 2) + i] >> (4 * (quarter / 2)) & 15;
                    let high = block[128 + 32 * part + i] >> (2 * quarter) & 3;
                    *code = (low | high << 4).wrapping_sub(32);
                }
            }
            // It has no codes, so `encode` never gets here.
            _ => {}
        }
    }

    /// 32 columns: low halves of 16 bytes, then the high ones.
    fn halves(&mut self, first: usize, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            self.codes[first + i] = byte & 15;
            self.codes[first + 16 + i] = byte >> 4;
        }
    }

    /// 64 columns: low halves of 32 bytes, then the high ones.
    fn wide_halves(&mut self, first: usize, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            self.codes[first + i] = byte & 15;
            self.codes[first + 32 + i] = byte >> 4;
        }
    }

    /// The fifth bits of 32 columns.
    fn fifth(&mut self, bytes: &[u8]) {
        for (column, code) in self.codes[..32].iter_mut().enumerate() {
            *code |= (bytes[column / 8] >> (column % 8) & 1) << 4;
        }
    }

    /// The eight scales and minima of six bits of a Q4_K or Q5_K block.
    fn six_bit_scales(&mut self, block: &[u8]) {
        let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
        let d = half(0);
        let dmin = half(2);
        let packed = &block[4..16];
        for j in 0..8 {
            let (scale, minimum) = if j < 4 {
                (packed[j] & 63, packed[j + 4] & 63)
            } else {
                (
                    packed[j + 4] & 15 | packed[j - 4] >> 6 << 4,
                    packed[j + 4] >> 4 | packed[j] >> 6 << 4,
                )
            };
            self.scales[j] = (d * f32::from(scale), dmin * f32::from(minimum));
        }
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
