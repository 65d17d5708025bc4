//! Loads the target: on the CPU, where a GPU may read long prompts for it, or with its first blocks
//! on a GPU. It must not depend on drafters.

use std::sync::Arc;

use super::context::{LoadContext, PackedFrom, WithPacked, percents};
use super::error::StartError;
use super::files::ModelFiles;
use super::place;
use super::reason::{LoadReason, Missing, Notice, PromptObstacle};
use super::sizes;
use crate::model::{
    CpuTarget, Gpu, LoadError, LoadRequest, PlacedTarget, Progress, Target, TargetFallback,
    TargetPlace, WeightSource,
};
use crate::plan::{DraftDevice, GpuRoom, LayerPlacement, PrefillForecast, Reason, gpu_room};
use crate::settings::PrefillDevice;

/// A target on its devices.
pub(super) struct LoadedTarget {
    target: PlacedTarget,
    /// What was planned for its first blocks.
    placed: LayerPlacement,
    /// Whether its blocks were to be streamed.
    streamed: bool,
    /// What the user requested and did not get.
    pub(super) notices: Vec<Notice>,
    /// Where its packed weights came from.
    pub(super) packed_from: PackedFrom,
}

/// Puts the first `layers` blocks on `gpu`, or the whole target if these are all. Blocks that do
/// not fit stay on the CPU, and the error says why.
fn put(
    ctx: &LoadContext<'_>,
    gpu: &Arc<Gpu>,
    layers: usize,
    progress: &mut dyn FnMut(Progress),
) -> Result<(PlacedTarget, Option<LoadError>), LoadError> {
    // Blocks that go to a GPU are not packed for the CPU, so the complete weights could not be
    // stored.
    let request = &ctx.request(ctx.files.target.weights.as_ref());
    if place::streams(ctx) {
        return Ok((PlacedTarget::streamed(gpu, request, progress)?, None));
    }
    let all = request.config.layers;
    let mut whole = None;
    if layers == all {
        match PlacedTarget::on_gpu(gpu, request, progress) {
            Ok(target) => return Ok((target, None)),
            Err(error @ LoadError::Device { .. }) if all > 1 => whole = Some(error),
            Err(error) => return Err(error),
        }
    }
    let most = layers.min(all - 1);
    let spare = ctx.draft_bytes().sum();
    let (target, refused) = PlacedTarget::split(gpu, most, spare, request, progress)?;
    Ok((target, refused.or(whole)))
}

impl LoadedTarget {
    pub(super) fn load(
        ctx: &LoadContext<'_>,
        progress: &mut dyn FnMut(&str, Option<f32>),
    ) -> Result<Self, StartError> {
        let placed = place::layers(ctx);
        if placed.layers == 0 {
            let refused = placed.requested.then(|| Notice::Reason(placed.reason.clone().into()));
            return Ok(Self::on_cpu(ctx, placed, refused, progress)?.with_prefill(ctx, progress));
        }
        match Self::on_gpu(ctx, &placed, progress)? {
            Ok(target) => Ok(target),
            Err(failed) => Self::on_cpu(ctx, placed, failed, progress),
        }
    }

    /// With the planned blocks on a GPU, or as many as fit there; the inner error says why there
    /// are none.
    fn on_gpu(
        ctx: &LoadContext<'_>,
        planned: &LayerPlacement,
        progress: &mut dyn FnMut(&str, Option<f32>),
    ) -> Result<Result<Self, Option<Notice>>, StartError> {
        let gpu = match (ctx.open_device)(planned.device, planned.room) {
            Ok(Some(gpu)) => gpu,
            Ok(None) => return Ok(Err(None)),
            Err(error) => return Ok(Err(Some(Notice::GpuFailed(error)))),
        };
        let files = &ctx.files.target;
        let mut percent = percents(&files.name, progress);
        let (target, refused) = match put(ctx, &gpu, planned.layers, &mut percent) {
            Ok(found) => found,
            Err(error @ LoadError::Device { .. }) => {
                return Ok(Err(Some(Notice::TargetFailed(error.to_string()))));
            }
            Err(error) => return Err(error.into()),
        };
        let (placed, notices) = match refused {
            None => (planned.clone(), Vec::new()),
            Some(error) => {
                let layers = target.gpu_layers();
                let gpu = gpu.name().to_owned();
                let placed = planned.cut_to(layers, files.config.layers, &gpu);
                let planned = planned.layers;
                let error = device_message(error);
                (placed, vec![Notice::TargetCut { layers, planned, gpu, error }])
            }
        };
        let streamed = place::streams(ctx);
        Ok(Ok(Self { target, placed, streamed, notices, packed_from: PackedFrom::Files }))
    }

