//! What drafters need of the target they draft for: enough to load others for it later, while it is
//! in use. It must not depend on a drafter.

use std::sync::Arc;

use super::context::LoadContext;
use super::reason::{LoadReason, Missing};
use super::sizes;
use super::target::LoadedTarget;
use crate::kernels::Pool;
use crate::model::head::SharedTables;
use crate::model::{PlacedTarget, TargetPlace};
use crate::plan::{BlocksOnGpu, Measured, TargetSize};

/// A loaded target from the point of view of its drafters. It is cheap to clone, because the
/// matrices are shared.
#[derive(Clone)]
pub struct SharedTarget {
    /// The target as flags name it; `None` means the bundled one.
    pub(super) name: Option<String>,
    /// Its compute threads, which drafters borrow.
    pub(super) pool: Arc<Pool>,
    /// Embedding and LM head; `None` if another engine holds them.
    pub(super) tables: Option<SharedTables>,
    /// Its size for the cost model.
    pub(super) size: TargetSize,
    /// Its measured times; empty before they are measured.
    pub(super) measured: Measured,
    /// What is missing for a strategy that needs blocks of it on a GPU.
    pub(super) missing_gpu_layers: Option<Missing>,
    /// What is missing for a strategy that needs its blocks streamed to a GPU.
    pub(super) missing_streaming: Option<Missing>,
    /// Where it runs, if that is worth a sentence.
    pub(super) reasons: Vec<LoadReason>,
    /// How many of its blocks are on a GPU.
    pub(super) gpu_layers: usize,
    /// Whether the plan decided where it runs.
    pub(super) left_open: bool,
    /// Bytes on the GPU.
    pub(super) device_bytes: u64,
    /// Where its parts are.
    pub(super) place: TargetPlace,
    /// The GPU that reads its long prompts, if that is all that it does for the target.
    pub(super) prompts_on: Option<String>,
}

impl SharedTarget {
    /// For `target`, without measured times.
    pub(super) fn of(ctx: &LoadContext<'_>, target: &LoadedTarget) -> Self {
        let own = target.target.own();
        let prefill = ctx.advice.as_ref().and_then(|advice| advice.prefill);
        let mut reasons = target.reasons(prefill);
        if matches!(
            target.target.place(),
            TargetPlace::Cpu | TargetPlace::Prompts | TargetPlace::Split
        ) {
            reasons.extend(ctx.files.repack_reason(&ctx.files.target));
        }
        let [missing_gpu_layers, missing_streaming] = target.missing(ctx);
        Self {
            name: ctx.settings.target.clone(),
            pool: Arc::clone(&ctx.pool),
            tables: own.map(|own| SharedTables::of(own.cpu())),
            size: match own {
                Some(own) => sizes::of_target(own.cpu()),
                None => sizes::of_target_files(&ctx.files.target),
            },
            measured: Measured::default(),
            missing_gpu_layers,
            missing_streaming,
            reasons,
            gpu_layers: own.map_or(0, PlacedTarget::gpu_layers),
            left_open: ctx.settings.leaves_placement_open(),
            device_bytes: own.map_or(0, PlacedTarget::device_bytes),
            place: target.target.place(),
            prompts_on: target.prompts_on().map(str::to_owned),
        }
    }

    /// Its blocks on a GPU.
    pub(super) fn blocks(&self) -> BlocksOnGpu {
        match self.place {
            TargetPlace::Streamed => BlocksOnGpu { held: 0, streamed: self.gpu_layers },
            _ => BlocksOnGpu { held: self.gpu_layers, streamed: 0 },
        }
    }

    /// Whether it shares no processor with a draft on the GPU, or on the CPU.
    pub(super) fn is_apart_from(&self, draft_on_gpu: bool) -> bool {
        match draft_on_gpu {
            true => self.place == TargetPlace::Cpu,
            false => matches!(self.place, TargetPlace::Gpu | TargetPlace::Streamed),
        }
    }

    /// Whether both are the same target, loaded once.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pool, &other.pool)
    }

    /// Whether it is the target with this name in flags.
    pub fn is(&self, name: Option<&str>) -> bool {
        let bundled = |name: Option<&str>| name.is_none_or(|name| name == "bundled");
        self.name.as_deref() == name || (bundled(self.name.as_deref()) && bundled(name))
    }
}
