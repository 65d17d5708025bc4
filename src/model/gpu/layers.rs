//! A model's blocks on the device, from the checkpoint's tensors, and the first of them run before
//! the CPU's (method.md, Split target). It must not depend on what runs the other blocks.

use std::ops::Range;
use std::sync::Arc;

use super::block::{BlockShape, GpuBlocks};
use super::buffer::GpuBuffer;
use super::device::{Gpu, bytes_of, floats_of};
use super::error::GpuError;
use super::matrix::{CodePlace, EncodedMatrix, HostCodes, MatrixPlace};
use super::places::PassRows;
use super::step::PassRecorder;
use super::streamed::StreamedWeights;
use crate::kernels::{Pool, TreeMask};
use crate::model::cpu::packer::{Packer, Unpacked};
use crate::model::lower::Lower;
use crate::model::taps::Taps;
use crate::model::weights::WeightSource;
use crate::model::{Config, LoadError, LoadRequest, Progress, TargetError};

/// The number of rows in a pass that computes logits, which are by far its widest rows.
pub(super) const ROWS: usize = 64;
/// The same if every pass sends all weights: the largest tree of any strategy takes one pass.
pub(super) const STREAMED_ROWS: usize = 128;
/// How many copies of the residual stream's rows a pass may need room for in addition to its
/// buffers, to be read back or kept on the way.
const PASS_ROWS: u64 = 8;
/// How many rows a submission has when it computes no logits: a slice of a prompt.
const SLICE: usize = 256;
/// The same if every submission needs all weights to be sent.
pub(in crate::model) const STREAMED_SLICE: usize = 512;

impl From<GpuError> for LoadError {
    fn from(error: GpuError) -> Self {
        Self::Device(error.to_string())
    }
}

impl From<GpuError> for TargetError {
    fn from(error: GpuError) -> Self {
        Self::Device(error.to_string())
    }
}

/// Puts as many of the first `layers` blocks on `gpu` as fit with `spare` bytes left, and says why
/// not all of them fit.
///
/// # Errors
/// [`LoadError::Device`] if none fits, or the device has no kernels for such blocks;
/// [`LoadError::Weights`].
pub(in crate::model) fn load_fitting(
    gpu: &Arc<Gpu>,
    layers: usize,
    spare: u64,
    request: &LoadRequest<'_>,
) -> Result<(GpuBlocks, Option<LoadError>), LoadError> {
    let config = request.config;
    if layers >= config.layers {
        // The last block stays on the CPU, with the norm and the LM head.
        let most = config.layers.saturating_sub(1);
        let all = config.layers;
        let reason = format!("at most {most} of its {all} blocks can run outside the CPU");
        return Err(LoadError::Device(reason));
    }
    let (mut blocks, refused) = fill_blocks(gpu, layers, request, 0)?;
    let pass = PASS_ROWS * 4 * (blocks.rows * config.hidden) as u64;
    let Some(error) = refused.or_else(|| gpu.check_room(pass).err().map(LoadError::from)) else {
        return Ok((blocks, None));
    };
    while blocks.count() > 0 && gpu.check_room(spare.saturating_add(pass)).is_err() {
        blocks.keep_first(blocks.count() - 1);
    }
    match blocks.count() {
        0 => Err(error),
        _ => Ok((blocks, Some(error))),
    }
}

/// A target's first blocks, run before the CPU's.
impl Lower for GpuBlocks {
    fn pass(
        &mut self,
        stream: &mut [f32],
        mask: &TreeMask,
        taps: &mut Taps<'_>,
    ) -> Result<(), TargetError> {
        let hidden = self.config.hidden;
        let mut tapped = Tapped::below(self.count(), taps);
        let gpu = Arc::clone(&self.gpu);
        let most = self.rows;
        for (slice, rows) in stream.chunks_mut(most * hidden).enumerate() {
            let first = slice * most;
            let count = rows.len() / hidden;
            gpu.write(&self.buffers.stream, 0, &bytes_of(rows));
            let mut recorder = PassRecorder::new(&gpu);
            tapped.record(self, PassRows { mask, first, count }, &mut recorder)?;
            let own = (&self.buffers.stream, 0, rows.len());
            let read = floats_of(&tapped.submit_and_read(recorder, &[own], rows.len())?);
            rows.copy_from_slice(&read[..rows.len()]);
            tapped.keep(&read[rows.len()..], rows.len(), first, taps);
        }
        Ok(())
    }

    fn commit(&mut self, path: &[usize]) {
        self.cache.commit(path);
    }

    fn truncate(&mut self, len: usize) {
        self.cache.truncate(len);
    }
}

/// How many rows a submission has: at most `most`, fewer if the widest rows would not fit in a
/// binding.
fn rows_of(gpu: &Gpu, config: &Config, most: usize) -> usize {
    let widest = (2 * config.intermediate).max(config.q_width() + 2 * config.kv_width());
    let fit = gpu.limits.binding as usize / (4 * widest.max(config.hidden));
    (fit / ROWS * ROWS).clamp(ROWS, most)
}

/// The first `count` blocks of a model, with `in_flight` cache slots after the request's positions.
pub(in crate::model) fn load_blocks(
    gpu: &Arc<Gpu>,
    count: usize,
    request: &LoadRequest<'_>,
    in_flight: usize,
) -> Result<GpuBlocks, LoadError> {
    let (blocks, refused) = fill_blocks(gpu, count, request, in_flight)?;
    refused.map_or(Ok(blocks), Err)
}

