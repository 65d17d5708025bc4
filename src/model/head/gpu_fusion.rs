//! How feature and token become a head's input on a GPU (method.md, Draft heads and EAGLE-3): the
//! steps before and after its blocks. It must not depend on trees.

use super::backend::FeatureOrigin;
use super::eagle3::Eagle3Config;
use super::pack::PackedFusion;
use super::{HeadConfig, HeadError};
use crate::model::cpu::layer::NormWeights;
use crate::model::gpu::{
    GpuBlocks, GpuBuffer, GpuMatrix, GpuNorm, GpuProduct, Shader, ShaderStep, StepMaker,
};

/// The rows are those in a list.
const BY_LIST: u32 = 1;

/// The steps around a head's blocks, with their weights and buffers.
pub(super) struct GpuFusion {
    pub(super) buffers: FusionBuffers,
    /// Whether attention reads the joined inputs instead of the stream.
    joins_attention: bool,
    of_target: Vec<ShaderStep>,
    of_head: Vec<ShaderStep>,
    /// The steps after either of these.
    common: Vec<ShaderStep>,
    /// The steps after the blocks.
    pub(super) after: Vec<ShaderStep>,
    /// The norm of the LM head's input, if it has one.
    pub(super) scored_norm: Option<NormWeights>,
    matrices: Vec<GpuMatrix>,
    vectors: Vec<GpuBuffer>,
}

/// What a pass reads, `[rows, …]`.
pub(super) struct FusionBuffers {
    /// The target's features, `[rows, feature width]`, or the head's own outputs.
    pub(super) features: GpuBuffer,
    /// The tokens' embeddings, `[rows, H]`.
    pub(super) embeddings: GpuBuffer,
    /// Which of the head's own outputs the rows continue from.
    pub(super) chosen: GpuBuffer,
    /// Two concatenated inputs, `[rows, 2H]`.
    joined: GpuBuffer,
}

