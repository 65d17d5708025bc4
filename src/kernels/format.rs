//! How weights are written down: the element formats of GGUF and safetensors that the kernels
//! take, their blocks and sizes. Knows no tile.

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
    /// 256 weights of 4 bits; 8 scales and minima of 6 bits.
    Q4K,
    /// 256 weights of 5 bits; 8 scales and minima of 6 bits.
    Q5K,
    /// 256 weights of 6 bits; 16 scales of 8 bits.
    Q6K,
}

/// What a product reads as activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// The floats themselves.
    Float,
    /// 8-bit integers with a scale for every 32.
    Fine,
    /// 8-bit integers with a scale for every 256.
    Coarse,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 8] = [
        Format::F32,
        Format::F16,
        Format::BF16,
        Format::Q8_0,
        Format::Q4_0,
        Format::Q4K,
        Format::Q5K,
        Format::Q6K,
    ];

    /// Weights per block; a row's length is a multiple of it.
    pub fn block(self) -> usize {
        match self {
            Format::F32 | Format::F16 | Format::BF16 => 1,
            Format::Q8_0 | Format::Q4_0 => 32,
            Format::Q4K | Format::Q5K | Format::Q6K => 256,
        }
    }

    /// Bytes per block in a file.
    pub fn block_bytes(self) -> usize {
        match self {
            Format::F32 => 4,
            Format::F16 | Format::BF16 => 2,
            Format::Q8_0 => 34,
            Format::Q4_0 => 18,
            Format::Q4K => 144,
            Format::Q5K => 176,
            Format::Q6K => 210,
        }
    }

    /// Bytes of a row of `inputs` weights in a file, or `None` if `inputs` is not a positive
    /// multiple of [`Format::block`].
    pub fn row_bytes(self, inputs: usize) -> Option<usize> {
        (inputs > 0 && inputs.is_multiple_of(self.block()))
            .then(|| inputs / self.block() * self.block_bytes())
    }

    /// The form of activations its product reads: integers with a scale for every 32 columns where
    /// the weights have one, for every 256 with the K formats, whose inner scales are integers
    /// too. With activations in which one channel of 131 is twelve times the others, products are
    /// off the exact ones by 1.0 % (every 32) and 2.5 % (every 256) of their root mean square, as
    /// candle's are.
    pub(super) fn operand(self) -> Operand {
        match self {
            Format::F32 | Format::F16 | Format::BF16 => Operand::Float,
            Format::Q8_0 | Format::Q4_0 => Operand::Fine,
            Format::Q4K | Format::Q5K | Format::Q6K => Operand::Coarse,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Format::F32 => "F32",
            Format::F16 => "F16",
            Format::BF16 => "BF16",
            Format::Q8_0 => "Q8_0",
            Format::Q4_0 => "Q4_0",
            Format::Q4K => "Q4_K",
            Format::Q5K => "Q5_K",
            Format::Q6K => "Q6_K",
        })
    }
}
