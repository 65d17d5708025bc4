//! How feature and token become a head's input on a GPU (method.md, Draft heads and EAGLE-3): the
//! steps before and after its blocks. It must not depend on trees.

use super::backend::FeatureOrigin;
use super::pack::PackedFusion;
use super::weights::Eagle3Weights;
use super::{HeadConfig, HeadError};
use crate::model::gpu::{
    Gpu, GpuBlocks, GpuBuffer, GpuMatrix, GpuProduct, NormColumns, Shader, ShaderStep, Workgroups,
    bytes_of_words, norm_step,
};

/// Threads in an element-wise workgroup.
const THREADS: usize = 64;
/// The rows are those in a list.
const BY_LIST: u32 = 1;

/// The steps around a head's blocks, with their weights and buffers.
pub(super) struct GpuFusion {
    buffers: FusionBuffers,
    /// Whether attention reads the joined inputs instead of the stream.
    joins_attention: bool,
    of_target: Vec<ShaderStep>,
    of_head: Vec<ShaderStep>,
    /// The steps after either of these.
    common: Vec<ShaderStep>,
    after: Vec<ShaderStep>,
    /// The norm of the LM head's input, if it has one: weight and epsilon.
    scored: Option<(GpuBuffer, f32)>,
    matrices: Vec<GpuMatrix>,
    vectors: Vec<GpuBuffer>,
}

/// What a pass reads, `[rows, …]`.
struct FusionBuffers {
    /// As wide as the target's features, or the head's own outputs.
    features: GpuBuffer,
    embeddings: GpuBuffer,
    /// Which of the head's own outputs the rows continue from.
    chosen: GpuBuffer,
    /// Two concatenated inputs, `[rows, 2H]`.
    joined: GpuBuffer,
}

impl GpuFusion {
    /// The steps for a head whose own outputs are in `sources`, for passes of `rows` rows.
    pub(super) fn new(
        gpu: &Gpu,
        config: &HeadConfig,
        weights: PackedFusion<GpuMatrix>,
        blocks: &GpuBlocks,
        sources: &GpuBuffer,
        rows: usize,
    ) -> Result<Self, HeadError> {
        let hidden = config.body.hidden;
        let eps = config.body.rms_eps;
        let of = |width: usize| gpu.buffer(4 * (rows * width) as u64);
        let buffers = FusionBuffers {
            features: of(config.feature_width())?,
            embeddings: of(hidden)?,
            chosen: gpu.buffer(4 * rows as u64)?,
            joined: of(2 * hidden)?,
        };
        let stream = blocks.stream();
        let branch = blocks.branch();
        let mut maker = FusionMaker { gpu, hidden, eps, steps: Vec::new(), vectors: Vec::new() };
        let mut of_target = Vec::new();
        let mut after = Vec::new();
        let mut scored = None;
        let joins_attention = matches!(weights, PackedFusion::Eagle3(_));
        let chosen_into = if joins_attention { stream } else { &buffers.features };
        maker.rows(sources, &buffers.chosen, BY_LIST, chosen_into, 0, hidden);
        let of_head = maker.take();
        let FusionBuffers { features, embeddings, chosen, joined } = &buffers;
        let matrices = match weights {
            PackedFusion::Dgf { w_1, w_2, w_z, norm } => {
                let columns = |at: usize| (at, 2 * hidden);
                let (at, stride) = columns(0);
                maker.product(GpuProduct::new(&w_1, features, joined).into_columns(at, stride))?;
                maker.norm(&norm, embeddings, branch, (0, hidden))?;
                let (at, stride) = columns(hidden);
                let second = GpuProduct::new(&w_2, branch, joined).into_columns(at, stride);
                maker.product(second.with_silu())?;
                // The gate's logits overwrite what has already been read.
                maker.product(GpuProduct::new(&w_z, joined, embeddings))?;
                maker.blend(embeddings, joined, stream);
                vec![w_1, w_2, w_z]
            }
            PackedFusion::Eagle { fc, bias } => {
                maker.rows(embeddings, chosen, 0, joined, 0, 2 * hidden);
                maker.rows(features, chosen, 0, joined, hidden, 2 * hidden);
                maker.product(GpuProduct::new(&fc, joined, stream).with_bias(bias.as_deref()))?;
                vec![fc]
            }
            PackedFusion::Eagle3(own) => {
                maker.taps(&own, config.feature_width(), features, stream, rows)?;
                of_target = maker.take();
                maker.norm(&own.embedding_norm, embeddings, joined, (0, 2 * hidden))?;
                maker.norm(&own.state_norm, stream, joined, (hidden, 2 * hidden))?;
                let common = if own.norm_before_residual {
                    maker.norm(&own.state_norm, stream, branch, (0, hidden))?;
                    maker.rows(branch, chosen, 0, stream, 0, hidden);
                    maker.take()
                } else {
                    maker.take()
                };
                if own.norm_output {
                    maker.norm(&own.norm, stream, branch, (0, hidden))?;
                    maker.rows(branch, chosen, 0, stream, 0, hidden);
                    after = maker.take();
                } else {
                    scored = Some((gpu.filled(&own.norm)?, eps));
                }
                maker.steps = common;
                vec![own.fc]
            }
        };
        let FusionMaker { steps: common, vectors, .. } = maker;
        Ok(Self {
            buffers,
            joins_attention,
            of_target,
            of_head,
            common,
            after,
            scored,
            matrices,
            vectors,
        })
    }

