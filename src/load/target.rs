//! Loads the target: on the CPU, where a GPU may read long prompts for it, or with its first blocks
//! on a GPU. It must not depend on drafters.

use std::sync::Arc;

use super::context::{LoadContext, PackedFrom, WithPacked};
use super::error::StartError;
use super::files::ModelFiles;
use super::place;
use super::reason::{LoadReason, Missing, Notice};
use super::sizes;
use crate::library::TargetFiles;
use crate::model::{
    CandleFiles, CandleTarget, CpuTarget, Gpu, LoadError, LoadRequest, PlacedTarget, Target,
    TargetFallback, TargetPlace, WeightSource,
};
use crate::plan::{GpuRoom, Obstacle, Placement, PrefillForecast, Reason};
use crate::settings::PrefillDevice;

/// A target, run by either engine.
pub(super) enum RunningTarget {
    /// By ours, on its devices.
    Own(Box<PlacedTarget>),
    /// By candle-transformers, on the CPU.
    Candle(Box<CandleTarget>),
}

impl RunningTarget {
    /// The target as our engine runs it; `None` if another does.
    pub(super) fn own(&self) -> Option<&PlacedTarget> {
        match self {
            Self::Own(target) => Some(target),
            Self::Candle(_) => None,
        }
    }

    /// Where its parts are.
    pub(super) fn place(&self) -> TargetPlace {
        self.own().map_or(TargetPlace::Cpu, PlacedTarget::place)
    }

    pub(super) fn as_mut(&mut self) -> &mut dyn Target {
        match self {
            Self::Own(target) => target.as_mut(),
            Self::Candle(target) => target.as_mut(),
        }
    }
}

impl From<PlacedTarget> for RunningTarget {
    fn from(target: PlacedTarget) -> Self {
        Self::Own(Box::new(target))
    }
}

/// A target on its devices.
pub(super) struct LoadedTarget {
    pub(super) target: RunningTarget,
    /// What was planned for its first blocks.
    placed: Placement,
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
) -> Result<(PlacedTarget, Option<LoadError>), LoadError> {
    // Blocks that go to a GPU are not packed for the CPU, so the complete weights could not be
    // stored.
    let source = ctx.files.target.source();
    let progress = &ctx.percents(&ctx.files.target.name);
    let request = &LoadRequest { progress, ..ctx.request(&source) };
    if place::streams(ctx) {
        return Ok((PlacedTarget::streamed(gpu, request)?, None));
    }
    let all = request.config.layers;
    let mut whole = None;
    if layers == all {
        match PlacedTarget::on_gpu(gpu, request) {
            Ok(target) => return Ok((target, None)),
            Err(error @ LoadError::Device(_)) if all > 1 => whole = Some(error),
            Err(error) => return Err(error),
        }
    }
    let most = layers.min(all - 1);
    let spare = ctx.draft_bytes().sum();
    let (target, refused) = PlacedTarget::split(gpu, most, spare, request)?;
    Ok((target, refused.or(whole)))
}

impl LoadedTarget {
    pub(super) fn load(ctx: &LoadContext<'_>) -> Result<Self, StartError> {
        let placed = place::layers(ctx);
        let Some(number) = placed.gpu else {
            let refused = placed.refused().map(|reason| Notice::Reason(reason.clone().into()));
            if let Some(files) = &ctx.files.target.candle {
                return Self::by_candle(ctx, files, placed, refused);
            }
            return Ok(Self::on_cpu(ctx, placed, refused)?.with_prompts(ctx));
        };
        let gpu = match ctx.open(number, placed.room) {
            Ok(gpu) => gpu,
            Err(error) => {
                return Self::on_cpu(ctx, placed, Some(Notice::GpuFailed(error)));
            }
        };
        let loaded = put(ctx, &gpu, placed.blocks);
        let (target, refused) = match loaded {
            Ok(found) => found,
            Err(LoadError::Device(error)) => {
                let failed = Notice::TargetFailed { layers: placed.blocks, error };
                return Self::on_cpu(ctx, placed, Some(failed));
            }
            Err(error) => return Err(error.into()),
        };
        let packed_from = PackedFrom::Files;
        let Some(error) = refused else {
            return Ok(Self { target: target.into(), placed, notices: Vec::new(), packed_from });
        };
        let layers = target.gpu_layers();
        let gpu = gpu.name().to_owned();
        let planned = placed.blocks;
        let of = ctx.files.target.config.layers;
        let reason = Reason::TargetCut { gpu: gpu.clone(), layers, of };
        let placed = Placement { blocks: layers, reason, ..placed };
        let error = error.to_string();
        let notices = vec![Notice::TargetCut { layers, planned, gpu, error }];
        Ok(Self { target: target.into(), placed, notices, packed_from })
    }