/// Loads as many of these blocks as fit on the device, and says why not all of them fit. The loaded
/// blocks can be used.
fn fill_blocks(
    gpu: &Arc<Gpu>,
    count: usize,
    request: &LoadRequest<'_>,
    in_flight: usize,
) -> Result<(GpuBlocks, Option<LoadError>), LoadError> {
    let &LoadRequest { config, source, ref pool, capacity, kv, progress } = request;
    let slots = capacity.saturating_add(in_flight);
    let shape = BlockShape { rows: rows_of(gpu, config, SLICE), capacity, slots, kv };
    let mut blocks = GpuBlocks::new(gpu, config, 0, shape)?;
    let mut packer = encoder::<MatrixPlace>(gpu, source, pool);
    let mut put = |blocks: &mut GpuBlocks, index| -> Result<(), LoadError> {
        blocks.cache.add(gpu)?;
        let layer = packer.layer(config, index)?;
        let matrices = layer.matrices().into_iter().cloned().collect();
        Ok(blocks.push(&layer, matrices, None)?)
    };
    for index in 0..count {
        match put(&mut blocks, index) {
            Ok(()) => progress(Progress { done: index + 1, total: count }),
            Err(error @ LoadError::Device(_)) if gpu.check().is_ok() => {
                blocks.keep_first(index);
                return Ok((blocks, Some(error)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((blocks, None))
}

/// All blocks of a model, with their weights in main memory. The device holds the keys and values
/// of `kept` blocks: all blocks, or only the one being computed.
pub(in crate::model) fn stream_blocks(
    gpu: &Arc<Gpu>,
    kept: usize,
    request: &LoadRequest<'_>,
) -> Result<GpuBlocks, LoadError> {
    let &LoadRequest { config, source, ref pool, capacity, kv, progress } = request;
    let rows = rows_of(gpu, config, STREAMED_SLICE);
    let shape = BlockShape { rows, capacity, slots: capacity, kv };
    let mut blocks = GpuBlocks::new(gpu, config, kept, shape)?;
    let all = encoder::<HostCodes>(gpu, source, pool).layers(config, 0..config.layers, progress)?;
    blocks.push_streamed(StreamedWeights::new(gpu, all)?)?;
    Ok(blocks)
}

/// Encodes matrix after matrix for a device, there or in main memory.
pub(in crate::model) fn encoder<'a, P: CodePlace>(
    gpu: &'a Gpu,
    source: &'a dyn WeightSource,
    pool: &'a Pool,
) -> Packer<'a, EncodedMatrix<P>> {
    let make = move |unpacked: &Unpacked<'_>| {
        if source.scale(unpacked.name) != 1.0 {
            let told = "the GPU kernels do not support one scale per tensor (NVFP4)";
            return Err(unpacked.not_taken(told.to_owned()));
        }
        let mut fill = |rows: Range<usize>, file: &mut Vec<u8>| {
            for row in rows {
                file.extend_from_slice(unpacked.row(row));
            }
        };
        let format = unpacked.tensor.format;
        let matrix = EncodedMatrix::encode(gpu, format, unpacked.shape, pool, &mut fill)
            .map_err(|error| unpacked.not_taken(error.to_string()))?;
        let bytes = matrix.bytes();
        Ok((matrix, bytes))
    };
    Packer::making(source, Box::new(make))
}

/// States of the residual stream that are read on the way through some blocks.
pub(super) struct Tapped {
    states: Vec<usize>,
    /// Where they wait for the end of a pass.
    waiting: Vec<GpuBuffer>,
}

impl Tapped {
    /// The states that enter the first `blocks` blocks.
    pub(super) fn below(blocks: usize, taps: &Taps<'_>) -> Self {
        let states = (0..blocks).filter(|&state| taps.want(state)).collect();
        Self { states, waiting: Vec::new() }
    }

    /// Records a slice's work through all blocks.
    pub(super) fn record(
        &mut self,
        blocks: &mut GpuBlocks,
        rows: PassRows<'_>,
        recorder: &mut PassRecorder<'_>,
    ) -> Result<(), GpuError> {
        while self.waiting.len() < self.states.len() {
            self.waiting.push(blocks.gpu.buffer(blocks.buffers.stream.bytes())?);
        }
        let at = blocks.begin(rows, recorder)?;
        for block in 0..blocks.count() {
            if let Some(i) = self.states.iter().position(|&state| state == block) {
                let floats = rows.count * blocks.config.hidden;
                recorder.copy(&blocks.buffers.stream, 0, &self.waiting[i], 0, floats);
            }
            blocks.run(block, recorder, at)?;
        }
        Ok(())
    }

    /// Submits and reads these parts, then `floats` floats of each state.
    pub(super) fn submit_and_read(
        &self,
        recorder: PassRecorder<'_>,
        parts: &[(&GpuBuffer, usize, usize)],
        floats: usize,
    ) -> Result<Vec<u8>, GpuError> {
        let states = self.waiting.iter().map(|buffer| (buffer, 0, floats));
        let parts: Vec<_> = parts.iter().copied().chain(states).collect();
        recorder.submit_and_read(&parts)
    }

    /// Passes on what was read of each state of a slice, whose first row is `first`.
    pub(super) fn keep(&self, read: &[f32], floats: usize, first: usize, taps: &mut Taps<'_>) {
        for (&state, part) in self.states.iter().zip(read.chunks_exact(floats.max(1))) {
            taps.take(state, first, part);
        }
    }
}
