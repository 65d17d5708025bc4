//! The head's weights packed for the CPU's kernels, or in the form in which another backend holds
//! matrices. It must not depend on passes.

use candle_core::{DType, Tensor};
use half::{bf16, f16};

use super::mtp::MtpFusion;
use super::weights::{
    FC, FC_BIAS, HeadWeights, JOINED_TAP_NORM, NORM, QK, bias_name, block_name, qk_norm_name,
    tap_norm,
};
use super::{Eagle3Config, FusionKind, HeadError, TapNorm};
use crate::kernels::{Format, Matrix, Pool};
use crate::model::cpu::layer::{Attention, Dense, GroupedQuery, Layer, Mlp, NormWeights};

/// How feature and token become the blocks' input, with matrices as a backend holds them; the rows
/// of all of them are outputs.
pub(super) enum PackedFusion<M = Matrix> {
    /// Dynamic gated fusion: of the feature, of the token, and of the gate.
    Dgf { w_1: M, w_2: M, w_z: M, norm: Vec<f32> },
    /// A linear layer of the embedding and the feature.
    Eagle { fc: M, bias: Option<Vec<f32>> },
    /// The fusion of EAGLE-3.
    Eagle3(Box<Eagle3Fusion<M>>),
    /// The fusion of MTP.
    Mtp(Box<MtpFusion<M>>),
}

/// What an EAGLE-3 head has in addition to its block, whose q, k and v read `[.., 2H]`: the token's
/// embedding, then the state.
pub(super) struct Eagle3Fusion<M = Matrix> {
    pub(super) config: Eagle3Config,
    /// Applied to the tapped states.
    pub(super) fc: M,
    pub(super) bias: Option<Vec<f32>>,
    /// The weight of the norm of the tapped states.
    pub(super) tap_norm: Option<Vec<f32>>,
    /// The norm of the token's embedding.
    pub(super) embedding_norm: Vec<f32>,
    /// The norm of the state.
    pub(super) state_norm: Vec<f32>,
    /// The norm of the block's output, before the LM head.
    pub(super) norm: NormWeights,
}

impl PackedFusion {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Dgf { w_1, w_2, w_z, .. } => w_1.bytes() + w_2.bytes() + w_z.bytes(),
            Self::Eagle { fc, .. } => fc.bytes(),
            Self::Eagle3(own) => own.fc.bytes(),
            Self::Mtp(own) => own.fc.bytes(),
        }
    }

    /// The norm of the last block's output before the LM head, and whether rows continue from what
    /// it returns.
    pub(super) fn output_norm(&self) -> Option<(&NormWeights, bool)> {
        match self {
            Self::Dgf { .. } | Self::Eagle { .. } => None,
            Self::Eagle3(own) => Some((&own.norm, own.config.norm_output)),
            Self::Mtp(own) => Some((&own.norm, !own.before_norm)),
        }
    }
}

/// How a draft's matrices are stored. It does not affect the text, only how often the draft is
/// right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DraftPrecision {
    /// In 4 bits, with a scale and a minimum for every 32 weights (Q4_1). Reading the weights takes
    /// most of the time of a step with few rows, and the draft is right nearly as often.
    #[default]
    Four,
    /// In 8 bits with a scale for every 32 weights (Q8_0).
    Eight,
    /// In the precision of the checkpoint.
    Stored,
}

impl DraftPrecision {
    /// The format of a matrix with rows of `inputs` weights. It is left as it is `stored` if that
    /// takes no more bits, or if its rows are not a whole number of blocks.
    pub(crate) fn format(self, stored: Format, inputs: usize) -> Format {
        let format = match self {
            Self::Four => Format::Q4_1,
            Self::Eight => Format::Q8_0,
            Self::Stored => return stored,
        };
        let narrows = format.bytes_per_weight() < stored.bytes_per_weight();
        if narrows && inputs.is_multiple_of(format.block()) { format } else { stored }
    }

    /// Its name; `None` for what depends on the checkpoint.
    pub(super) fn bits(self) -> Option<&'static str> {
        match self {
            Self::Four => Some("4 bits"),
            Self::Eight => Some("8 bits"),
            Self::Stored => None,
        }
    }
}