    /// All of it on the CPU, from packed weights if there are some, with a notice of why it is not
    /// on a GPU.
    fn on_cpu(
        ctx: &LoadContext<'_>,
        placed: Placement,
        notice: Option<Notice>,
    ) -> Result<Self, StartError> {
        let files = &ctx.files.target;
        let load = |source: &dyn WeightSource| {
            let progress = &ctx.percents(&files.name);
            CpuTarget::load(&LoadRequest { progress, ..ctx.request(source) })
        };
        let WithPacked { loaded, from: packed_from, not_kept } =
            ctx.with_packed(files, &files.source(), load)?;
        let notices = not_kept.into_iter().chain(notice).collect();
        let target = PlacedTarget::from(loaded).into();
        Ok(Self { target, placed, notices, packed_from })
    }

    /// As candle-transformers runs it, with a notice of why it is not on a GPU.
    fn by_candle(
        ctx: &LoadContext<'_>,
        files: &CandleFiles,
        placed: Placement,
        notice: Option<Notice>,
    ) -> Result<Self, StartError> {
        let TargetFiles { name, config, .. } = &ctx.files.target;
        (ctx.progress)(&format!("loading {name}"), None);
        let target = CandleTarget::load(files, config, ctx.context, ctx.threads)?;
        let target = RunningTarget::Candle(Box::new(target));
        let notices = notice.into_iter().collect();
        Ok(Self { target, placed, notices, packed_from: PackedFrom::Files })
    }

    /// Adds a GPU that reads its long prompts, if there should be one; otherwise the reason, if the
    /// user has requested it.
    fn with_prompts(mut self, ctx: &LoadContext<'_>) -> Self {
        let requested = match ctx.settings.prefill {
            PrefillDevice::Cpu => return self,
            PrefillDevice::Gpu => true,
            PrefillDevice::Auto => false,
        };
        let pays = ctx.advice.as_ref().and_then(|advice| advice.prefill).is_some_and(|it| it.pays);
        if !requested && !pays {
            return self;
        }
        let RunningTarget::Own(own) = self.target else { return self };
        let (target, refused) = with_prompts(ctx, own.into_cpu());
        self.target = target.into();
        if let Some(why) = refused {
            tracing::info!(?why, "reading prompts on the CPU");
            self.notices.extend(requested.then_some(Notice::PromptsOnCpu(why)));
        }
        self
    }

    /// The target for decoding. Parts on a GPU can return to the CPU.
    pub(super) fn into_target(self, ctx: &LoadContext<'_>) -> Box<dyn Target> {
        let own = match self.target {
            RunningTarget::Own(own) => own,
            RunningTarget::Candle(target) => return target,
        };
        match own.place() {
            TargetPlace::Cpu | TargetPlace::Prompts => own,
            TargetPlace::Split | TargetPlace::Gpu | TargetPlace::Streamed => {
                Box::new(own.with_fallback(way_back(ctx)))
            }
        }
    }

    /// Whether its KV cache is only in main memory.
    pub(super) fn keeps_kv_here(&self) -> bool {
        let place = self.target.own().map(PlacedTarget::place);
        matches!(place, Some(TargetPlace::Cpu | TargetPlace::Prompts))
    }

    /// The GPU that reads its long prompts, if that is all that it does for the target.
    pub(super) fn prompts_on(&self) -> Option<&str> {
        self.target.own()?.prompts_on().map(|(gpu, _)| gpu)
    }

