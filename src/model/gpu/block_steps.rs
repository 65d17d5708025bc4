//! The steps that run one block, and the buffers of a pass that they use. It must not depend on
//! which block it is or where its weights come from.

use std::ops::Range;

use super::buffer::GpuBuffer;
use super::device::Gpu;
use super::error::GpuError;
use super::kernels::Shader;
use super::maker::{ADD_TO_OUTPUT, Adding, GpuNorm, GpuProduct, StepMaker};
use super::matrix::GpuMatrix;
use super::places::Places;
use super::step::Workgroups;
use crate::kernels::{Activation, KvFormat};
use crate::model::Config;
use crate::model::cpu::layer::{Convolution, Dense, GroupedQuery, Layer, NormWeights};

/// Flags of the kernels.
const NORM_VALUES: u32 = 2;
const CAUSAL: u32 = 2;
const UNGATED: u32 = 2;
/// The score that counts for nothing.
const LOWEST: f32 = -3e38;

/// Buffers of a pass, `[rows, …]`, shared by all blocks.
pub(in crate::model) struct BlockBuffers {
    /// The residual stream.
    pub(in crate::model) stream: GpuBuffer,
    /// A norm of it, or what is to be added to it.
    pub(in crate::model) branch: GpuBuffer,
    qkv: GpuBuffer,
    q: GpuBuffer,
    attended: GpuBuffer,
    gate_up: GpuBuffer,
    inner: GpuBuffer,
    /// The kernels of the rows, and what they convolve, if the blocks have convolutions.
    pub(super) convolution: Option<[GpuBuffer; 2]>,
}

impl BlockBuffers {
    pub(super) fn new(gpu: &Gpu, config: &Config, rows: usize) -> Result<Self, GpuError> {
        let of = |width: usize| gpu.buffer(4 * (rows * width) as u64);
        Ok(Self {
            stream: of(config.hidden)?,
            branch: of(config.hidden)?,
            qkv: of(qkv_width(config))?,
            q: of(config.q_width())?,
            attended: of(config.q_width())?,
            gate_up: of(2 * config.intermediate)?,
            inner: of(config.intermediate)?,
            convolution: None,
        })
    }

    pub(super) fn bytes(&self) -> u64 {
        let Self { stream, branch, qkv, q, attended, gate_up, inner, convolution } = self;
        let all = [stream, branch, qkv, q, attended, gate_up, inner].into_iter();
        all.chain(convolution.iter().flatten()).map(GpuBuffer::bytes).sum()
    }
}

/// The width of q with its gates, k and v together.
fn qkv_width(config: &Config) -> usize {
    let gates = if config.block.output_gate { config.q_width() } else { 0 };
    config.q_width() + gates + 2 * config.kv_width()
}

/// Builds the steps of a block that runs with these buffers.
pub(super) struct BlockMaker<'a> {
    pub(super) config: &'a Config,
    pub(super) buffers: &'a BlockBuffers,
    pub(super) places: &'a Places,
    /// The block's keys and values.
    pub(super) cache: &'a GpuBuffer,
    pub(super) kv: KvFormat,
    /// Which steps compute the keys and values.
    pub(super) keys: Range<usize>,
    pub(super) steps: StepMaker<'a>,
}

impl<'a> BlockMaker<'a> {
    /// Attention from the stream, or `input`, and adding its output to the stream.
    pub(super) fn attend<M>(
        &mut self,
        layer: &Layer<M>,
        weights: &GroupedQuery<M>,
        [o, q, k, v]: [&GpuMatrix; 4],
        convolution: Option<&Convolution<&GpuMatrix>>,
        input: Option<&GpuBuffer>,
    ) -> Result<(), GpuError> {
        let &mut Self { config, buffers: b, places, cache, kv, .. } = self;
        let input = match input {
            Some(input) => input,
            None => self.normed(layer.attention_norm.as_ref(), convolution)?,
        };
        let stride = qkv_width(config);
        let kv_width = config.kv_width();
        let parts = [(q, 0), (k, stride - 2 * kv_width), (v, stride - kv_width)];
        for (part, (matrix, at)) in parts.into_iter().enumerate() {
            if part == 1 {
                self.keys.start = self.steps.steps.len();
            }
            let bias = weights.qkv_bias.as_ref().map(|all| all[part].as_slice());
            let product = GpuProduct::new(matrix, input, &b.qkv);
            self.steps.product(GpuProduct { at, stride, bias, ..product })?;
        }
        let normed = u32::from(weights.qk_norm.is_some())
            | if weights.value_norm.is_some() { NORM_VALUES } else { 0 };
        let gpu = self.steps.gpu;
        let norms = match &weights.qk_norm {
            Some([q, k]) => [gpu.filled(&q.weight)?, gpu.filled(&k.weight)?],
            None => [gpu.filled(&[])?, gpu.filled(&[])?],
        };
        let half = layer.rope.map_or(0, |_| config.rotary_dim() / 2);
        let heads = [config.heads, config.kv_heads, config.head_dim].map(|count| count as u32);
        let gated = u32::from(config.block.output_gate);
        let words = [&heads[..], &[half as u32, config.rms_eps.to_bits(), gated]].concat();
        // If nothing is rotated, the angles are not read.
        let angles = layer.rope.map_or(&places.paths, |table| &places.angles[table]);
        self.steps.add(
            Shader::Rotate(kv),
            &[&b.qkv, angles, &norms[0], &norms[1], &b.q, cache],
            normed,
            &words,
            Workgroups::ForRow((config.heads + 2 * config.kv_heads) as u32),
        );
        self.keys.end = self.steps.steps.len();
        self.steps.vectors.extend(norms);
        let scale = config.block.attention_scale;
        let scale = scale.unwrap_or_else(|| 1.0 / (config.head_dim as f32).sqrt());
        let window = layer.window.unwrap_or(0) as u32;
        let softcap = config.block.attention_softcap.unwrap_or(0.0);
        let numbers = [scale, softcap, config.block.attention_out_scale].map(f32::to_bits);
        let words = [&heads[..], &[window], &numbers].concat();
        let none = || vec![LOWEST; config.heads];
        let sinks = gpu.filled(&layer.sinks.clone().unwrap_or_else(none))?;
        self.steps.add(
            Shader::Attention(kv),
            &[&b.q, cache, &places.paths, &b.qkv, &sinks, &b.attended],
            gated | if layer.causal { CAUSAL } else { 0 },
            &words,
            Workgroups::ForRow(config.heads as u32),
        );
        self.steps.vectors.push(sinks);
        let bias = layer.o_bias.as_deref();
        self.join(o, bias, &b.attended, layer.attention_out_norm.as_ref(), convolution, 1.0)
    }