/// A matrix in the bytes of a file.
pub(super) struct Encoded {
    pub(super) format: Format,
    pub(super) outputs: usize,
    pub(super) inputs: usize,
    pub(super) bytes: Vec<u8>,
}

/// Packs tensors in one precision.
pub(super) struct HeadPacker<'a, M = Matrix> {
    pub(super) precision: DraftPrecision,
    /// How a matrix is made.
    pub(super) make: &'a dyn Fn(&Encoded) -> Result<M, HeadError>,
}

/// Packs a matrix for the CPU.
pub(super) fn on_cpu(pool: &Pool, encoded: &Encoded) -> Result<Matrix, HeadError> {
    let &Encoded { format, outputs, inputs, ref bytes } = encoded;
    Matrix::pack(format, outputs, inputs, bytes, pool)
        .map_err(|error| HeadError::Device(error.to_string()))
}

impl<M> HeadPacker<'_, M> {
    pub(super) fn fusion(&self, weights: &HeadWeights) -> Result<PackedFusion<M>, HeadError> {
        let transposed = |name: &str| self.matrix(&weights.tensor(name)?.t()?.contiguous()?);
        let vector = |name: &str| floats(weights.tensor(name)?);
        let bias = weights.get(FC_BIAS).map(floats).transpose()?;
        Ok(match (weights.kind(), &weights.config.eagle3) {
            (FusionKind::Dgf, _) => PackedFusion::Dgf {
                w_1: transposed("W_1")?,
                w_2: transposed("W_2")?,
                w_z: transposed("W_z")?,
                norm: vector("input_layernorm.weight")?,
            },
            (FusionKind::Eagle3, Some(config)) => {
                let each = || (0..config.tap_count()).map(|tap| vector(&tap_norm(tap)));
                PackedFusion::Eagle3(Box::new(Eagle3Fusion {
                    config: config.clone(),
                    fc: self.matrix(weights.tensor(FC)?)?,
                    bias,
                    tap_norm: match config.tap_norm {
                        None => None,
                        Some(TapNorm::Each) => {
                            Some(each().collect::<Result<Vec<_>, _>>()?.concat())
                        }
                        Some(TapNorm::Joined) => Some(vector(JOINED_TAP_NORM)?),
                    },
                    embedding_norm: vector("midlayer.input_layernorm.weight")?,
                    state_norm: vector("midlayer.hidden_norm.weight")?,
                    norm: NormWeights::rms(vector(NORM)?),
                }))
            }
            _ => PackedFusion::Eagle { fc: self.matrix(weights.tensor(FC)?)?, bias },
        })
    }

    /// The block of this index.
    fn layer(&self, weights: &HeadWeights, block: usize) -> Result<Layer<M>, HeadError> {
        let at = block_name(weights.kind(), block);
        let matrix = |part: &str| self.matrix(weights.tensor(&format!("{at}.{part}.weight"))?);
        let vector = |name: String| weights.get(&name).map(floats).transpose();
        let rms = |part: &str| -> Result<Option<NormWeights>, HeadError> {
            Ok(vector(format!("{at}.{part}.weight"))?.map(NormWeights::rms))
        };
        let bias = |x: &str| vector(bias_name(&at, x));
        let qkv_bias = bias("q")?.zip(bias("k")?).zip(bias("v")?);
        let [q_norm, k_norm] = QK.map(|x| vector(qk_norm_name(&at, x)));
        let gate = matrix("mlp.gate_proj")?;
        let up = matrix("mlp.up_proj")?;
        Ok(Layer {
            // EAGLE-3's norm applies only to the embedding.
            attention_norm: if weights.kind().taps() { None } else { rms("input_layernorm")? },
            attention: Some(Attention::Grouped(Box::new(GroupedQuery {
                q: matrix("self_attn.q_proj")?,
                k: Some(matrix("self_attn.k_proj")?),
                v: Some(matrix("self_attn.v_proj")?),
                kv_layer: None,
                head_dim: weights.config.body.head_dim,
                value_norm: None,
                qkv_bias: qkv_bias.map(|((q, k), v)| [q, k, v]),
                qk_norm: q_norm?.zip(k_norm?).map(|(q, k)| [q, k].map(NormWeights::rms)),
            }))),
            recurrent: None,
            attention_inner_norm: None,
            o: Some(matrix("self_attn.o_proj")?),
            o_bias: None,
            attention_out_norm: None,
            mlp_norm: rms("post_attention_layernorm")?,
            mlp: Some(Mlp::Dense(Box::new(Dense::gated(gate, up, matrix("mlp.down_proj")?)))),
            mlp_out_norm: None,
            window: None,
            rope: Some(0),
            sinks: None,
            convolutions: None,
            per_layer: None,
            output_scale: None,
        })
    }

    /// All blocks.
    pub(super) fn layers(&self, weights: &HeadWeights) -> Result<Vec<Layer<M>>, HeadError> {
        (0..weights.config.blocks()).map(|block| self.layer(weights, block)).collect()
    }

    pub(super) fn matrix(&self, tensor: &Tensor) -> Result<M, HeadError> {
        (self.make)(&encoded(tensor, self.precision)?)
    }
}