    /// Where the target's features are written, `[rows, feature width]`.
    pub(super) fn features(&self) -> &GpuBuffer {
        &self.buffers.features
    }

    /// Where the tokens' embeddings are written, `[rows, H]`.
    pub(super) fn embeddings(&self) -> &GpuBuffer {
        &self.buffers.embeddings
    }

    /// What attention reads instead of the stream.
    pub(super) fn attention_input(&self) -> Option<&GpuBuffer> {
        self.joins_attention.then_some(&self.buffers.joined)
    }

    /// Sets which of the head's own outputs the rows of the next pass continue from.
    pub(super) fn choose(&self, gpu: &Gpu, sources: &[u32]) {
        gpu.write(&self.buffers.chosen, 0, &bytes_of_words(sources));
    }

    /// The steps before the blocks.
    pub(super) fn before(&self, origin: FeatureOrigin) -> impl Iterator<Item = &ShaderStep> {
        let own = match origin {
            FeatureOrigin::Target => &self.of_target,
            FeatureOrigin::Head => &self.of_head,
        };
        own.iter().chain(&self.common)
    }

    /// The steps after the blocks.
    pub(super) fn after(&self) -> impl Iterator<Item = &ShaderStep> {
        self.after.iter()
    }

    /// The norm of the LM head's input, if it has one: weight and epsilon.
    pub(super) fn scored_norm(&self) -> Option<(&GpuBuffer, f32)> {
        self.scored.as_ref().map(|(weight, eps)| (weight, *eps))
    }

    /// Bytes of weights and buffers.
    pub(super) fn bytes(&self) -> u64 {
        let FusionBuffers { features, embeddings, chosen, joined } = &self.buffers;
        let buffers = [features, embeddings, chosen, joined].map(GpuBuffer::bytes);
        let scored = self.scored.as_ref().map_or(0, |(weight, _)| weight.bytes());
        buffers.iter().sum::<u64>()
            + self.matrices.iter().map(GpuMatrix::bytes).sum::<u64>()
            + self.vectors.iter().map(GpuBuffer::bytes).sum::<u64>()
            + scored
    }
}

/// Makes steps on rows of H numbers.
struct FusionMaker<'a> {
    gpu: &'a Gpu,
    hidden: usize,
    eps: f32,
    steps: Vec<ShaderStep>,
    vectors: Vec<GpuBuffer>,
}

impl FusionMaker<'_> {
    fn take(&mut self) -> Vec<ShaderStep> {
        std::mem::take(&mut self.steps)
    }

    fn grid(&self) -> Workgroups {
        Workgroups::ForRow(self.hidden.div_ceil(THREADS) as u32)
    }

    /// Copies all rows, or those in a list, into columns of rows `stride` wide.
    fn rows(
        &mut self,
        from: &GpuBuffer,
        list: &GpuBuffer,
        flags: u32,
        to: &GpuBuffer,
        at: usize,
        stride: usize,
    ) {
        let words = [self.hidden, self.hidden, 0, stride, at].map(|word| word as u32);
        let buffers = [from, list, to];
        let step = ShaderStep::new(self.gpu, Shader::Rows, &buffers, flags, &words, self.grid());
        self.steps.push(step);
    }

    fn product(&mut self, product: GpuProduct<'_>) -> Result<(), HeadError> {
        let steps = product.steps(self.gpu, &mut self.vectors)?;
        self.steps.extend(steps);
        Ok(())
    }

    fn norm(
        &mut self,
        weight: &[f32],
        from: &GpuBuffer,
        to: &GpuBuffer,
        into: (usize, usize),
    ) -> Result<(), HeadError> {
        let weight = self.gpu.filled(weight)?;
        let columns = NormColumns { width: self.hidden, segments: 1, into };
        self.steps.push(norm_step(self.gpu, &weight, self.eps, from, to, columns, None));
        self.vectors.push(weight);
        Ok(())
    }

    fn blend(&mut self, gate: &GpuBuffer, both: &GpuBuffer, to: &GpuBuffer) {
        let words = [self.hidden as u32];
        let buffers = [gate, both, to];
        let step = ShaderStep::new(self.gpu, Shader::Blend, &buffers, 0, &words, self.grid());
        self.steps.push(step);
    }

    /// `fc` of the tapped states, normed if the head does that.
    fn taps(
        &mut self,
        own: &Eagle3Weights<GpuMatrix, Vec<f32>>,
        width: usize,
        features: &GpuBuffer,
        stream: &GpuBuffer,
        rows: usize,
    ) -> Result<(), HeadError> {
        let bias = own.bias.as_deref();
        let Some(weight) = &own.tap_norm else {
            return self.product(GpuProduct::new(&own.fc, features, stream).with_bias(bias));
        };
        let weight = self.gpu.filled(weight)?;
        let normed = self.gpu.buffer(4 * (rows * width) as u64)?;
        let together = own.normed_together;
        let segments = width / together.max(1);
        let columns = NormColumns { width: together, segments, into: (0, width) };
        self.steps.push(norm_step(self.gpu, &weight, self.eps, features, &normed, columns, None));
        self.product(GpuProduct::new(&own.fc, &normed, stream).with_bias(bias))?;
        self.vectors.extend([weight, normed]);
        Ok(())
    }
}
