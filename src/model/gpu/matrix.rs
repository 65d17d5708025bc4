//! Weight matrices in the form that the shaders read, on the device or in main memory, in several
//! parts if one binding cannot hold a matrix. It must not depend on what the weights mean.

use std::ops::Range;
use std::sync::Arc;

use super::buffer::GpuBuffer;
use super::device::Gpu;
use super::encode::{Encoding, encode};
use super::error::GpuError;
use super::maker::OUTPUTS;
use crate::kernels::{Format, Pool};

/// How many bytes of a file are encoded at a time.
const AT_ONCE: usize = 4 << 20;
/// How many columns a lane reads at a time.
const COLUMNS: usize = 8;

/// Encoded weights `[outputs, inputs]`; `P` says where their codes and scales are.
#[derive(Clone)]
pub(in crate::model) struct EncodedMatrix<P> {
    /// The format that it was made from.
    pub(in crate::model) format: Format,
    /// Rows: how many numbers a product returns.
    pub(in crate::model) outputs: usize,
    /// Columns.
    pub(in crate::model) inputs: usize,
    pub(super) parts: Vec<MatrixPart<P>>,
}

/// Weights on a device.
pub(in crate::model) type GpuMatrix = EncodedMatrix<MatrixPlace>;
/// Weights in main memory, as they are sent to a device.
pub(super) type HostMatrix = EncodedMatrix<HostCodes>;

/// Appends a run of a matrix's rows as a file in its format stores them.
pub(in crate::model) type Fill<'a> = &'a mut dyn FnMut(Range<usize>, &mut Vec<u8>);

/// Some rows of a matrix.
#[derive(Clone)]
pub(in crate::model) struct MatrixPart<P> {
    pub(super) first: usize,
    pub(super) rows: usize,
    pub(super) place: P,
}

/// Where the codes and scales of a part are stored.
pub(in crate::model) trait CodePlace: Sized {
    /// Room for so many bytes of codes and of scales.
    ///
    /// # Errors
    /// [`GpuError`] if the device is full or lost.
    fn new(gpu: &Gpu, codes: usize, scales: usize) -> Result<Self, GpuError>;
    /// Stores the codes and scales of rows after the first `row`.
    fn put(&mut self, gpu: &Gpu, row: usize, codes: &[u8], scales: &[u8], rows: usize);
    fn bytes(&self) -> u64;
}

/// Buffers on a device. Several matrices may use them in turn.
#[derive(Clone)]
pub(in crate::model) struct MatrixPlace {
    pub(super) codes: Arc<GpuBuffer>,
    pub(super) scales: Arc<GpuBuffer>,
}

impl CodePlace for MatrixPlace {
    fn new(gpu: &Gpu, codes: usize, scales: usize) -> Result<Self, GpuError> {
        let buffer = |bytes: usize| Ok(Arc::new(gpu.buffer(bytes as u64)?));
        Ok(Self { codes: buffer(codes)?, scales: buffer(scales)? })
    }

    fn put(&mut self, gpu: &Gpu, row: usize, codes: &[u8], scales: &[u8], rows: usize) {
        let at = |bytes: usize| (row * (bytes / rows)) as u64;
        gpu.write_weights(&self.codes, at(codes.len()), codes);
        gpu.write_weights(&self.scales, at(scales.len()), scales);
    }

    fn bytes(&self) -> u64 {
        self.codes.bytes() + self.scales.bytes()
    }
}

/// Codes and scales in main memory.
pub(super) struct HostCodes {
    pub(super) codes: Vec<u8>,
    pub(super) scales: Vec<u8>,
}

impl CodePlace for HostCodes {
    fn new(_: &Gpu, codes: usize, scales: usize) -> Result<Self, GpuError> {
        Ok(Self { codes: Vec::with_capacity(codes), scales: Vec::with_capacity(scales) })
    }

    fn put(&mut self, _: &Gpu, _: usize, codes: &[u8], scales: &[u8], _: usize) {
        self.codes.extend_from_slice(codes);
        self.scales.extend_from_slice(scales);
    }

    fn bytes(&self) -> u64 {
        (self.codes.len() + self.scales.len()) as u64
    }
}

impl<P: CodePlace> EncodedMatrix<P> {
    /// Encodes a matrix run by run, in parts that fit in a binding of the device.
    ///
    /// # Errors
    /// [`GpuError`].
    pub(in crate::model) fn encode(
        gpu: &Gpu,
        format: Format,
        [outputs, inputs]: [usize; 2],
        pool: &Pool,
        fill: Fill<'_>,
    ) -> Result<Self, GpuError> {
        if !inputs.is_multiple_of(COLUMNS) {
            let told =
                format!("the GPU kernels need rows of a multiple of 8 weights, not {inputs}");
            return Err(GpuError(told));
        }
        let encoding = Encoding::of(format);
        let code = encoding.code_bytes(inputs);
        let scale = encoding.scale_bytes(inputs);
        let by_binding = (gpu.limits.binding as usize / code.max(scale).max(1)).max(1);
        let most = by_binding.min((gpu.most_groups * OUTPUTS) as usize);
        let run = (AT_ONCE / code.max(1)).max(1);
        let mut file = Vec::new();
        let mut parts = Vec::new();
        for first in (0..outputs).step_by(most) {
            let rows = most.min(outputs - first);
            let mut place = P::new(gpu, rows * code, rows * scale)?;
            for at in (0..rows).step_by(run) {
                let count = run.min(rows - at);
                file.clear();
                fill(first + at..first + at + count, &mut file);
                let (codes, scales) = encode(format, [count, inputs], &file, pool)
                    .map_err(|error| GpuError(error.to_string()))?;
                place.put(gpu, at, &codes, &scales, count);
            }
            parts.push(MatrixPart { first, rows, place });
        }
        gpu.check()?;
        Ok(Self { format, outputs, inputs, parts })
    }

    /// Bytes held.
    pub(in crate::model) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.place.bytes()).sum()
    }
}

impl HostMatrix {
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
}
