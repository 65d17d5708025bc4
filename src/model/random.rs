//! Random weights of any shape and format, generated tensor by tensor while they are packed. They
//! serve measurements without a model and tests that must hold for every model. It must not depend
//! on files.

use std::borrow::Cow;
use std::collections::HashMap;

use super::block_options::Experts;
use super::rope::RopeScaling;
use super::weights::{RawTensor, WeightSource, tensors};
use super::{BlockOptions, Config, LocalHeads, RecurrentLayers, RopeLayout, SlidingWindow};
use crate::kernels::{Activation, Format, RecurrentShape, StateKind, random_row};

/// A source of random weights. The same seed gives the same bytes.
#[derive(Clone, Debug)]
pub struct RandomWeights {
    /// Each tensor's number and shape.
    shapes: HashMap<String, (u64, Vec<usize>)>,
    format: Format,
    seed: u64,
}

impl RandomWeights {
    /// Weights for `config`: matrices in `format`, norms and biases in F32. The values are scaled
    /// so that activations keep their size from layer to layer, as in a trained model.
    pub fn new(config: &Config, format: Format, seed: u64) -> Self {
        let numbered = tensors(config).into_iter().zip(1..);
        let shapes = numbered.map(|((name, shape), number)| (name, (number, shape))).collect();
        Self { shapes, format, seed }
    }
}

impl WeightSource for RandomWeights {
    fn describe(&self) -> String {
        format!("random {} weights", self.format)
    }

    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        let (number, shape) = self.shapes.get(name)?;
        // Far enough apart for the rows of any matrix.
        let seed = self.seed.wrapping_add(number << 32);
        let (format, bytes) = match *shape.as_slice() {
            // Norms and biases are rows with a standard deviation of 1/√length; norms have a mean
            // of 1.
            [length] => {
                let centre = if name.ends_with(".bias") { 0.0 } else { 1.0 };
                // The factor of a whole layer leaves its size as it is.
                let spread = if name.ends_with("layer_scalar") { 0.0 } else { 1.0 };
                let row = random_row(Format::F32, length, seed);
                let values = row.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b));
                (Format::F32, values.flat_map(|v| (centre + spread * v).to_le_bytes()).collect())
            }
            [rows, cols] => {
                // The rows of a convolution are shorter than a block.
                let fits = self.format.row_bytes(cols).is_some();
                let format = if fits { self.format } else { Format::F32 };
                let mut bytes = Vec::with_capacity(rows * format.row_bytes(cols)?);
                for i in 0..rows as u64 {
                    bytes.extend(random_row(format, cols, seed.wrapping_add(i)));
                }
                (format, bytes)
            }
            _ => return None,
        };
        Some(RawTensor { format, shape: shape.clone(), bytes: Cow::Owned(bytes) })
    }

    fn repacks(&self) -> bool {
        true
    }
}

/// Shapes of well-known models, for measuring without their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownShape {
    /// Llama 68M, a draft model.
    M68,
    /// Llama 160M, a draft model.
    M160,
    /// TinyLlama 1.1B.
    B1,
    /// Qwen3.5 4B, its text part: three of four layers are gated DeltaNet.
    Qwen35,
    /// Gemma 4 E4B, its text part: five of six layers have a window, and the last 18 layers no keys
    /// and values.
    Gemma4,
    /// Llama 2 7B.
    B7,
    /// Llama 2 13B.
    B13,
    /// Qwen3 30B-A3B: 128 experts, of which a row uses 8.
    Qwen3Moe,
    /// Mixtral 8x7B: 8 experts, of which a row uses 2.
    Mixtral,
}