impl GpuFusion {
    /// The steps for a head whose own outputs are in `sources`, for passes of `rows` rows.
    pub(super) fn new(
        config: &HeadConfig,
        weights: PackedFusion<GpuMatrix>,
        blocks: &GpuBlocks,
        sources: &GpuBuffer,
        rows: usize,
    ) -> Result<Self, HeadError> {
        let gpu = &*blocks.gpu;
        let hidden = config.body.hidden;
        let of = |width: usize| gpu.buffer(4 * (rows * width) as u64);
        let buffers = FusionBuffers {
            features: of(config.feature_width())?,
            embeddings: of(hidden)?,
            chosen: gpu.buffer(4 * rows as u64)?,
            joined: of(2 * hidden)?,
        };
        let FusionBuffers { features, embeddings, chosen, joined } = &buffers;
        let stream = &blocks.buffers.stream;
        let branch = &blocks.buffers.branch;
        let mut maker = StepMaker::new(gpu, config.body.rms_eps);
        // Copies all rows, or those in a list, into columns of rows `stride` wide.
        let copy = |maker: &mut StepMaker<'_>, from, flags, to, at, stride| {
            let words = [hidden, 0, stride, at];
            maker.elements(Shader::Rows, &[from, chosen, to], flags, hidden, &words);
        };
        let stride = 2 * hidden;
        let joins_attention = matches!(weights, PackedFusion::Eagle3(_));
        let chosen_into = if joins_attention { stream } else { features };
        copy(&mut maker, sources, BY_LIST, chosen_into, 0, hidden);
        let of_head = maker.take();
        let mut of_target = Vec::new();
        let mut output_norm = None;
        let matrices = match weights {
            PackedFusion::Dgf { w_1, w_2, w_z, norm } => {
                maker.product(GpuProduct { stride, ..GpuProduct::new(&w_1, features, joined) })?;
                maker.norm(GpuNorm::new(&norm, embeddings, branch))?;
                let second = GpuProduct::new(&w_2, branch, joined);
                maker.product(GpuProduct { at: hidden, stride, silu: true, ..second })?;
                // The gate's logits overwrite what has already been read.
                maker.product(GpuProduct::new(&w_z, joined, embeddings))?;
                maker.elements(Shader::Blend, &[embeddings, joined, stream], 0, hidden, &[]);
                vec![w_1, w_2, w_z]
            }
            PackedFusion::Eagle { fc, bias } => {
                copy(&mut maker, embeddings, 0, joined, 0, stride);
                copy(&mut maker, features, 0, joined, hidden, stride);
                let bias = bias.as_deref();
                maker.product(GpuProduct { bias, ..GpuProduct::new(&fc, joined, stream) })?;
                vec![fc]
            }
            PackedFusion::Eagle3(own) => {
                let bias = own.bias.as_deref();
                let Eagle3Config { norm_before_residual, norm_output, .. } = own.config;
                match &own.tap_norm {
                    None => {
                        let product = GpuProduct::new(&own.fc, features, stream);
                        maker.product(GpuProduct { bias, ..product })?;
                    }
                    Some(weight) => {
                        let normed = of(config.feature_width())?;
                        let segments = weight.len() / own.config.normed_together().max(1);
                        let norm = GpuNorm::new(weight, features, &normed);
                        maker.norm(GpuNorm { segments, ..norm })?;
                        let product = GpuProduct::new(&own.fc, &normed, stream);
                        maker.product(GpuProduct { bias, ..product })?;
                        maker.vectors.push(normed);
                    }
                }
                of_target = maker.take();
                let norm = GpuNorm::new(&own.embedding_norm, embeddings, joined);
                maker.norm(GpuNorm { stride, ..norm })?;
                let norm = GpuNorm::new(&own.state_norm, stream, joined);
                maker.norm(GpuNorm { at: hidden, stride, ..norm })?;
                if norm_before_residual {
                    maker.norm(GpuNorm::new(&own.state_norm, stream, branch))?;
                    copy(&mut maker, branch, 0, stream, 0, hidden);
                }
                output_norm = Some((own.norm, norm_output));
                vec![own.fc]
            }
            PackedFusion::Mtp(own) => {
                for (norm, input, at) in
                    [(&own.embedding_norm, embeddings, 0), (&own.state_norm, features, hidden)]
                {
                    let norm = GpuNorm::new(&norm.weight, input, joined);
                    maker.norm(GpuNorm { at, stride, ..norm })?;
                }
                maker.product(GpuProduct::new(&own.fc, joined, stream))?;
                output_norm = Some((own.norm, !own.before_norm));
                vec![own.fc]
            }
        };
        let common = maker.take();
        let (after, scored_norm) = match output_norm {
            // Rows continue from what it returns.
            Some((norm, true)) => {
                maker.norm(GpuNorm::of(&norm, stream, branch))?;
                copy(&mut maker, branch, 0, stream, 0, hidden);
                (maker.take(), None)
            }
            Some((norm, false)) => (Vec::new(), Some(norm)),
            None => (Vec::new(), None),
        };
        let vectors = maker.vectors;
        Ok(Self {
            buffers,
            joins_attention,
            of_target,
            of_head,
            common,
            after,
            scored_norm,
            matrices,
            vectors,
        })
    }

    /// What attention reads instead of the stream.
    pub(super) fn attention_input(&self) -> Option<&GpuBuffer> {
        self.joins_attention.then_some(&self.buffers.joined)
    }

    /// The steps before the blocks.
    pub(super) fn before(&self, origin: FeatureOrigin) -> impl Iterator<Item = &ShaderStep> {
        let own = match origin {
            FeatureOrigin::Target => &self.of_target,
            FeatureOrigin::Head => &self.of_head,
        };
        own.iter().chain(&self.common)
    }

    /// Bytes of weights and buffers.
    pub(super) fn bytes(&self) -> u64 {
        let FusionBuffers { features, embeddings, chosen, joined } = &self.buffers;
        let buffers = [features, embeddings, chosen, joined].map(GpuBuffer::bytes);
        buffers.iter().sum::<u64>()
            + self.matrices.iter().map(GpuMatrix::bytes).sum::<u64>()
            + self.vectors.iter().map(GpuBuffer::bytes).sum::<u64>()
    }
}