    /// All of it on the CPU, from packed weights if there are some, with a notice of why it is not
    /// on a GPU.
    fn on_cpu(
        ctx: &LoadContext<'_>,
        placed: LayerPlacement,
        notice: Option<Notice>,
        progress: &mut dyn FnMut(&str, Option<f32>),
    ) -> Result<Self, StartError> {
        let files = &ctx.files.target;
        let load = |source: &dyn WeightSource| {
            CpuTarget::load(&ctx.request(source), &mut percents(&files.name, progress))
        };
        let WithPacked { loaded, from: packed_from, not_kept } = ctx.with_packed(files, load)?;
        let notices = not_kept.into_iter().chain(notice).collect();
        let streamed = place::streams(ctx);
        Ok(Self { target: loaded.into(), placed, streamed, notices, packed_from })
    }

    /// Adds a GPU that reads its long prompts, if there should be one.
    fn with_prefill(
        mut self,
        ctx: &LoadContext<'_>,
        progress: &mut dyn FnMut(&str, Option<f32>),
    ) -> Self {
        let (target, notice) = with_prompts(ctx, self.target.into_cpu(), progress);
        self.target = target;
        self.notices.extend(notice);
        self
    }

    /// The part on the CPU, which has the embedding and the LM head.
    pub(super) fn cpu(&self) -> &CpuTarget {
        self.target.cpu()
    }

    pub(super) fn target(&mut self) -> &mut dyn Target {
        &mut self.target
    }

    /// The target for decoding. Parts on a GPU can return to the CPU.
    pub(super) fn into_target(self, ctx: &LoadContext<'_>) -> Box<dyn Target> {
        match self.target.place() {
            TargetPlace::Cpu | TargetPlace::Prompts => Box::new(self.target),
            TargetPlace::Split | TargetPlace::Gpu | TargetPlace::Streamed => {
                Box::new(self.target.with_fallback(way_back(ctx)))
            }
        }
    }

    /// Bytes on the GPU.
    pub(super) fn device_bytes(&self) -> u64 {
        self.target.device_bytes()
    }

    /// How many blocks are computed on a GPU.
    pub(super) fn gpu_layers(&self) -> usize {
        self.target.gpu_layers()
    }

    /// Whether its KV cache is only in main memory.
    pub(super) fn keeps_kv_here(&self) -> bool {
        matches!(self.target.place(), TargetPlace::Cpu | TargetPlace::Prompts)
    }

    /// The GPU that reads its long prompts, if that is all that it does for the target.
    pub(super) fn prompts_on(&self) -> Option<&str> {
        self.target.prompts_on().map(|(gpu, _)| gpu)
    }

    /// Whether the CPU computes no part of it.
    pub(super) fn is_on_gpu(&self) -> bool {
        matches!(self.target.place(), TargetPlace::Gpu | TargetPlace::Streamed)
    }

    /// Where it runs, if that is worth a sentence; with what is expected of long prompts.
    pub(super) fn reasons(&self, prompts: Option<PrefillForecast>) -> Vec<LoadReason> {
        let place = LoadReason::Plan(self.placed.reason.clone());
        let bytes = self.target.streamed_bytes();
        match self.target.place() {
            TargetPlace::Cpu => Vec::new(),
            TargetPlace::Prompts => {
                let Some((gpu, rows)) = self.target.prompts_on() else { return Vec::new() };
                let gpu = gpu.to_owned();
                let expected =
                    prompts.map(|forecast| LoadReason::LongPrompt { gpu: gpu.clone(), forecast });
                let reads = LoadReason::PromptsOnGpu { gpu, rows, bytes };
                std::iter::once(reads).chain(expected).collect()
            }
            TargetPlace::Split | TargetPlace::Gpu => vec![place],
            TargetPlace::Streamed => vec![place, LoadReason::PassTransfers(bytes)],
        }
    }

    /// Why nothing of it is on a GPU.
    fn why_not_placed(&self) -> Box<Notice> {
        let reason = &self.placed.reason;
        let failed = match reason {
            Reason::TargetOnCpu(_) => None,
            _ => self.notices.first().cloned(),
        };
        Box::new(failed.unwrap_or_else(|| Notice::Reason(reason.clone().into())))
    }