    /// Where it runs, if that is worth a sentence; with what is expected of long prompts.
    pub(super) fn reasons(&self, prompts: Option<PrefillForecast>) -> Vec<LoadReason> {
        let place = LoadReason::Plan(self.placed.reason.clone());
        let Some(target) = self.target.own() else { return vec![LoadReason::Candle] };
        let bytes = target.streamed_bytes();
        match target.place() {
            TargetPlace::Cpu => Vec::new(),
            TargetPlace::Prompts => {
                let Some((gpu, rows)) = target.prompts_on() else { return Vec::new() };
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

    /// What is missing for strategies that need blocks of the target on a GPU, and for those that
    /// need them streamed there; with the reason, if the user has requested it.
    pub(super) fn missing(&self, ctx: &LoadContext<'_>) -> [Option<Missing>; 2] {
        let place = self.target.place();
        let on_cpu = matches!(place, TargetPlace::Cpu | TargetPlace::Prompts);
        let by_candle = self.target.own().is_none();
        let why = (on_cpu && (self.placed.requested || by_candle)).then(|| {
            let reason = &self.placed.reason;
            let failed = match reason {
                _ if by_candle => Some(Notice::AllOnCpu(Obstacle::Candle)),
                Reason::TargetOnCpu(_) => None,
                _ => self.notices.first().cloned(),
            };
            Box::new(failed.unwrap_or_else(|| Notice::Reason(reason.clone().into())))
        });
        let to_stream = if place::streams(ctx) || by_candle { why.clone() } else { None };
        [
            match place {
                TargetPlace::Split | TargetPlace::Gpu => None,
                _ => Some(Missing::GpuLayers(why)),
            },
            match place {
                TargetPlace::Streamed => None,
                _ => Some(Missing::Streaming(to_stream)),
            },
        ]
    }
}

/// Loads the same target on the CPU from its files, which are opened again: they are needed only if
/// a device fails, so nothing is held for that.
fn way_back(ctx: &LoadContext<'_>) -> TargetFallback {
    let settings = ctx.settings.clone();
    let pool = Arc::clone(&ctx.pool);
    let capacity = ctx.context;
    let kv = ctx.settings.kv;
    let repack = ctx.files.target.repack;
    Box::new(move || {
        let opened = ModelFiles::open_target(&settings).map_err(|error| error.to_string())?;
        let files = TargetFiles { repack, ..opened };
        files.on_cpu(pool, capacity, kv).map_err(|error| error.to_string())
    })
}

/// `cpu` with a GPU that reads its long prompts, or why there is none.
fn with_prompts(ctx: &LoadContext<'_>, cpu: CpuTarget) -> (PlacedTarget, Option<Obstacle>) {
    let (gpu, room) = match prompt_gpu(ctx) {
        Ok(found) => found,
        Err(why) => return (cpu.into(), Some(why)),
    };
    let files = &ctx.files.target;
    let name = format!("{} for {}", files.name, room.name);
    let progress = &ctx.percents(&name);
    let request = LoadRequest { progress, ..ctx.request(files.weights.as_ref()) };
    let loaded = PlacedTarget::reading_prompts(cpu, &gpu, &request);
    let target = match loaded {
        Ok(target) => target,
        Err(failed) => {
            let (cpu, error) = *failed;
            return (cpu.into(), Some(Obstacle::Error(error.to_string())));
        }
    };
    let draft = ctx.draft_bytes().sum();
    let needed = target.device_bytes();
    if needed.saturating_add(draft) > room.bytes {
        let why = Obstacle::PromptsTooLarge { needed, draft, gpu: room.name, room: room.bytes };
        return (target.into_cpu().into(), Some(why));
    }
    (target, None)
}

/// The GPU, if the main memory has room for what is sent there.
fn prompt_gpu(ctx: &LoadContext<'_>) -> Result<(Arc<Gpu>, GpuRoom), Obstacle> {
    let room = ctx.gpu_room()?;
    let files = &ctx.files.target;
    // What was free before the target was loaded must hold it twice.
    let needed = files.bytes + (files.bytes as f64 * sizes::WIDENED) as u64;
    let free = ctx.machine.memory.free;
    if ctx.machine.memory.total > 0 && needed > free {
        return Err(Obstacle::TargetTwice { needed, free });
    }
    let gpu = ctx.open(room.number, room.bytes).map_err(Obstacle::Error)?;
    Ok((gpu, room))
}
