//! Builds the steps of a pass from products, norms and other kernels, with the vectors that they
//! read. It must not depend on what the steps compute together.

use super::buffer::GpuBuffer;
use super::device::Gpu;
use super::encode::Encoding;
use super::error::GpuError;
use super::kernels::Shader;
use super::matrix::GpuMatrix;
use super::step::{ShaderStep, Workgroups};
use crate::model::cpu::layer::NormWeights;

/// How many outputs of a product a workgroup computes.
pub(super) const OUTPUTS: u32 = 4;
/// Threads in an element-wise workgroup.
const THREADS: usize = 64;

/// A result is added to what its output holds.
pub(super) const ADD_TO_OUTPUT: u32 = 1;
/// The mean is taken out of a norm's input, and its weights are followed by a bias.
const CENTRED: u32 = 2;
const WITH_BIAS: u32 = 2;
const WITH_SILU: u32 = 4;

/// The factors of what an output holds and of what is added to it; `None` overwrites it.
pub(in crate::model) type Adding = Option<[f32; 2]>;

/// A product: output = activation(matrix · input + bias) for every row of a pass.
pub(in crate::model) struct GpuProduct<'a> {
    pub(in crate::model) matrix: &'a GpuMatrix,
    /// Rows as wide as the matrix expects.
    pub(in crate::model) input: &'a GpuBuffer,
    pub(in crate::model) output: &'a GpuBuffer,
    /// Where the result begins in a row of the output.
    pub(in crate::model) at: usize,
    /// The width of the output's rows.
    pub(in crate::model) stride: usize,
    pub(in crate::model) bias: Option<&'a [f32]>,
    pub(in crate::model) silu: bool,
    pub(in crate::model) adding: Adding,
}

impl<'a> GpuProduct<'a> {
    /// Writes rows as wide as the matrix's result.
    pub(in crate::model) fn new(
        matrix: &'a GpuMatrix,
        input: &'a GpuBuffer,
        output: &'a GpuBuffer,
    ) -> Self {
        let stride = matrix.outputs;
        Self { matrix, input, output, at: 0, stride, bias: None, silu: false, adding: None }
    }
}

/// Norms of the segments of every row of a pass: by the root mean square, or, with a bias, by mean
/// and variance.
pub(in crate::model) struct GpuNorm<'a> {
    /// The weights of all segments.
    pub(in crate::model) weight: &'a [f32],
    pub(in crate::model) bias: Option<&'a [f32]>,
    pub(in crate::model) input: &'a GpuBuffer,
    pub(in crate::model) output: &'a GpuBuffer,
    pub(in crate::model) segments: usize,
    /// Where the result begins in a row of the output.
    pub(in crate::model) at: usize,
    /// The width of the output's rows.
    pub(in crate::model) stride: usize,
    pub(in crate::model) adding: Adding,
}

impl<'a> GpuNorm<'a> {
    /// One norm of each row, by the root mean square.
    pub(in crate::model) fn new(
        weight: &'a [f32],
        input: &'a GpuBuffer,
        output: &'a GpuBuffer,
    ) -> Self {
        let stride = weight.len();
        Self { weight, bias: None, input, output, segments: 1, at: 0, stride, adding: None }
    }

    /// One norm of each row, of the kind that the weights are for.
    pub(in crate::model) fn of(
        norm: &'a NormWeights,
        input: &'a GpuBuffer,
        output: &'a GpuBuffer,
    ) -> Self {
        Self { bias: norm.bias.as_deref(), ..Self::new(&norm.weight, input, output) }
    }
}

/// Builds steps.
pub(in crate::model) struct StepMaker<'a> {
    pub(super) gpu: &'a Gpu,
    /// The ε of the norms.
    eps: f32,
    pub(in crate::model) steps: Vec<ShaderStep>,
    /// The buffers that the steps read in addition to those given.
    pub(in crate::model) vectors: Vec<GpuBuffer>,
}

impl<'a> StepMaker<'a> {
    pub(in crate::model) fn new(gpu: &'a Gpu, eps: f32) -> Self {
        Self { gpu, eps, steps: Vec::new(), vectors: Vec::new() }
    }

    /// The steps since the last call.
    pub(in crate::model) fn take(&mut self) -> Vec<ShaderStep> {
        std::mem::take(&mut self.steps)
    }

    /// Adds a step; see [`ShaderStep::new`].
    pub(in crate::model) fn add(
        &mut self,
        kernel: Shader,
        buffers: &[&GpuBuffer],
        flags: u32,
        words: &[u32],
        grid: Workgroups,
    ) {
        self.steps.push(ShaderStep::new(self.gpu, kernel, buffers, flags, words, grid));
    }

    /// Adds an element-wise step on rows of `width` numbers, which are the first of its words.
    pub(in crate::model) fn elements(
        &mut self,
        kernel: Shader,
        buffers: &[&GpuBuffer],
        flags: u32,
        width: usize,
        words: &[usize],
    ) {
        let words: Vec<u32> = [width].iter().chain(words).map(|&word| word as u32).collect();
        let grid = Workgroups::ForRow(width.div_ceil(THREADS) as u32);
        self.add(kernel, buffers, flags, &words, grid);
    }

    /// # Errors
    /// [`GpuError`] if the device is full or lost.
    pub(in crate::model) fn product(&mut self, product: GpuProduct<'_>) -> Result<(), GpuError> {
        let GpuProduct { matrix, input, output, at, stride, bias, silu, adding } = product;
        let encoding = Encoding::of(matrix.format);
        let [kept, factor] = adding.unwrap_or([1.0; 2]);
        let mut flags = 0;
        for (flag, wanted) in
            [(ADD_TO_OUTPUT, adding.is_some()), (WITH_BIAS, bias.is_some()), (WITH_SILU, silu)]
        {
            flags |= if wanted { flag } else { 0 };
        }
        for part in &matrix.parts {
            let bias = bias.map_or(&[][..], |bias| &bias[part.first..part.first + part.rows]);
            let bias = self.gpu.filled(bias)?;
            let words = [
                matrix.inputs as u32,
                part.rows as u32,
                matrix.inputs as u32,
                kept.to_bits(),
                stride as u32,
                (at + part.first) as u32,
                factor.to_bits(),
                encoding.group_shift(),
            ];
            let buffers = [&*part.place.codes, &part.place.scales, input, &bias, output];
            let grid = Workgroups::ForEight((part.rows as u32).div_ceil(OUTPUTS));
            self.add(Shader::Product(encoding.layout), &buffers, flags, &words, grid);
            self.vectors.push(bias);
        }
        Ok(())
    }

    /// # Errors
    /// [`GpuError`] if the device is full or lost.
    pub(in crate::model) fn norm(&mut self, norm: GpuNorm<'_>) -> Result<(), GpuError> {
        let GpuNorm { weight, bias, input, output, segments, at, stride, adding } = norm;
        let width = weight.len() / segments;
        let [kept, factor] = adding.unwrap_or([1.0; 2]);
        let words = [
            width as u32,
            width as u32,
            weight.len() as u32,
            kept.to_bits(),
            stride as u32,
            at as u32,
            factor.to_bits(),
            self.eps.to_bits(),
        ];
        let mut flags = if adding.is_some() { ADD_TO_OUTPUT } else { 0 };
        flags |= if bias.is_some() { CENTRED } else { 0 };
        let weight = self.gpu.filled(&[weight, bias.unwrap_or_default()].concat())?;
        let grid = Workgroups::ForRow(segments as u32);
        self.add(Shader::Norm, &[input, &weight, output], flags, &words, grid);
        self.vectors.push(weight);
        Ok(())
    }
}