    /// The MLP, and adding its output to the stream.
    pub(super) fn transform<M>(
        &mut self,
        layer: &Layer<M>,
        dense: &Dense<M>,
        gate: Option<&GpuMatrix>,
        [up, down]: [&GpuMatrix; 2],
        convolution: Option<&Convolution<&GpuMatrix>>,
    ) -> Result<(), GpuError> {
        let &mut Self { config, buffers: b, .. } = self;
        // Attention's output goes to the stream past the norm that it read.
        let input = match config.block.parallel {
            true => &b.branch,
            false => self.normed(layer.mlp_norm.as_ref(), convolution)?,
        };
        let width = config.intermediate;
        let gate = gate.map(|gate| (gate, &dense.gate_bias));
        for (part, (matrix, bias)) in gate.into_iter().chain([(up, &dense.up_bias)]).enumerate() {
            let at = part * width;
            let bias = bias.as_deref();
            let product = GpuProduct::new(matrix, input, &b.gate_up);
            self.steps.product(GpuProduct { at, stride: 2 * width, bias, ..product })?;
        }
        let flags = u32::from(config.block.activation == Activation::GeluTanh)
            | if gate.is_none() { UNGATED } else { 0 };
        self.steps.elements(Shader::Gated, &[&b.gate_up, &b.inner], flags, width, &[]);
        let scale = layer.output_scale.unwrap_or(1.0);
        let bias = dense.down_bias.as_deref();
        self.join(down, bias, &b.inner, layer.mlp_out_norm.as_ref(), convolution, scale)
    }

    /// The stream, or its norm if there is one, convolved if the block does that.
    fn normed(
        &mut self,
        norm: Option<&NormWeights>,
        convolution: Option<&Convolution<&GpuMatrix>>,
    ) -> Result<&'a GpuBuffer, GpuError> {
        let b = self.buffers;
        let mut input = &b.stream;
        if let Some(norm) = norm {
            self.steps.norm(GpuNorm::of(norm, input, &b.branch))?;
            input = &b.branch;
        }
        if let (Some(own), Some([kernels, convolved])) = (convolution, &b.convolution) {
            self.steps.product(GpuProduct::new(own.dynamic, input, kernels))?;
            self.convolve(own, 0, [kernels, input, convolved], None)?;
            input = convolved;
        }
        Ok(input)
    }

    /// Convolves rows by one side of their kernels.
    fn convolve(
        &mut self,
        own: &Convolution<&GpuMatrix>,
        side: usize,
        [kernels, input, output]: [&GpuBuffer; 3],
        adding: Adding,
    ) -> Result<(), GpuError> {
        let (taps, width) = (own.taps, own.dynamic.inputs);
        let base = self.steps.gpu.filled(&own.base[side * taps * width..][..taps * width])?;
        let groups = own.dynamic.outputs / (2 * taps);
        let [kept, factor] = adding.unwrap_or([1.0; 2]).map(|factor| factor.to_bits() as usize);
        let flags = if adding.is_some() { ADD_TO_OUTPUT } else { 0 };
        let buffers = [input, kernels, &base, output];
        let words = [taps, groups, side, kept, factor];
        self.steps.elements(Shader::Convolve, &buffers, flags, width, &words);
        self.steps.vectors.push(base);
        Ok(())
    }

    /// stream += the product, convolved and normed if the family does that; then a factor of it.
    fn join(
        &mut self,
        matrix: &GpuMatrix,
        bias: Option<&[f32]>,
        input: &GpuBuffer,
        norm: Option<&NormWeights>,
        convolution: Option<&Convolution<&GpuMatrix>>,
        scale: f32,
    ) -> Result<(), GpuError> {
        let &mut Self { config, buffers: b, .. } = self;
        let adding = Some([scale, scale * config.block.residual_scale]);
        if norm.is_none() && convolution.is_none() {
            let product = GpuProduct::new(matrix, input, &b.stream);
            return self.steps.product(GpuProduct { bias, adding, ..product });
        }
        self.steps.product(GpuProduct { bias, ..GpuProduct::new(matrix, input, &b.branch) })?;
        let mut branch = &b.branch;
        if let (Some(own), Some([kernels, convolved])) = (convolution, &b.convolution) {
            let (output, adding) = norm.map_or((&b.stream, adding), |_| (convolved, None));
            self.convolve(own, 1, [kernels, branch, output], adding)?;
            branch = output;
        }
        let Some(norm) = norm else { return Ok(()) };
        self.steps.norm(GpuNorm { adding, ..GpuNorm::of(norm, branch, &b.stream) })
    }
}
