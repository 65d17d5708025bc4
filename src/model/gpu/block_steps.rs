//! The steps that run one block, and the buffers of a pass that they use. It must not depend on
//! which block it is or where its weights come from.

use super::buffer::GpuBuffer;
use super::device::Gpu;
use super::error::GpuError;
use super::kernels::Shader;
use super::matrix::{GpuMatrix, GpuProduct};
use super::norm::{NormColumns, norm_step};
use super::step::{ShaderStep, Workgroups};
use crate::kernels::{Activation, KvFormat};
use crate::model::Config;
use crate::model::cpu::layer::{Dense, GroupedQuery, NormWeights};

/// Threads in an element-wise workgroup.
const THREADS: usize = 64;

/// Buffers of a pass, `[rows, …]`, shared by all blocks.
pub(super) struct BlockBuffers {
    /// The residual stream.
    pub(super) stream: GpuBuffer,
    /// A norm of it, or what is to be added to it.
    pub(super) branch: GpuBuffer,
    pub(super) qkv: GpuBuffer,
    pub(super) q: GpuBuffer,
    pub(super) attended: GpuBuffer,
    pub(super) gate_up: GpuBuffer,
    pub(super) inner: GpuBuffer,
}

impl BlockBuffers {
    pub(super) fn new(gpu: &Gpu, config: &Config, rows: usize) -> Result<Self, GpuError> {
        let of = |width: usize| gpu.buffer(4 * (rows * width) as u64);
        Ok(Self {
            stream: of(config.hidden)?,
            branch: of(config.hidden)?,
            qkv: of(config.q_width() + 2 * config.kv_width())?,
            q: of(config.q_width())?,
            attended: of(config.q_width())?,
            gate_up: of(2 * config.intermediate)?,
            inner: of(config.intermediate)?,
        })
    }

    pub(super) fn bytes(&self) -> u64 {
        let Self { stream, branch, qkv, q, attended, gate_up, inner } = self;
        [stream, branch, qkv, q, attended, gate_up, inner].map(GpuBuffer::bytes).iter().sum()
    }
}

/// Builds the steps of a block.
pub(super) struct BlockMaker<'a> {
    gpu: &'a Gpu,
    config: &'a Config,
    buffers: &'a BlockBuffers,
    steps: Vec<ShaderStep>,
    vectors: Vec<GpuBuffer>,
}

impl<'a> BlockMaker<'a> {
    /// For a block that runs with these buffers.
    pub(super) fn new(gpu: &'a Gpu, config: &'a Config, buffers: &'a BlockBuffers) -> Self {
        Self { gpu, config, buffers, steps: Vec::new(), vectors: Vec::new() }
    }

    /// The steps, and the norms and biases that they read.
    pub(super) fn into_steps(self) -> (Vec<ShaderStep>, Vec<GpuBuffer>) {
        (self.steps, self.vectors)
    }

