//! What drafters are loaded with of the target they draft for: enough to load others for it later,
//! while it is in use. Must never know a drafter.

use std::sync::Arc;

use super::context::LoadContext;
use super::sizes;
use super::target::LoadedTarget;
use crate::kernels::Pool;
use crate::model::head::SharedTables;
use crate::plan::{Measured, TargetSize};

/// A loaded target as its drafters see it. Cheap to clone: the matrices are shared.
#[derive(Clone)]
pub struct SharedTarget {
    /// The target as flags name it; `None` is the bundled one.
    pub(super) name: Option<String>,
    /// Its compute threads, which drafters borrow.
    pub(super) pool: Arc<Pool>,
    /// Embedding and LM head.
    pub(super) tables: SharedTables,
    /// Whether its LM head is its embedding.
    pub(super) tied_head: bool,
    /// As the cost model sees it.
    pub(super) size: TargetSize,
    /// Its measured times; nothing before they are measured.
    pub(super) measured: Measured,
    /// What a strategy lacks that needs blocks of it on a GPU.
    pub(super) missing_gpu_layers: Option<String>,
    /// What a strategy lacks that needs its blocks streamed to a GPU.
    pub(super) missing_streaming: Option<String>,
    /// Where it runs, if that is worth a sentence.
    pub(super) reason: Option<String>,
    /// Blocks of it on a GPU.
    pub(super) gpu_layers: usize,
    /// Whether where it runs was left to the plan.
    pub(super) left_open: bool,
    /// Bytes on the GPU.
    pub(super) device_bytes: u64,
    /// Whether nothing of it is left for the CPU to compute.
    pub(super) is_on_gpu: bool,
    /// The GPU that reads its long prompts, where that is all it does for it.
    pub(super) prompts_on: Option<String>,
}

impl SharedTarget {
    /// Of `target`, not measured yet.
    pub(super) fn of(ctx: &LoadContext<'_>, target: &LoadedTarget) -> Self {
        Self {
            name: ctx.settings.target.clone(),
            pool: Arc::clone(&ctx.pool),
            tables: SharedTables::of(target.cpu()),
            tied_head: target.cpu().config().tied_head,
            size: sizes::of_target(&ctx.files.target, target.cpu()),
            measured: Measured::default(),
            missing_gpu_layers: target.missing_gpu_layers(),
            missing_streaming: target.missing_streaming(),
            reason: target.reason(),
            gpu_layers: target.gpu_layers(),
            left_open: ctx.settings.leaves_placement_open(),
            device_bytes: target.device_bytes(),
            is_on_gpu: target.is_on_gpu(),
            prompts_on: target.prompts_on().map(str::to_owned),
        }
    }

    /// Whether both are one target, loaded once.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pool, &other.pool)
    }

    /// Whether it is the target that flags name so.
    pub fn is(&self, name: Option<&str>) -> bool {
        let bundled = |name: Option<&str>| name.is_none_or(|name| name == "bundled");
        self.name.as_deref() == name || (bundled(self.name.as_deref()) && bundled(name))
    }
}
