//! A weight matrix on the device, in several parts if one binding cannot hold it, and the steps
//! that multiply rows by it. It must not depend on what the weights mean.

use std::ops::Range;
use std::sync::Arc;

use super::buffer::GpuBuffer;
use super::device::Gpu;
use super::encode::{Encoding, encode};
use super::error::GpuError;
use super::kernels::Shader;
use super::step::{ShaderStep, Workgroups};
use crate::kernels::{Format, PackError, Pool};

/// How many outputs a workgroup computes.
const OUTPUTS: u32 = 4;
/// How many bytes of a file are encoded at a time.
const AT_ONCE: usize = 4 << 20;
/// How many columns a lane reads at a time.
const COLUMNS: usize = 8;

const ADD_TO_OUTPUT: u32 = 1;
const WITH_BIAS: u32 = 2;
const WITH_SILU: u32 = 4;

/// Weights `[outputs, inputs]` on a device.
pub(in crate::model) struct GpuMatrix {
    format: Format,
    outputs: usize,
    inputs: usize,
    parts: Vec<MatrixPart>,
}

/// Appends a run of a matrix's rows as a file in its format stores them.
pub(in crate::model) type Fill<'a> =
    &'a mut dyn FnMut(Range<usize>, &mut Vec<u8>) -> Result<(), UploadError>;

/// Some rows of a matrix.
struct MatrixPart {
    first: usize,
    rows: usize,
    place: MatrixPlace,
}

/// Where the codes and scales of a part are stored. Several matrices may use the same place in
/// turn.
#[derive(Clone)]
pub(super) struct MatrixPlace {
    pub(super) codes: Arc<GpuBuffer>,
    pub(super) scales: Arc<GpuBuffer>,
}

impl MatrixPlace {
    /// Room for so many bytes of codes and of scales.
    ///
    /// # Errors
    /// [`GpuError`] if the device is full or lost.
    pub(super) fn new(gpu: &Gpu, codes: u64, scales: u64) -> Result<Self, GpuError> {
        Ok(Self { codes: Arc::new(gpu.buffer(codes)?), scales: Arc::new(gpu.buffer(scales)?) })
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        self.codes.bytes() + self.scales.bytes()
    }
}

/// A matrix in main memory, in the form that it has on a device.
pub(super) struct HostMatrix {
    format: Format,
    outputs: usize,
    inputs: usize,
    pub(super) parts: Vec<HostPart>,
}

/// Some rows of such a matrix.
pub(super) struct HostPart {
    first: usize,
    rows: usize,
    pub(super) codes: Vec<u8>,
    pub(super) scales: Vec<u8>,
}

impl HostMatrix {
    /// Encodes a matrix for a device; `fill` is the same as for [`GpuMatrix::upload`].
    ///
    /// # Errors
    /// [`UploadError`].
    pub(super) fn encode(
        gpu: &Gpu,
        format: Format,
        shape: [usize; 2],
        pool: &Pool,
        fill: Fill<'_>,
    ) -> Result<Self, UploadError> {
        let mut parts: Vec<HostPart> = Vec::new();
        encoded(gpu, format, shape, pool, fill, &mut |piece| {
            if piece.at == 0 {
                let first = piece.first;
                let rows = piece.rows;
                let codes = Vec::new();
                let scales = Vec::new();
                parts.push(HostPart { first, rows, codes, scales });
            }
            if let Some(part) = parts.last_mut() {
                part.codes.extend_from_slice(&piece.codes);
                part.scales.extend_from_slice(&piece.scales);
            }
            Ok(())
        })?;
        let [outputs, inputs] = shape;
        Ok(Self { format, outputs, inputs, parts })
    }

    /// The matrix as it is on a device after each part has been sent to its place.
    pub(super) fn at(&self, places: &[MatrixPlace]) -> GpuMatrix {
        let parts = self.parts.iter().zip(places).map(|(part, place)| MatrixPart {
            first: part.first,
            rows: part.rows,
            place: place.clone(),
        });
        let &Self { format, outputs, inputs, .. } = self;
        GpuMatrix { format, outputs, inputs, parts: parts.collect() }
    }

    /// Bytes in main memory.
    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| (part.codes.len() + part.scales.len()) as u64).sum()
    }
}

/// Encoded rows of a part, starting at its row `at`.
struct MatrixPiece {
    /// The part's first row and how many rows it has.
    first: usize,
    rows: usize,
    at: usize,
    codes: Vec<u8>,
    scales: Vec<u8>,
}

/// Encodes a matrix run by run, in parts that fit in a binding of the device.
fn encoded(
    gpu: &Gpu,
    format: Format,
    [outputs, inputs]: [usize; 2],
    pool: &Pool,
    fill: Fill<'_>,
    take: &mut dyn FnMut(MatrixPiece) -> Result<(), UploadError>,
) -> Result<(), UploadError> {
    if !inputs.is_multiple_of(COLUMNS) {
        let told = format!("the GPU kernels need rows of a multiple of 8 weights, not {inputs}");
        return Err(GpuError::Unsupported(told).into());
    }
    let encoding = Encoding::of(format);
    let code = encoding.code_bytes(inputs);
    let scale = encoding.scale_bytes(inputs);
    let by_binding = (gpu.most_binding() as usize / code.max(scale).max(1)).max(1);
    let most = by_binding.min((gpu.most_groups() * OUTPUTS) as usize);
    let run = (AT_ONCE / code.max(1)).max(1);
    let mut file = Vec::new();
    for first in (0..outputs).step_by(most) {
        let rows = most.min(outputs - first);
        for at in (0..rows).step_by(run) {
            let range = first + at..first + rows.min(at + run);
            let count = range.len();
            file.clear();
            fill(range, &mut file)?;
            let (codes, scales) = encode(format, [count, inputs], &file, pool)?;
            take(MatrixPiece { first, rows, at, codes, scales })?;
        }
    }
    Ok(())
}

