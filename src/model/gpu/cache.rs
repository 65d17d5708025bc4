//! The KV cache of some blocks on the device: committed positions, then rows in flight. It must not
//! depend on whose blocks they are.

use super::buffer::GpuBuffer;
use super::device::{Gpu, bytes_of_words};
use super::error::GpuError;
use super::kernels::Shader;
use super::step::{At, PassRecorder, ShaderStep, Workgroups};
use crate::kernels::KvFormat;
use crate::model::Config;

/// Threads of a workgroup.
const THREADS: usize = 64;

/// Keys and values of some blocks.
pub(in crate::model) struct Cache {
    pub(super) format: KvFormat,
    /// Slots for committed positions and rows in flight.
    pub(in crate::model) slots: usize,
    /// Pairs of numbers in a slot: keys, then values.
    pairs: usize,
    blocks: Vec<GpuBuffer>,
    /// The rows of the last pass to keep.
    path: GpuBuffer,
    keep: Vec<ShaderStep>,
    /// Committed positions.
    pub(in crate::model) len: usize,
    /// The rows kept since the last pass, which must be moved before the next.
    moves: Vec<u32>,
    /// How many positions were committed before these.
    moved_from: usize,
}

impl Cache {
    /// Room for `slots` positions and rows in flight of `blocks` blocks, in the format that a
    /// device has for `format`.
    pub(super) fn new(
        gpu: &Gpu,
        config: &Config,
        blocks: usize,
        slots: usize,
        format: KvFormat,
    ) -> Result<Self, GpuError> {
        let mut cache = Self {
            format: format.on_device(),
            slots,
            pairs: config.kv_width(),
            blocks: Vec::with_capacity(blocks),
            path: gpu.buffer(4 * slots as u64)?,
            keep: Vec::with_capacity(blocks),
            len: 0,
            moves: Vec::new(),
            moved_from: 0,
        };
        for _ in 0..blocks {
            cache.add(gpu)?;
        }
        Ok(cache)
    }

    /// Room for another block.
    pub(super) fn add(&mut self, gpu: &Gpu) -> Result<(), GpuError> {
        let format = self.format;
        let pairs = self.pairs;
        let block = gpu.buffer((self.slots * self.slot_bytes()) as u64)?;
        let grid = Workgroups::Fixed(pairs.div_ceil(THREADS) as u32);
        let buffers = [&self.path, &block];
        self.keep.push(ShaderStep::new(
            gpu,
            Shader::Keep(format),
            &buffers,
            0,
            &[pairs as u32],
            grid,
        ));
        self.blocks.push(block);
        Ok(())
    }

    /// Releases the room of all blocks except the first `count`.
    pub(super) fn keep_first(&mut self, count: usize) {
        self.keep.truncate(count);
        self.blocks.truncate(count);
    }

    /// Where a block's keys and values are. If there is room for only one block, all blocks take
    /// turns.
    pub(super) fn block(&self, block: usize) -> &GpuBuffer {
        &self.blocks[block % self.blocks.len()]
    }

    pub(super) fn bytes(&self) -> u64 {
        self.blocks.iter().map(GpuBuffer::bytes).sum::<u64>() + self.path.bytes()
    }

    /// Marks the first `len` slots as committed positions: the rows of a causal pass are written
    /// where they belong.
    pub(in crate::model) fn place_at(&mut self, len: usize) {
        self.moves.clear();
        self.len = len;
    }

    /// Keeps rows of the last pass, ascending, as the next committed positions.
    pub(in crate::model) fn commit(&mut self, path: &[usize]) {
        let base = if self.moves.is_empty() { self.len } else { self.moved_from };
        let kept = (base..self.len).chain(path.iter().map(|row| self.len + row));
        let kept: Vec<usize> = kept.map(|slot| self.lies_at(slot)).collect();
        // A row that is already in its place needs no move; the numbers count from after those
        // rows.
        let stay = (base..).zip(&kept).take_while(|&(slot, &from)| slot == from).count();
        self.moved_from = base + stay;
        self.moves = kept[stay..].iter().map(|from| (from - self.moved_from) as u32).collect();
        self.len += path.len();
    }

    /// Marks what was committed from `len` on as in flight again.
    pub(in crate::model) fn leave_in_flight(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Where a slot's numbers are until the remaining moves have been made.
    fn lies_at(&self, slot: usize) -> usize {
        let moved = slot.checked_sub(self.moved_from).and_then(|i| self.moves.get(i));
        moved.map_or(slot, |&from| self.moved_from + from as usize)
    }

    /// Forgets every position from `len` on.
    pub(in crate::model) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        let left = self.len.saturating_sub(self.moved_from);
        self.moves.truncate(left);
    }

    /// Records the moves that the last commit left to do. Afterwards rows are where a pass looks
    /// for them.
    pub(super) fn settle(&mut self, gpu: &Gpu, recorder: &mut PassRecorder<'_>) {
        if self.moves.is_empty() {
            return;
        }
        let moves = std::mem::take(&mut self.moves);
        gpu.write(&self.path, 0, &bytes_of_words(&moves));
        let at = At { rows: moves.len() as u32, base: 0, stable: self.moved_from as u32 };
        recorder.run_all(&self.keep, at);
    }

    /// Bytes of a position's keys and values in one block.
    pub(super) fn slot_bytes(&self) -> usize {
        2 * self.pairs * self.format.size()
    }
}
