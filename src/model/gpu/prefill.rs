//! Runs slices of a prompt through all blocks of a target whose weights, keys and values are in
//! main memory. Block by block, the weights are sent to the device, alternating between two stages,
//! with the keys and values of the earlier positions; the keys and values of the slice come back.
//! No part of a text stays on the device. It must not depend on whose text it is.

use std::sync::Arc;

use super::block::GpuBlocks;
use super::device::{Gpu, Reading, bytes_of, floats_of};
use super::error::GpuError;
use super::layers::stream_blocks;
use super::places::PassRows;
use super::step::PassRecorder;
use crate::kernels::TreeMask;
use crate::model::cpu::LayerRows;
use crate::model::taps::Taps;
use crate::model::{LoadError, LoadRequest, Progress, TrafficMeter};

/// All blocks of a target, streamed to a device.
pub(in crate::model) struct GpuPrefill {
    blocks: GpuBlocks,
}

/// A block that is being computed.
struct SliceInFlight {
    block: usize,
    reading: Reading,
}

impl GpuPrefill {
    /// Encodes the weights of all blocks, which stay in main memory.
    ///
    /// # Errors
    /// [`LoadError::Device`] if the device has no room or no kernels for such blocks;
    /// [`LoadError::Weights`].
    pub(in crate::model) fn load(
        gpu: &Arc<Gpu>,
        request: &LoadRequest<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, LoadError> {
        Ok(Self { blocks: stream_blocks(gpu, 1, request, progress)? })
    }

    /// The most rows in a slice.
    pub(in crate::model) fn rows(&self) -> usize {
        self.blocks.rows()
    }

    /// Bytes on the device.
    pub(in crate::model) fn bytes(&self) -> u64 {
        self.blocks.bytes()
    }

    /// Bytes of weights in main memory, which every slice sends to the device.
    pub(in crate::model) fn host_bytes(&self) -> u64 {
        self.blocks.host_bytes()
    }

    /// The device.
    pub(in crate::model) fn gpu(&self) -> &Arc<Gpu> {
        self.blocks.gpu()
    }

    /// The device's counters.
    pub(in crate::model) fn traffic(&self) -> TrafficMeter {
        self.blocks.gpu().traffic_meter()
    }

    /// Runs the embedded rows `[rows, H]`, at most [`Self::rows`], which follow `begin` positions,
    /// through all blocks in place. `taps` get the states that enter blocks.
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost, full or hangs.
    pub(in crate::model) fn pass(
        &mut self,
        stream: &mut [f32],
        begin: usize,
        kept: &mut LayerRows<'_>,
        taps: &mut Taps<'_>,
    ) -> Result<(), GpuError> {
        let gpu = Arc::clone(self.blocks.gpu());
        let rows = stream.len() / self.blocks.hidden();
        let positions = (begin..begin + rows).collect::<Vec<_>>();
        let mask = TreeMask::causal(rows);
        taps.take(0, stream);
        gpu.write(self.blocks.stream(), 0, &bytes_of(stream));
        self.blocks.place_at(begin);
        let mut recorder = PassRecorder::new(&gpu);
        let slice = PassRows { positions: &positions, mask: &mask, first: 0 };
        let at = self.blocks.begin(slice, &mut recorder)?;
        let count = self.blocks.count();
        let mut before = None;
        for block in 0..count {
            let earlier = kept.before(block, begin);
            let is_read = block + 1 == count || taps.want(block + 1);
            let floats = if is_read { stream.len() } else { 0 };
            let reading = self.blocks.run_to_read(block, recorder, at, &earlier, floats)?;
            recorder = PassRecorder::new(&gpu);
            // While this block is computed, the results of the previous block are stored.
            if let Some(done) = before.replace(SliceInFlight { block, reading }) {
                self.keep(done, stream, rows, kept, taps)?;
            }
        }
        before.map_or(Ok(()), |done| self.keep(done, stream, rows, kept, taps))
    }

    /// Stores a block's keys and values, and the stream after it if that was requested.
    fn keep(
        &self,
        done: SliceInFlight,
        stream: &mut [f32],
        rows: usize,
        kept: &mut LayerRows<'_>,
        taps: &mut Taps<'_>,
    ) -> Result<(), GpuError> {
        let SliceInFlight { block, reading } = done;
        let read = self.blocks.gpu().read(reading)?;
        let (slots, rest) = read.split_at(rows * self.blocks.slot_bytes());
        let numbers = self.blocks.cached_numbers(slots);
        let width = numbers.len() / rows / 2;
        let part = |from: usize| -> Vec<f32> {
            let slots = numbers.chunks_exact(2 * width);
            slots.flat_map(|slot| &slot[from..from + width]).copied().collect()
        };
        kept.keep(block, &part(0), &part(width));
        if rest.is_empty() {
            return Ok(());
        }
        let behind = floats_of(rest);
        if block + 1 == self.blocks.count() {
            stream.copy_from_slice(&behind);
        } else {
            taps.take(block + 1, &behind);
        }
        Ok(())
    }
}