/// The head's own embedding, in the precision in which it is stored.
pub(super) fn embedding(weights: &HeadWeights, pool: &Pool) -> Result<Option<Matrix>, HeadError> {
    let packed = |own| on_cpu(pool, &encoded(own, DraftPrecision::Stored)?);
    weights.embedding().map(packed).transpose()
}

/// A matrix in the bytes of a file of this precision.
pub(super) fn encoded(tensor: &Tensor, precision: DraftPrecision) -> Result<Encoded, HeadError> {
    let (outputs, inputs) = tensor.dims2()?;
    let stored = match tensor.dtype() {
        DType::F16 => Format::F16,
        DType::BF16 => Format::BF16,
        _ => Format::F32,
    };
    let format = precision.format(stored, inputs);
    Ok(Encoded { format, outputs, inputs, bytes: bytes_in(format, &floats(tensor)?) })
}

/// Weights as a file in this format stores them.
pub(in crate::model) fn bytes_in(format: Format, values: &[f32]) -> Vec<u8> {
    match format {
        Format::Q4_1 => values.chunks(32).flat_map(q4_1).collect(),
        Format::Q8_0 => values.chunks(32).flat_map(q8_0).collect(),
        Format::F16 => values.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
        Format::BF16 => values.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}

fn floats(tensor: &Tensor) -> Result<Vec<f32>, HeadError> {
    Ok(tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
}

/// A block of 32 weights: a scale in f16, then codes in −127..=127.
fn q8_0(weights: &[f32]) -> [u8; 34] {
    let peak = weights.iter().fold(0.0f32, |peak, weight| peak.max(weight.abs()));
    // The codes are computed from the scale as it is stored.
    let scale = f16::from_f32(peak / 127.0);
    let inverse = if scale.to_f32() > 0.0 { 1.0 / scale.to_f32() } else { 0.0 };
    let mut block = [0; 34];
    block[..2].copy_from_slice(&scale.to_le_bytes());
    for (code, weight) in block[2..].iter_mut().zip(weights) {
        *code = (weight * inverse).round().clamp(-127.0, 127.0) as i8 as u8;
    }
    block
}

/// A block of 32 weights: scale and minimum in f16, then codes in 0..=15.
fn q4_1(weights: &[f32]) -> [u8; 20] {
    let (least, most) =
        weights.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), &w| (a.min(w), b.max(w)));
    let scale = f16::from_f32((most - least) / 15.0);
    let least = f16::from_f32(least);
    let inverse = if scale.to_f32() > 0.0 { 1.0 / scale.to_f32() } else { 0.0 };
    let code = |w: f32| ((w - least.to_f32()) * inverse).round().clamp(0.0, 15.0) as u8;
    let mut block = [0; 20];
    block[..2].copy_from_slice(&scale.to_le_bytes());
    block[2..4].copy_from_slice(&least.to_le_bytes());
    for (i, both) in block[4..].iter_mut().enumerate() {
        *both = code(weights[i]) | code(weights[i + 16]) << 4;
    }
    block
}

