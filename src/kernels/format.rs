//! The weight formats: one table that the kernels, the readers of files, `bench pass` and the
//! documentation share. It does not depend on tiles or files.

use std::fmt;

/// A weight format. The quantised ones are GGUF's blocks, byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// 32-bit floats.
    F32,
    /// 16-bit IEEE floats.
    F16,
    /// 16-bit bfloat16.
    BF16,
    /// 32 weights: a scale and 8 bits each.
    Q8_0,
    /// 32 weights: a scale and 4 bits each.
    Q4_0,
    /// 32 weights: a scale, a minimum and 4 bits each.
    Q4_1,
    /// 32 weights: a scale and 5 bits each.
    Q5_0,
    /// 32 weights: a scale, a minimum and 5 bits each.
    Q5_1,
    /// 256 weights of 2 bits; 16 scales and minima of 4 bits.
    Q2K,
    /// 256 weights of 3 bits; 16 scales of 6 bits.
    Q3K,
    /// 256 weights of 4 bits; 8 scales and minima of 6 bits.
    Q4K,
    /// 256 weights of 5 bits; 8 scales and minima of 6 bits.
    Q5K,
    /// 256 weights of 6 bits; 16 scales of 8 bits.
    Q6K,
    /// 32 weights: a scale and indices of 4 bits into a table of levels.
    Iq4Nl,
    /// 256 weights: indices of 4 bits into the same table; 8 scales of 6 bits.
    Iq4Xs,
    /// 32 weights: an exponent and 4-bit floats (OCP microscaling).
    Mxfp4,
    /// 256 weights: groups of 4 from a codebook of 256, scales of 4 bits.
    Iq3Xxs,
    /// 256 weights: groups of 4 from a codebook of 512, scales of 4 bits.
    Iq3S,
    /// 256 weights: groups of 8 from a codebook of 256, scales of 4 bits.
    Iq2Xxs,
    /// 256 weights: groups of 8 from a codebook of 512, scales of 4 bits.
    Iq2Xs,
    /// 256 weights: groups of 8 from a codebook of 1024, scales of 4 bits.
    Iq2S,
    /// 256 weights: groups of 8 from a codebook of 2048, scales of 3 bits.
    Iq1S,
    /// 256 weights: groups of 8 from the same codebook, more scales.
    Iq1M,
    /// 256 ternary weights, five in a byte.
    Tq1_0,
    /// 256 ternary weights of 2 bits.
    Tq2_0,
    /// 64 weights: four 8-bit float scales and 4-bit floats.
    Nvfp4,
    /// 128 weights: a scale and a sign each.
    Q1_0,
    /// 64 weights: a scale and 2 bits each.
    Q2_0,
}

/// How a matrix of a format is held and multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Floats, multiplied without conversion.
    Floats,
    /// Codes and scales in the order in which the format's own kernel reads them; at most 5 %
    /// larger than in the file.
    Packed,
    /// Codes and scales for one kernel, if the matrix is repacked when it is loaded; that takes 5
    /// bits per weight. Otherwise the file's own blocks, which a product expands each time it reads
    /// them: with one row of activations it then takes 7 to 45 times as long as with Q4_K for the
    /// same number of weights.
    Expanded,
}

/// The form in which a product reads activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// The floats themselves.
    Float,
    /// 8-bit integers with a scale for every 32.
    Fine,
    /// 8-bit integers with a scale for every 256.
    Coarse,
}

/// A row of the table.
struct Info {
    format: Format,
    name: &'static str,
    /// The type's number in GGUF files.
    ggml: u32,
    /// Weights per block.
    block: usize,
    /// Bytes per block.
    bytes: usize,
    storage: Storage,
}

const fn info(
    format: Format,
    name: &'static str,
    ggml: u32,
    block: usize,
    bytes: usize,
    storage: Storage,
) -> Info {
    Info { format, name, ggml, block, bytes, storage }
}