    /// From the stream to the output of attention.
    pub(super) fn attend(
        &mut self,
        (weights, cache): (&GroupedQuery<GpuMatrix>, &GpuBuffer),
        input: Option<&GpuBuffer>,
        (norm, angles): (Option<&NormWeights>, Option<&GpuBuffer>),
        (paths, window, kv): (&GpuBuffer, Option<usize>, KvFormat),
    ) -> Result<(), GpuError> {
        let &mut Self { gpu, config, buffers: b, .. } = self;
        let input = match (input, norm) {
            (Some(input), _) => input,
            (None, None) => &b.stream,
            (None, Some(norm)) => {
                self.norm(norm, &b.stream, &b.branch, None)?;
                &b.branch
            }
        };
        let q = config.q_width();
        let kv_width = config.kv_width();
        let width = q + 2 * kv_width;
        let bias = |part: usize| weights.qkv_bias.as_ref().map(|all| all[part].as_slice());
        for (matrix, part, at) in
            [(&weights.q, 0, 0), (&weights.k, 1, q), (&weights.v, 2, q + kv_width)]
        {
            let product = GpuProduct::new(matrix, input, &b.qkv).into_columns(at, width);
            self.product(product.with_bias(bias(part)))?;
        }
        let normed = weights.qk_norm.is_some();
        let norms = weights.qk_norm.clone().unwrap_or_default();
        let norms = [gpu.filled(&norms[0])?, gpu.filled(&norms[1])?];
        let half = if angles.is_some() { config.rotary_dim() / 2 } else { 0 };
        let words = [
            config.heads as u32,
            config.kv_heads as u32,
            config.head_dim as u32,
            half as u32,
            config.rms_eps.to_bits(),
        ];
        // If nothing is rotated, the angles are not read.
        let angles = angles.unwrap_or(paths);
        let heads = config.heads + 2 * config.kv_heads;
        self.steps.push(ShaderStep::new(
            gpu,
            Shader::Rotate(kv),
            &[&b.qkv, angles, &norms[0], &norms[1], &b.q, cache],
            u32::from(normed),
            &words,
            Workgroups::ForRow(heads as u32),
        ));
        self.vectors.extend(norms);
        let scale = config.block.attention_scale;
        let scale = scale.unwrap_or_else(|| 1.0 / (config.head_dim as f32).sqrt());
        let words = [
            config.heads as u32,
            config.kv_heads as u32,
            config.head_dim as u32,
            window.unwrap_or(0) as u32,
            scale.to_bits(),
            config.block.attention_softcap.unwrap_or(0.0).to_bits(),
        ];
        self.steps.push(ShaderStep::new(
            gpu,
            Shader::Attention(kv),
            &[&b.q, cache, paths, &b.attended],
            0,
            &words,
            Workgroups::ForRow(config.heads as u32),
        ));
        Ok(())
    }

    /// The MLP, and adding its output to the stream.
    pub(super) fn transform(
        &mut self,
        mlp: &Dense<GpuMatrix>,
        norm: Option<&NormWeights>,
        out_norm: Option<&NormWeights>,
    ) -> Result<(), GpuError> {
        let &mut Self { gpu, config, buffers: b, .. } = self;
        let Some(gate) = &mlp.gate else {
            return Err(GpuError::Unsupported(
                "the GPU kernels do not support an MLP without a \
                gate"
                    .into(),
            ));
        };
        let input = match norm {
            None => &b.stream,
            Some(norm) => {
                self.norm(norm, &b.stream, &b.branch, None)?;
                &b.branch
            }
        };
        let width = config.intermediate;
        self.product(GpuProduct::new(gate, input, &b.gate_up).into_columns(0, 2 * width))?;
        self.product(GpuProduct::new(&mlp.up, input, &b.gate_up).into_columns(width, 2 * width))?;
        self.steps.push(ShaderStep::new(
            gpu,
            Shader::Gated,
            &[&b.gate_up, &b.inner],
            u32::from(config.block.activation == Activation::GeluTanh),
            &[width as u32],
            Workgroups::ForRow(width.div_ceil(THREADS) as u32),
        ));
        self.join(&mlp.down, None, &b.inner, out_norm)
    }

    /// stream += the product, normed if the family does that.
    pub(super) fn join(
        &mut self,
        matrix: &GpuMatrix,
        bias: Option<&[f32]>,
        input: &GpuBuffer,
        norm: Option<&NormWeights>,
    ) -> Result<(), GpuError> {
        let &mut Self { config, buffers: b, .. } = self;
        let factor = config.block.residual_scale;
        match norm {
            None => self
                .product(GpuProduct::new(matrix, input, &b.stream).with_bias(bias).adding(factor)),
            Some(norm) => {
                self.product(GpuProduct::new(matrix, input, &b.branch).with_bias(bias))?;
                self.norm(norm, &b.branch, &b.stream, Some(factor))
            }
        }
    }

    fn product(&mut self, product: GpuProduct<'_>) -> Result<(), GpuError> {
        let steps = product.steps(self.gpu, &mut self.vectors)?;
        self.steps.extend(steps);
        Ok(())
    }

    fn norm(
        &mut self,
        norm: &NormWeights,
        from: &GpuBuffer,
        to: &GpuBuffer,
        adding: Option<f32>,
    ) -> Result<(), GpuError> {
        let weight = self.gpu.filled(&norm.weight)?;
        let width = norm.weight.len();
        let eps = self.config.rms_eps;
        let columns = NormColumns { width, segments: 1, into: (0, width) };
        self.steps.push(norm_step(self.gpu, &weight, eps, from, to, columns, adding));
        self.vectors.push(weight);
        Ok(())
    }
}
