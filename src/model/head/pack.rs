//! The head's weights packed for the CPU's kernels, or in the form in which another backend holds
//! matrices. It must not depend on passes.

use candle_core::{DType, Tensor};
use half::{bf16, f16};

use super::mtp::{MtpFusion, block_of};
use super::shared_tables::rows_of;
use super::weights::{
    EMBEDDING, FC, FC_BIAS, HeadWeights, JOINED_TAP_NORM, LM_HEAD, NORM, block_name, tap_norm,
};
use super::{DraftVocabulary, Eagle3Config, HeadError, HeadKind, HeadRequest, MtpConfig, TapNorm};
use crate::kernels::{Format, Matrix, Pool};
use crate::model::Narrowed;
use crate::model::cpu::layer::{Layer, NormWeights};
use crate::model::cpu::packer::Packer;

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
}

/// The name of a head's format.
pub(super) fn called(format: Format) -> &'static str {
    match format {
        Format::Q4_1 => "4 bits",
        Format::Q8_0 => "8 bits",
        other => other.name(),
    }
}

/// The fusion and the blocks of a head, whose matrices `packer` makes of [`HeadRequest::tensors`];
/// of several heads in a target's file, those of the one with this number.
pub(super) fn parts<M>(
    packer: &mut Packer<'_, M>,
    request: &HeadRequest<'_>,
    block: usize,
) -> Result<(PackedFusion<M>, Vec<Layer<M>>), HeadError> {
    let weights = request.weights;
    if let HeadKind::Mtp(own) = &weights.config.kind {
        let (fusion, layer) = block_of(packer, request, own, block)?;
        return Ok((fusion, vec![layer]));
    }
    let fusion = fusion(packer, weights)?;
    let layers = (0..weights.config.blocks()).map(|block| layer(packer, weights, block));
    Ok((fusion, layers.collect::<Result<_, _>>()?))
}

fn fusion<M>(
    packer: &mut Packer<'_, M>,
    weights: &HeadWeights,
) -> Result<PackedFusion<M>, HeadError> {
    let h = weights.config.body.hidden;
    let mut matrix = |name: &str, inputs: usize| packer.matrix(name, [h, inputs], None);
    let vector = |name: &str| floats(weights.tensor(name)?);
    let bias = weights.get(FC_BIAS).map(floats).transpose()?;
    Ok(match &weights.config.kind {
        HeadKind::Dgf => PackedFusion::Dgf {
            w_1: matrix("W_1", h)?,
            w_2: matrix("W_2", h)?,
            w_z: matrix("W_z", 2 * h)?,
            norm: vector("input_layernorm.weight")?,
        },
        HeadKind::Eagle3(config) => {
            let each = || (0..config.tap_count()).map(|tap| vector(&tap_norm(tap)));
            PackedFusion::Eagle3(Box::new(Eagle3Fusion {
                config: config.clone(),
                fc: matrix(FC, config.feature_width())?,
                bias,
                tap_norm: match config.tap_norm {
                    None => None,
                    Some(TapNorm::Each) => Some(each().collect::<Result<Vec<_>, _>>()?.concat()),
                    Some(TapNorm::Joined) => Some(vector(JOINED_TAP_NORM)?),
                },
                embedding_norm: vector("midlayer.input_layernorm.weight")?,
                state_norm: vector("midlayer.hidden_norm.weight")?,
                norm: NormWeights::rms(vector(NORM)?),
            }))
        }
        _ => PackedFusion::Eagle { fc: matrix(FC, 2 * h)?, bias },
    })
}

/// The block of this index.
fn layer<M>(
    packer: &mut Packer<'_, M>,
    weights: &HeadWeights,
    block: usize,
) -> Result<Layer<M>, HeadError> {
    let taps = weights.config.kind.eagle3().is_some();
    let at = block_name(&weights.config.kind, block);
    let name = |part: &str| format!("{at}.{part}");
    let mut body = weights.config.body.clone();
    let h = body.hidden;
    // The first block has no norm of its input, and EAGLE-3's applies only to the embedding.
    body.block.input_norms = false;
    let width = if taps { 2 * h } else { h };
    let layer = packer.layer_of(&body, block, width, &name)?;
    let has_norm = !taps && weights.get(&name("input_layernorm.weight")).is_some();
    let norm = |part: &str| packer.norm(&body.block, &name(part), h);
    Ok(Layer {
        attention_norm: has_norm.then(|| norm("input_layernorm")).transpose()?,
        mlp_norm: Some(norm("post_attention_layernorm")?),
        ..layer
    })
}