/// Every format, in the order of [`Format`].
const TABLE: [Info; 28] = {
    use Format::*;
    use Storage::*;
    [
        info(F32, "F32", 0, 1, 4, Floats),
        info(F16, "F16", 1, 1, 2, Floats),
        info(BF16, "BF16", 30, 1, 2, Floats),
        info(Q8_0, "Q8_0", 8, 32, 34, Packed),
        info(Q4_0, "Q4_0", 2, 32, 18, Packed),
        info(Q4_1, "Q4_1", 3, 32, 20, Packed),
        info(Q5_0, "Q5_0", 6, 32, 22, Packed),
        info(Q5_1, "Q5_1", 7, 32, 24, Packed),
        info(Q2K, "Q2_K", 10, 256, 84, Packed),
        info(Q3K, "Q3_K", 11, 256, 110, Packed),
        info(Q4K, "Q4_K", 12, 256, 144, Packed),
        info(Q5K, "Q5_K", 13, 256, 176, Packed),
        info(Q6K, "Q6_K", 14, 256, 210, Packed),
        info(Iq4Nl, "IQ4_NL", 20, 32, 18, Packed),
        info(Iq4Xs, "IQ4_XS", 23, 256, 136, Packed),
        info(Mxfp4, "MXFP4", 39, 32, 17, Packed),
        info(Iq3Xxs, "IQ3_XXS", 18, 256, 98, Expanded),
        info(Iq3S, "IQ3_S", 21, 256, 110, Expanded),
        info(Iq2Xxs, "IQ2_XXS", 16, 256, 66, Expanded),
        info(Iq2Xs, "IQ2_XS", 17, 256, 74, Expanded),
        info(Iq2S, "IQ2_S", 22, 256, 82, Expanded),
        info(Iq1S, "IQ1_S", 19, 256, 50, Expanded),
        info(Iq1M, "IQ1_M", 29, 256, 56, Expanded),
        info(Tq1_0, "TQ1_0", 34, 256, 54, Expanded),
        info(Tq2_0, "TQ2_0", 35, 256, 66, Expanded),
        info(Nvfp4, "NVFP4", 40, 64, 36, Expanded),
        info(Q1_0, "Q1_0", 41, 128, 18, Expanded),
        info(Q2_0, "Q2_0", 42, 64, 18, Expanded),
    ]
};

impl Format {
    /// Every format.
    pub const ALL: [Format; TABLE.len()] = {
        let mut all = [Format::F32; TABLE.len()];
        let mut i = 0;
        while i < all.len() {
            all[i] = TABLE[i].format;
            i += 1;
        }
        all
    };

    /// The name that GGUF's tools use, e.g. `Q4_K`.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].name
    }

    /// The format that has this type number in GGUF files.
    pub fn from_ggml(number: u32) -> Option<Self> {
        TABLE.iter().find(|info| info.ggml == number).map(|info| info.format)
    }

    /// Its type number in GGUF files.
    pub fn ggml(self) -> u32 {
        TABLE[self as usize].ggml
    }

    /// The format with this name, in upper or lower case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name().eq_ignore_ascii_case(name))
    }

    /// All names on one line, for messages.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Weights per block; a row's length is a multiple of it.
    pub const fn block(self) -> usize {
        TABLE[self as usize].block
    }

    /// Bytes per block in a file.
    pub const fn block_bytes(self) -> usize {
        TABLE[self as usize].bytes
    }

    /// Bytes of a weight in a file, with its part of what its block has in common.
    pub fn bytes_per_weight(self) -> f64 {
        self.block_bytes() as f64 / self.block() as f64
    }

    /// How a matrix of this format is held and multiplied.
    pub fn storage(self) -> Storage {
        TABLE[self as usize].storage
    }

    /// Bytes of a row of `inputs` weights in a file, or `None` if `inputs` is not a positive
    /// multiple of [`Format::block`].
    pub fn row_bytes(self, inputs: usize) -> Option<usize> {
        (inputs > 0 && inputs.is_multiple_of(self.block()))
            .then(|| (inputs / self.block()).checked_mul(self.block_bytes()))
            .flatten()
    }

    /// The form in which its product reads activations. They are integers, with a scale for every
    /// 32 columns where the weights have one for every 32, and with a scale for every 256 where the
    /// weights' inner scales are integers or the weights are expanded. If one channel in 131 is
    /// twelve times as large as the others, products differ from the exact ones by 1.0 % (every 32)
    /// or 2.5 % (every 256) of their root mean square, as candle's do.
    pub(super) fn operand(self) -> Operand {
        match (self.storage(), self.block()) {
            (Storage::Floats, _) => Operand::Float,
            (Storage::Packed, 32) => Operand::Fine,
            _ => Operand::Coarse,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_table_has_each_format_in_its_place() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.format as usize, i, "{}", row.name);
            assert_eq!(Format::from_ggml(row.ggml), Some(row.format));
            assert_eq!(Format::from_name(&row.name.to_lowercase()), Some(row.format));
            assert!(row.block == 1 || row.block >= 32 && 256 % row.block == 0, "{}", row.name);
        }
        let numbers: HashSet<u32> = TABLE.iter().map(|row| row.ggml).collect();
        assert_eq!(numbers.len(), TABLE.len());
        assert_eq!(Format::from_ggml(4), None);
    }

    #[test]
    fn a_row_that_is_no_whole_number_of_blocks_has_no_size() {
        assert_eq!(Format::Q4K.row_bytes(512), Some(288));
        for inputs in [0, 100, usize::MAX] {
            assert_eq!(Format::Q4K.row_bytes(inputs), None);
        }
        assert_eq!(Format::F32.row_bytes(usize::MAX), None);
    }
}