impl KnownShape {
    /// All shapes, smallest first, with their names on the command line and their H, I, N, heads
    /// and key heads.
    const ROWS: [(Self, &'static str, [usize; 5]); 9] = [
        (Self::M68, "68m", [768, 3072, 2, 12, 12]),
        (Self::M160, "160m", [768, 3072, 12, 12, 12]),
        (Self::B1, "1b", [2048, 5632, 22, 32, 4]),
        (Self::Qwen35, "qwen3.5-4b", [2560, 9216, 32, 16, 4]),
        (Self::Gemma4, "gemma4-e4b", [2560, 10_240, 42, 8, 2]),
        (Self::B7, "7b", [4096, 11_008, 32, 32, 32]),
        (Self::B13, "13b", [5120, 13_824, 40, 40, 40]),
        (Self::Qwen3Moe, "qwen3-moe", [2048, 768, 48, 32, 4]),
        (Self::Mixtral, "mixtral", [4096, 14_336, 32, 32, 8]),
    ];

    /// All shapes, smallest first.
    pub fn all() -> [Self; 9] {
        Self::ROWS.map(|row| row.0)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        Self::ROWS[self as usize].1
    }

    /// Its experts, if it is a mixture: how many, and how many a row uses.
    fn experts(self) -> Option<Experts> {
        let (count, used) = match self {
            Self::Qwen3Moe => (128, 8),
            Self::Mixtral => (8, 2),
            _ => return None,
        };
        Some(Experts {
            count,
            used,
            intermediate: Self::ROWS[self as usize].2[1],
            normalised: true,
            scale: 1.0,
            ..Experts::default()
        })
    }

    /// The block options of Qwen3.5 4B, from its published `config.json`.
    fn gated_delta() -> BlockOptions {
        let [key_heads, heads, width] = [16, 32, 128];
        let shape = RecurrentShape {
            kind: StateKind::Delta,
            taps: 4,
            channels: (2 * key_heads + heads) * width,
            heads,
            key_heads,
            key: width,
            value: width,
            tiled: false,
        };
        let layers = (1..=32).map(|layer| layer % 4 != 0).collect();
        let recurrent = Some(RecurrentLayers {
            layers,
            shape,
            log_decay: true,
            fused_gates: false,
            norm: true,
            beside_attention: false,
        });
        BlockOptions { recurrent, output_gate: true, rotary_dim: Some(64), ..Default::default() }
    }

    /// The block options of Gemma 4 E4B, as google/gemma.cpp (pull request 919) and NVIDIA's
    /// Megatron Bridge (recipe `gemma4_e4b_pretrain`) have them. Its layers without a window rotate
    /// only a quarter of a head, which takes the same time.
    fn gemma4() -> BlockOptions {
        BlockOptions {
            output_norms: true,
            activation: Activation::GeluTanh,
            embedding_scale: 2560f32.sqrt(),
            attention_scale: Some(1.0),
            final_softcap: Some(30.0),
            window: Some(SlidingWindow {
                size: 512,
                layers: (1..=42).map(|layer| layer % 6 != 0).collect(),
            }),
            local_rope_theta: Some(10_000.0),
            local_heads: Some(LocalHeads { kv_heads: 2, head_dim: 256, rotary_dim: 256 }),
            own_kv_layers: Some(24),
            value_norm: true,
            per_layer_dim: 256,
            output_scale: true,
            ..Default::default()
        }
    }

    /// Its configuration.
    pub fn config(self) -> Config {
        let [hidden, intermediate, layers, heads, kv_heads] = Self::ROWS[self as usize].2;
        let (vocab, head_dim, block) = match self {
            Self::Qwen35 => (248_320, 256, Self::gated_delta()),
            Self::Gemma4 => (262_144, 512, Self::gemma4()),
            Self::Qwen3Moe => (32_000, 128, BlockOptions::default()),
            _ => (32_000, hidden / heads, BlockOptions::default()),
        };
        Config {
            vocab,
            hidden,
            intermediate,
            layers,
            heads,
            kv_heads,
            head_dim,
            rms_eps: 1e-5,
            rope_theta: 10_000.0,
            rope_scaling: RopeScaling::None,
            rope_layout: RopeLayout::Halves,
            qkv_bias: false,
            o_bias: false,
            qk_norm: matches!(self, Self::Qwen35 | Self::Gemma4),
            tied_head: matches!(self, Self::Qwen35 | Self::Gemma4),
            max_positions: 4096,
            block: BlockOptions { experts: self.experts(), ..block },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::kernels::{KvFormat, Pool};
    use crate::model::{CpuTarget, Target};

    /// A narrow model of each shape has all tensors that its layers need, and computes numbers.
    #[test]
    fn every_shape_runs() {
        for shape in KnownShape::all() {
            let mut config = shape.config();
            (config.hidden, config.intermediate, config.vocab) = (64, 32, 64);
            config.block.per_layer_dim = config.block.per_layer_dim.min(32);
            if let Some(experts) = &mut config.block.experts {
                experts.intermediate = 32;
            }
            let pool = Arc::new(Pool::new(1));
            let loaded = CpuTarget::random(&config, Format::Q8_0, 1, pool, 16, KvFormat::F16);
            let mut target = loaded.unwrap_or_else(|error| panic!("{shape:?}: {error}"));
            let logits = target.prefill(&[1, 2, 3]).unwrap().logits;
            assert!(logits.iter().all(|logit| logit.is_finite()), "{shape:?}");
        }
    }
}
