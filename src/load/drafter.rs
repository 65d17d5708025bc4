//! A loaded drafter with what the planner and the screen need to know about it. It must not depend
//! on how it was loaded.

use super::reason::{LoadReason, Notice};
use crate::draft::Drafter;
use crate::plan::{DraftSize, DrafterId, Reason};

/// A drafter on its device.
pub(super) struct LoadedDrafter {
    pub(super) kind: DrafterId,
    pub(super) drafter: Box<dyn Drafter>,
    /// Whether `drafter` uses a GPU's own memory.
    pub(super) on_gpu: bool,
    pub(super) size: DraftSize,
    /// Trained weights outside of the blocks, without those that belong to the target.
    pub(super) own_weights: u64,
    /// Why the most are fewer than the head has.
    pub(super) limit: Option<Reason>,
    /// Where it runs and why, with its threads while it works at the same time as the target. They
    /// apply to every budget.
    pub(super) reasons: Vec<LoadReason>,
    /// Set if the user requested something else.
    pub(super) notice: Option<Notice>,
}

impl LoadedDrafter {
    /// Trained weights with 1, 2, … blocks; a single number if there are none to choose from.
    pub(super) fn parameters(&self) -> Vec<u64> {
        let most = self.size.blocks.max(1) as u64;
        let with = |blocks| self.own_weights + blocks * self.size.block;
        if self.kind.is_model() { (1..=most).map(with).collect() } else { Vec::new() }
    }

    /// Bytes on the GPU.
    pub(super) fn device_bytes(&self) -> u64 {
        if self.on_gpu { self.drafter.device_bytes() } else { 0 }
    }
}
