//! What may stand in front of the CPU's blocks: the first blocks of the same model on another
//! device, or nothing. Must never know a backend.

use crate::kernels::TreeMask;
use crate::model::taps::Taps;
use crate::model::{TargetError, TrafficMeter};

/// The first blocks of a target, with their own KV cache behind the same committed positions.
pub(in crate::model) trait Lower: Send {
    /// Runs the embedded rows `[rows, H]` through the blocks in place; row i stands at
    /// `positions[i]` and sees the committed positions and `mask.visible(i)`. Gives `taps` the
    /// states that enter its blocks. Commits nothing.
    fn pass(
        &mut self,
        stream: &mut [f32],
        positions: &[usize],
        mask: &TreeMask,
        taps: &mut Taps<'_>,
    ) -> Result<(), TargetError>;
    /// Keeps these rows of the last pass (ascending) as the next committed positions.
    fn commit(&mut self, path: &[usize]);
    /// Forgets every position from `len` on.
    fn truncate(&mut self, len: usize);
    /// Bytes of weights and caches on its device.
    fn bytes(&self) -> u64;
    /// The counters of the GPU that it runs on by our own shaders; `None` without one.
    fn traffic(&self) -> Option<TrafficMeter> {
        None
    }
}

/// No block: the stream is the embedding.
pub(in crate::model) struct Nothing;

impl Lower for Nothing {
    fn pass(
        &mut self,
        _: &mut [f32],
        _: &[usize],
        _: &TreeMask,
        _: &mut Taps<'_>,
    ) -> Result<(), TargetError> {
        Ok(())
    }

    fn commit(&mut self, _: &[usize]) {}

    fn truncate(&mut self, _: usize) {}

    fn bytes(&self) -> u64 {
        0
    }
}