/// Its own embedding and LM head in main memory, or the scored rows of the target's. The embedding
/// of a head in its own file is as wide as it is stored.
pub(super) fn tables(
    request: &HeadRequest<'_>,
    block: usize,
) -> Result<[Option<Matrix>; 2], HeadError> {
    let &HeadRequest { weights, shared, ref pool, precision, .. } = request;
    let source = request.tensors()?;
    let in_target = matches!(weights.config.kind, HeadKind::Mtp(_));
    let prefix = if in_target { MtpConfig::prefix(block) } else { String::new() };
    let body = &weights.config.body;
    let table = |part: &str, rows, precision| -> Result<Option<Matrix>, HeadError> {
        let name = format!("{prefix}{part}");
        let has = weights.get(&name).is_some() || in_target && source.tensor(&name).is_some();
        if !has {
            return Ok(None);
        }
        let narrowed = Narrowed { source, precision, pool };
        let mut packer = Packer::new(&narrowed, pool);
        Ok(Some(packer.matrix(&name, [rows, body.hidden], None)?))
    };
    let stored = if in_target { precision } else { DraftPrecision::Stored };
    let rows = if in_target { body.vocab } else { weights.config.scored() };
    let embedding = table(EMBEDDING, body.vocab, stored)?;
    let mut lm_head = table(LM_HEAD, rows, precision)?;
    if let Some(scored) = &weights.draft_vocab
        && (in_target || lm_head.is_none())
    {
        let all = lm_head.as_ref().unwrap_or(&shared.lm_head);
        lm_head = Some(scored_rows(all, scored, pool, precision)?);
    }
    Ok([embedding, lm_head])
}

/// The rows of an LM head that score these tokens.
pub(super) fn scored_rows(
    lm_head: &Matrix,
    scored: &DraftVocabulary,
    pool: &Pool,
    precision: DraftPrecision,
) -> Result<Matrix, HeadError> {
    let rows = rows_of(lm_head, scored.tokens());
    let format = precision.format(Format::F32, lm_head.inputs());
    Matrix::pack(format, scored.len(), lm_head.inputs(), &bytes_in(format, &rows), pool)
        .map_err(|error| HeadError::Device(error.to_string()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::expand_row;
    use proptest::prelude::*;

    /// What is read of weights stored in this format.
    fn read(format: Format, bytes: &[u8], count: usize) -> Vec<f32> {
        let mut values = vec![0.0; count];
        expand_row(format, bytes, &mut values);
        values
    }

    proptest! {
        /// After packing and reading back, a weight is off by at most half a step.
        #[test]
        fn few_bits_hold_a_weight_to_half_a_step(
            weights in prop::collection::vec(-3.0f32..3.0, 2 * 64), size in -3i32..3,
            four: bool,
        ) {
            let weights: Vec<f32> = weights.iter().map(|x| x * 10f32.powi(size)).collect();
            let (format, step) = match four {
                true => (Format::Q4_1, 2.0 / 15.0),
                false => (Format::Q8_0, 1.0 / 127.0),
            };
            let found = read(format, &bytes_in(format, &weights), weights.len());
            for (found, weights) in found.chunks(32).zip(weights.chunks(32)) {
                let peak = weights.iter().fold(0.0f32, |peak, x| peak.max(x.abs()));
                for (a, b) in found.iter().zip(weights) {
                    // Half a step, plus the error of rounding to f16 at the ends.
                    prop_assert!((a - b).abs() <= peak * (0.5 * step + 2e-3), "{a} {b}");
                }
            }
        }

        /// An LM head that is stored in 4 bits has the codes of its file on a GPU.
        #[test]
        fn weights_read_from_4_bits_have_the_same_codes_again(
            weights in prop::collection::vec(-3.0f32..3.0, 4 * 32), size in -3i32..2,
        ) {
            let weights: Vec<f32> = weights.iter().map(|x| x * 10f32.powi(size)).collect();
            let stored = bytes_in(Format::Q4_1, &weights);
            let again = bytes_in(Format::Q4_1, &read(Format::Q4_1, &stored, weights.len()));
            for (a, b) in stored.chunks(20).zip(again.chunks(20)) {
                prop_assert_eq!(&a[4..], &b[4..]);
            }
        }
    }
}