/// Why a matrix cannot be put on a device.
#[derive(Debug, thiserror::Error)]
pub(in crate::model) enum UploadError {
    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error(transparent)]
    Pack(#[from] PackError),
    /// Its rows cannot be read.
    #[error("{0}")]
    Source(String),
}

impl GpuMatrix {
    /// Puts a matrix on the device; `fill` appends a run of its rows as a file in this format
    /// stores them.
    ///
    /// # Errors
    /// [`UploadError`].
    pub(in crate::model) fn upload(
        gpu: &Gpu,
        format: Format,
        [outputs, inputs]: [usize; 2],
        pool: &Pool,
        fill: Fill<'_>,
    ) -> Result<Self, UploadError> {
        let encoding = Encoding::of(format);
        let code = encoding.code_bytes(inputs);
        let scale = encoding.scale_bytes(inputs);
        let mut parts: Vec<MatrixPart> = Vec::new();
        encoded(gpu, format, [outputs, inputs], pool, fill, &mut |piece| {
            let MatrixPiece { first, rows, at, codes, scales } = piece;
            if at == 0 {
                let place = MatrixPlace::new(gpu, (rows * code) as u64, (rows * scale) as u64)?;
                parts.push(MatrixPart { first, rows, place });
            }
            if let Some(MatrixPart { place, .. }) = parts.last() {
                gpu.write_weights(&place.codes, (at * code) as u64, &codes);
                gpu.write_weights(&place.scales, (at * scale) as u64, &scales);
            }
            Ok(())
        })?;
        gpu.check()?;
        Ok(Self { format, outputs, inputs, parts })
    }

    /// Rows: how many numbers a product returns.
    pub(in crate::model) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Columns.
    pub(in crate::model) fn inputs(&self) -> usize {
        self.inputs
    }

    /// The format that it was made from.
    pub(in crate::model) fn format(&self) -> Format {
        self.format
    }

    /// Bytes held.
    pub(in crate::model) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.place.bytes()).sum()
    }
}

/// A product: output = epilogue(matrix · input) for every row of a pass.
pub(in crate::model) struct GpuProduct<'a> {
    matrix: &'a GpuMatrix,
    input: (&'a GpuBuffer, usize, usize),
    output: (&'a GpuBuffer, usize, usize),
    bias: Option<&'a [f32]>,
    flags: u32,
    factor: f32,
}

impl<'a> GpuProduct<'a> {
    /// Reads rows of `input` as wide as the matrix expects, and writes rows of `output` as wide as
    /// its result.
    pub(in crate::model) fn new(
        matrix: &'a GpuMatrix,
        input: &'a GpuBuffer,
        output: &'a GpuBuffer,
    ) -> Self {
        let input = (input, matrix.inputs, 0);
        let output = (output, matrix.outputs, 0);
        Self { matrix, input, output, bias: None, flags: 0, factor: 1.0 }
    }

    /// Rows of the output are `stride` wide; the matrix's result begins at column `at`.
    #[must_use]
    pub(in crate::model) fn into_columns(mut self, at: usize, stride: usize) -> Self {
        (self.output.1, self.output.2) = (stride, at);
        self
    }

    /// Adds a bias before anything else.
    #[must_use]
    pub(in crate::model) fn with_bias(mut self, bias: Option<&'a [f32]>) -> Self {
        self.bias = bias;
        self
    }

    /// Applies SiLU.
    #[must_use]
    pub(in crate::model) fn with_silu(mut self) -> Self {
        self.flags |= WITH_SILU;
        self
    }

    /// Multiplies by `factor` and adds to what the output holds.
    #[must_use]
    pub(in crate::model) fn adding(mut self, factor: f32) -> Self {
        (self.flags, self.factor) = (self.flags | ADD_TO_OUTPUT, factor);
        self
    }

    /// The steps, with the buffers that they need in addition to those given.
    ///
    /// # Errors
    /// [`GpuError`] if the device is full or lost.
    pub(in crate::model) fn steps(
        &self,
        gpu: &Gpu,
        kept: &mut Vec<GpuBuffer>,
    ) -> Result<Vec<ShaderStep>, GpuError> {
        let encoding = Encoding::of(self.matrix.format);
        let (input, in_stride, in_at) = self.input;
        let (output, out_stride, out_at) = self.output;
        let mut steps = Vec::new();
        for part in &self.matrix.parts {
            let bias = self.bias.map(|bias| &bias[part.first..part.first + part.rows]);
            let flags = self.flags | if bias.is_some() { WITH_BIAS } else { 0 };
            let bias = gpu.filled(bias.unwrap_or(&[]))?;
            let words = [
                self.matrix.inputs as u32,
                part.rows as u32,
                in_stride as u32,
                in_at as u32,
                out_stride as u32,
                (out_at + part.first) as u32,
                self.factor.to_bits(),
                encoding.group_shift(),
            ];
            steps.push(ShaderStep::new(
                gpu,
                Shader::Product(encoding.layout),
                &[&part.place.codes, &part.place.scales, input, &bias, output],
                flags,
                &words,
                Workgroups::ForEight((part.rows as u32).div_ceil(OUTPUTS)),
            ));
            kept.push(bias);
        }
        Ok(steps)
    }
}