    /// What is missing for a strategy that needs blocks of the target on a GPU.
    pub(super) fn missing_gpu_layers(&self) -> Option<Missing> {
        match self.target.place() {
            TargetPlace::Split | TargetPlace::Gpu => None,
            TargetPlace::Cpu | TargetPlace::Prompts if self.placed.requested => {
                Some(Missing::GpuLayers(Some(self.why_not_placed())))
            }
            TargetPlace::Cpu | TargetPlace::Prompts | TargetPlace::Streamed => {
                Some(Missing::GpuLayers(None))
            }
        }
    }

    /// What is missing for a strategy that needs the target's blocks streamed to a GPU.
    pub(super) fn missing_streaming(&self) -> Option<Missing> {
        match self.target.place() {
            TargetPlace::Streamed => None,
            TargetPlace::Cpu if self.streamed => {
                Some(Missing::Streaming(Some(self.why_not_placed())))
            }
            _ => Some(Missing::Streaming(None)),
        }
    }
}

/// Loads the same target on the CPU from its files, which are opened again: they are needed only if
/// a device fails, so nothing is held for that.
fn way_back(ctx: &LoadContext<'_>) -> TargetFallback {
    let settings = ctx.settings.clone();
    let pool = Arc::clone(&ctx.pool);
    let capacity = ctx.context;
    let kv = ctx.kv();
    Box::new(move || {
        let files = ModelFiles::open_target(&settings).map_err(|error| error.to_string())?;
        let config = &files.config;
        let source = files.weights.as_ref();
        let request = LoadRequest { config, source, pool, capacity, kv };
        CpuTarget::load(&request, &mut |_| {}).map_err(|error| error.to_string())
    })
}

/// What a device said of a failure.
fn device_message(error: LoadError) -> String {
    match error {
        LoadError::Device { reason, .. } => reason,
        other => other.to_string(),
    }
}

/// `cpu` with a GPU that reads its long prompts, if there should be one; otherwise with the reason,
/// if the user has requested it.
fn with_prompts(
    ctx: &LoadContext<'_>,
    cpu: CpuTarget,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> (PlacedTarget, Option<Notice>) {
    let requested = match ctx.settings.prefill {
        PrefillDevice::Cpu => return (cpu.into(), None),
        PrefillDevice::Gpu => true,
        PrefillDevice::Auto => false,
    };
    let pays = ctx.advice.as_ref().and_then(|advice| advice.prefill).is_some_and(|it| it.pays);
    if !requested && !pays {
        return (cpu.into(), None);
    }
    let stays = |cpu: CpuTarget, why: PromptObstacle| -> (PlacedTarget, Option<Notice>) {
        tracing::info!(?why, "reading prompts on the CPU");
        let notice = requested.then_some(Notice::PromptsOnCpu(why));
        (cpu.into(), notice)
    };
    let (gpu, room) = match prompt_gpu(ctx) {
        Ok(found) => found,
        Err(why) => return stays(cpu, why),
    };
    let files = &ctx.files.target;
    let request = ctx.request(files.weights.as_ref());
    let name = format!("{} for {}", files.name, room.name);
    let mut percent = percents(&name, progress);
    let target = match PlacedTarget::reading_prompts(cpu, &gpu, &request, &mut percent) {
        Ok(target) => target,
        Err(failed) => {
            let (cpu, error) = *failed;
            return stays(cpu, PromptObstacle::Failed(device_message(error)));
        }
    };
    let draft = ctx.draft_bytes().sum();
    let needed = target.device_bytes();
    if needed.saturating_add(draft) > room.bytes {
        let why = PromptObstacle::Room { needed, draft, gpu: room.name, room: room.bytes };
        return stays(target.into_cpu(), why);
    }
    (target, None)
}

/// The GPU, if the main memory has room for what is sent there.
fn prompt_gpu(ctx: &LoadContext<'_>) -> Result<(Arc<Gpu>, GpuRoom), PromptObstacle> {
    let settings = ctx.settings;
    let machine = ctx.machine;
    let room = gpu_room(settings.device, machine, settings.vram);
    let room = room.map_err(PromptObstacle::NoGpu)?;
    let files = &ctx.files.target;
    // What was free before the target was loaded must hold it twice.
    let twice = files.bytes + (files.bytes as f64 * sizes::WIDENED) as u64;
    let free = machine.memory.free;
    if machine.memory.total > 0 && twice > free {
        return Err(PromptObstacle::MainMemory { needed: twice, free });
    }
    match (ctx.open_device)(DraftDevice::Gpu(room.number), room.bytes) {
        Ok(Some(gpu)) => Ok((gpu, room)),
        Ok(None) => Err(PromptObstacle::NotOpened(room.name)),
        Err(error) => Err(PromptObstacle::Failed(error)),
    }
}
