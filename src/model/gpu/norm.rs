//! RMS norms as steps of a pass. It must not depend on what is normed.

use super::buffer::GpuBuffer;
use super::device::Gpu;
use super::kernels::Shader;
use super::step::{ShaderStep, Workgroups};

/// A norm is added to what its output holds.
const ADD: u32 = 1;

/// The columns that a norm reads and writes.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct NormColumns {
    /// How many numbers are normed together.
    pub(in crate::model) width: usize,
    /// How many such runs a row has.
    pub(in crate::model) segments: usize,
    /// First column in the output, and width of its rows.
    pub(in crate::model) into: (usize, usize),
}

/// The RMS norm of rows of `from`, written to rows of `to`, or multiplied by a factor and added to
/// them.
pub(in crate::model) fn norm_step(
    gpu: &Gpu,
    weight: &GpuBuffer,
    eps: f32,
    from: &GpuBuffer,
    to: &GpuBuffer,
    columns: NormColumns,
    adding: Option<f32>,
) -> ShaderStep {
    let NormColumns { width, segments, into: (at, stride) } = columns;
    let words = [
        width as u32,
        width as u32,
        (width * segments) as u32,
        0,
        stride as u32,
        at as u32,
        adding.unwrap_or(1.0).to_bits(),
        eps.to_bits(),
    ];
    let flags = if adding.is_some() { ADD } else { 0 };
    let grid = Workgroups::ForRow(segments as u32);
    ShaderStep::new(gpu, Shader::Norm, &[from, weight, to], flags, &words, grid)
}