/// The weights of blocks of Q4_1, in f16: packed again, they have the same codes.
pub(crate) fn q4_1_values(bytes: &[u8]) -> Vec<f16> {
    let half = |low, high| f16::from_le_bytes([low, high]).to_f32();
    let (blocks, _) = bytes.as_chunks::<20>();
    let values = blocks.iter().flat_map(|&[a, b, c, d, ref codes @ ..]| {
        let scale = half(a, b);
        let least = half(c, d);
        let codes = codes.iter().map(|both| both & 15).chain(codes.iter().map(|both| both >> 4));
        codes.map(move |code| f16::from_f32(f32::from(code) * scale + least))
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;
    use proptest::prelude::*;

    proptest! {
        /// After packing and reading back, a weight is off by at most half a step.
        #[test]
        fn few_bits_hold_a_weight_to_half_a_step(
            weights in prop::collection::vec(-3.0f32..3.0, 2 * 64), size in -3i32..3,
            four: bool,
        ) {
            let weights: Vec<f32> = weights.iter().map(|x| x * 10f32.powi(size)).collect();
            let tensor = Tensor::from_slice(&weights, (2, 64), &Device::Cpu).unwrap();
            let pool = Pool::new(1);
            let make = |encoded: &Encoded| on_cpu(&pool, encoded);
            let (precision, format, step) = match four {
                true => (DraftPrecision::Four, Format::Q4_1, 2.0 / 15.0),
                false => (DraftPrecision::Eight, Format::Q8_0, 1.0 / 127.0),
            };
            let packer = HeadPacker { precision, make: &make };
            let matrix = packer.matrix(&tensor).unwrap();
            prop_assert_eq!(matrix.format(), format);
            let mut row = vec![0.0; 64];
            for (i, weights) in weights.chunks(64).enumerate() {
                matrix.row(i, &mut row);
                for (found, weights) in row.chunks(32).zip(weights.chunks(32)) {
                    let peak = weights.iter().fold(0.0f32, |peak, x| peak.max(x.abs()));
                    for (a, b) in found.iter().zip(weights) {
                        // Half a step, plus the error of rounding to f16 at the ends.
                        prop_assert!((a - b).abs() <= peak * (0.5 * step + 2e-3), "{a} {b}");
                    }
                }
            }
        }
    }

    proptest! {
        /// A head that is stored in 4 bits runs with the codes of its file.
        #[test]
        fn weights_read_from_4_bits_have_the_same_codes_again(
            weights in prop::collection::vec(-3.0f32..3.0, 4 * 32), size in -3i32..2,
        ) {
            let weights: Vec<f32> = weights.iter().map(|x| x * 10f32.powi(size)).collect();
            let stored = bytes_in(Format::Q4_1, &weights);
            let read: Vec<f32> = q4_1_values(&stored).into_iter().map(f16::to_f32).collect();
            let again = bytes_in(Format::Q4_1, &read);
            for (a, b) in stored.chunks(20).zip(again.chunks(20)) {
                prop_assert_eq!(&a[4..], &b[4..]);
            }
        }
    }

    #[test]
    fn what_has_no_whole_blocks_is_packed_as_stored() {
        let pool = Pool::new(1);
        let make = |encoded: &Encoded| on_cpu(&pool, encoded);
        let packer = HeadPacker { precision: DraftPrecision::Four, make: &make };
        for (dtype, format) in
            [(DType::F32, Format::F32), (DType::F16, Format::F16), (DType::BF16, Format::BF16)]
        {
            let tensor = Tensor::new(&[[0.5f32, -1.25, 3.0]], &Device::Cpu).unwrap();
            let matrix = packer.matrix(&tensor.to_dtype(dtype).unwrap()).unwrap();
            let mut row = [0.0; 3];
            matrix.row(0, &mut row);
            assert_eq!((matrix.format(), row), (format, [0.5, -1.25, 3.0]));
        }
    }
}
