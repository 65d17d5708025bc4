//! Runs slices of a prompt through all blocks of a target whose weights, keys and values are in
//! main memory. Block by block, the weights are sent to the device, alternating between two stages,
//! with the keys and values of the earlier positions; the keys and values of the slice come back.
//! No part of a text stays on the device. It must not depend on whose text it is.

use std::sync::Arc;

use super::block::GpuBlocks;
use super::device::{Reading, bytes_of, floats_of};
use super::error::GpuError;
use super::places::PassRows;
use super::step::PassRecorder;
use crate::kernels::{KvCache, Pool, TreeMask};
use crate::model::taps::Taps;

/// A block that is being computed.
struct SliceInFlight {
    block: usize,
    reading: Reading,
}

impl GpuBlocks {
    /// Runs the embedded rows `[rows, H]` of a prompt, at most [`Self::rows`], through all blocks
    /// in place. They follow the committed positions of `kept`, where their keys and values are
    /// left. `taps` get the states that enter blocks.
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost, full or hangs.
    pub(in crate::model) fn prefill(
        &mut self,
        stream: &mut [f32],
        kept: &mut KvCache,
        pool: &Pool,
        taps: &mut Taps<'_>,
    ) -> Result<(), GpuError> {
        let gpu = Arc::clone(&self.gpu);
        let begin = kept.len();
        let rows = stream.len() / self.config.hidden;
        let mask = TreeMask::causal(rows);
        taps.take(0, 0, stream);
        gpu.write(&self.buffers.stream, 0, &bytes_of(stream));
        self.cache.place_at(begin);
        let mut recorder = PassRecorder::new(&gpu);
        let at = self.begin(PassRows::all(&mask), &mut recorder)?;
        let count = self.count();
        let mut before = None;
        for block in 0..count {
            let earlier = kept.slots(block, 0..begin);
            let is_read = block + 1 == count || taps.want(block + 1);
            let floats = if is_read { stream.len() } else { 0 };
            let reading = self.run_to_read(block, recorder, at, &earlier, floats)?;
            recorder = PassRecorder::new(&gpu);
            // While this block is computed, the results of the previous block are stored.
            if let Some(done) = before.replace(SliceInFlight { block, reading }) {
                self.store(done, stream, kept, pool, taps)?;
            }
        }
        before.map_or(Ok(()), |done| self.store(done, stream, kept, pool, taps))
    }

    /// Stores a block's keys and values, and the stream after it if that was requested.
    fn store(
        &self,
        done: SliceInFlight,
        stream: &mut [f32],
        kept: &mut KvCache,
        pool: &Pool,
        taps: &mut Taps<'_>,
    ) -> Result<(), GpuError> {
        let SliceInFlight { block, reading } = done;
        let rows = stream.len() / self.config.hidden;
        let read = self.gpu.read(reading)?;
        let (slots, rest) = read.split_at(rows * self.cache.slot_bytes());
        let numbers = self.cache.format.numbers(slots);
        let width = numbers.len() / rows / 2;
        let part = |from: usize| -> Vec<f32> {
            let slots = numbers.chunks_exact(2 * width);
            slots.flat_map(|slot| &slot[from..from + width]).copied().collect()
        };
        kept.write(pool, block, &part(0), &part(width));
        if rest.is_empty() {
            return Ok(());
        }
        let behind = floats_of(rest);
        if block + 1 == self.count() {
            stream.copy_from_slice(&behind);
        } else {
            taps.take(block + 1, 0, &behind);
        }
        Ok(())
    }
}
