//! Where target and drafts should run, as computed before they are loaded. It must not depend on
//! how.

use std::sync::Arc;

use super::reason::LoadReason;
use crate::model::Gpu;
use crate::plan::{DrafterId, PlacementForecast, PrefillForecast, Reason};

/// The placement to load.
pub(super) struct Advice {
    /// The placement to use, among those that the settings allow.
    pub(super) best: PlacementForecast,
    /// Every placement that was evaluated; none if this one was requested.
    pub(super) rows: Vec<PlacementForecast>,
    /// How many bytes its draft takes on the GPU, if it goes there.
    pub(super) draft_bytes: u64,
    /// What to expect of prompts on either device, if the target stays on the CPU.
    pub(super) prefill: Option<PrefillForecast>,
    pub(super) reasons: Vec<LoadReason>,
    /// Kept open from the measurement to the load.
    pub(super) _gpu: Option<Arc<Gpu>>,
}

/// The head to load.
#[derive(Default)]
pub(super) struct ChosenHead {
    /// Which of the files' heads, if they have any.
    pub(super) index: usize,
    /// Why, where there was a choice.
    pub(super) reason: Option<Reason>,
}

impl Advice {
    /// Whether a draft of this kind should be on the GPU.
    pub(super) fn puts_on_gpu(&self, kind: DrafterId) -> bool {
        self.best.draft == kind && self.best.draft_on_gpu
    }
}
