//! Chooses what has room where the settings or the advice have things run: how many blocks of the
//! target go to the GPU, which of several draft heads is used, and where drafts go. It must never
//! load a weight.

use super::advice::{Advice, ChosenHead};
use super::context::LoadContext;
use super::files::NamedHead;
use super::shared_target::SharedTarget;
use super::sizes::{self, CODES, DraftBytes, FOUR_BITS};
use crate::library::TargetFiles;
use crate::model::head::{FusionKind, HeadConfig};
use crate::plan::{
    self, Candidate, DeviceChoice, DraftChoice, DraftDevice, DraftSize, DrafterId, GpuDraftSize,
    HeadForecast, LayerPlacement, LayerSize, Obstacle, Placement, PlacementInputs, PlacementTimes,
    Reason, Setting, Throughput, best_head, gpu_room, place_layers,
};

/// The head to use, of those that fit the target: where the advice has drafts run or, without any
/// advice, where the settings have them run.
pub(super) fn choose_head(ctx: &LoadContext<'_>) -> ChosenHead {
    let heads = &ctx.files.heads;
    if let [only] = heads.as_slice() {
        let alone = ctx.files.refused_heads > 0;
        let reason = alone.then(|| Reason::OnlyHead(only.called().to_owned()));
        return ChosenHead { index: 0, reason };
    }
    let advice = ctx.advice.as_ref();
    if let Some(given) = advice.filter(|advice| advice.rows.is_empty()) {
        // A requested placement includes its head.
        return ChosenHead { index: given.best.head.unwrap_or(0), reason: None };
    }
    let candidates: Vec<HeadCandidate<'_>> = heads
        .iter()
        .enumerate()
        .map(|(index, head)| {
            let placed = head_by_room(ctx, &ctx.config_of(&head.files), head.fusion());
            HeadCandidate { index, head, placed }
        })
        .collect();
    let wants_gpu = match advice {
        Some(advice) => advice.puts_on_gpu(DrafterId::Head),
        None => ctx.drafts_on_cpu().is_none(),
    };
    let on_gpu = wants_gpu && candidates.iter().any(|head| head.placed.device != DraftDevice::Cpu);
    let mut forecasts: Vec<HeadForecast> =
        candidates.iter().map(|candidate| forecast(ctx, candidate, on_gpu)).collect();
    if forecasts.iter().all(|head| head.rate.is_err()) {
        // If none has room in main memory, loading will show whether that is true.
        for (candidate, forecast) in candidates.iter().zip(&mut forecasts) {
            forecast.rate = rate(ctx, candidate, on_gpu);
        }
    }
    match best_head(&forecasts, on_gpu) {
        Some((index, reason)) => ChosenHead { index, reason: Some(reason) },
        None => ChosenHead::default(),
    }
}

/// A head that may be used.
struct HeadCandidate<'a> {
    /// Which of the files' heads it is.
    index: usize,
    head: &'a NamedHead,
    /// Where it would go according to the available room.
    placed: Placement,
}

/// What to expect of a head on the GPU or the CPU, if it has room there.
fn forecast(ctx: &LoadContext<'_>, candidate: &HeadCandidate<'_>, on_gpu: bool) -> HeadForecast {
    let HeadCandidate { head, placed, .. } = candidate;
    let config = &ctx.config_of(&head.files);
    let free = ctx.machine.memory.free;
    let needed = sizes::head_on_cpu(config, ctx.context);
    let refused = if on_gpu {
        placed.why_on_cpu().cloned()
    } else if ctx.machine.memory.total > 0 && needed > free {
        Some(Obstacle::MainMemory { needed, free })
    } else {
        None
    };
    HeadForecast {
        name: head.called().to_owned(),
        blocks: if on_gpu { placed.blocks } else { config.blocks() },
        rate: refused.map_or_else(|| rate(ctx, candidate, on_gpu), Err),
    }
}

/// Tokens per second: from the advice's own times if there are any, otherwise from the machine's
/// description.
fn rate(
    ctx: &LoadContext<'_>,
    candidate: &HeadCandidate<'_>,
    on_gpu: bool,
) -> Result<f64, Obstacle> {
    let HeadCandidate { index, placed, .. } = candidate;
    if let Some(advice) = &ctx.advice {
        let best = &advice.best;
        let alike = advice.rows.iter().filter(|row| {
            let own = row.draft == DrafterId::Head && row.head == Some(*index);
            own && row.draft_on_gpu == on_gpu && (row.layers == 0) == (best.layers == 0)
        });
        let rates = alike.map(|row| row.rate);
        return rates.max_by(f64::total_cmp).ok_or(Obstacle::NoRoomNextToTarget);
    }
    let inputs = inputs(ctx, 0);
    let of_head = inputs.drafts.get(*index).ok_or(Obstacle::NoRoomNextToTarget)?;
    let most = if on_gpu { placed.blocks } else { of_head.blocks.1 };
    let draft = DraftChoice { blocks: (of_head.blocks.0.min(most), most), ..*of_head };
    let gpu = Throughput::of_gpu(ctx.machine.gpu.get());
    let times = PlacementTimes::Assumed { cpu: ctx.cpu, gpu };
    Ok(inputs.cost(times, Candidate::drafted_by(&draft, on_gpu)).rate)
}

/// What is to be placed, with this many bytes of a GPU.
pub(super) fn inputs(ctx: &LoadContext<'_>, room: u64) -> PlacementInputs {
    let files = ctx.files;
    let config = &files.target.config;
    let head_weights = (config.vocab * config.hidden) as u64;
    let several = files.heads.len() > 1;
    let heads = files.heads.iter().enumerate().map(|(index, head)| {
        let own = &ctx.config_of(&head.files);
        let size = |bytes| sizes::of_head(own, head.fusion(), config.tied_head, bytes);
        let most = own.blocks();
        DraftChoice {
            kind: DrafterId::Head,
            head: several.then_some(index),
            on_cpu: size(FOUR_BITS),
            on_gpu: size(CODES),
            bytes: sizes::head_on_gpu(own, ctx.context),
            blocks: (if own.elastic { 1 } else { most }, most),
        }
    });
    let small = files.small.as_ref().map(|small| {
        let size = sizes::of_small(&small.config, small.bytes);
        DraftChoice {
            kind: DrafterId::SmallModel,
            head: None,
            on_cpu: size,
            on_gpu: size,
            bytes: sizes::of_draft(small, ctx.context),
            blocks: (0, 0),
        }
    });
    let target = sizes::of_target_files(&ctx.files.target);
    PlacementInputs {
        target,
        block_weights: (target.weights - head_weights) / config.layers.max(1) as u64,
        layers: sizes::of_layers(&files.target, ctx.context),
        room,
        drafts: heads.chain(small).collect(),
        overrides: ctx.settings.controls,
    }
}

/// Whether the target's blocks are to be streamed to the GPU.
pub(super) fn streams(ctx: &LoadContext<'_>) -> bool {
    ctx.settings.strategy.is_some_and(|row| row.streamed)
}

/// How many blocks of the target go to the GPU, next to what the draft will take there.
pub(super) fn layers(ctx: &LoadContext<'_>) -> LayerPlacement {
    let files = ctx.files;
    let settings = ctx.settings;
    if streams(ctx) {
        let room = gpu_room(settings.device, ctx.machine, settings.vram);
        return LayerPlacement::streamed(room, files.target.config.layers);
    }
    let DraftBytes { draft, small } = ctx.draft_bytes();
    let size = LayerSize { draft, small, ..sizes::of_layers(&files.target, ctx.context) };
    if let Some(advice) = &ctx.advice {
        let setting = Setting::Fixed(advice.best.layers);
        return place_layers(setting, (settings.device, settings.vram), ctx.machine, size);
    }
    let needs_some = settings.strategy.is_some_and(|row| row.gpu_layers);
    let setting = match settings.gpu_layers {
        Setting::Fixed(0) if needs_some => Setting::Auto,
        // None were requested, and nothing says that they pay off.
        Setting::Auto if !needs_some && !settings.given.contains_key("gpu_layers") => {
            Setting::Fixed(0)
        }
        setting => setting,
    };
    place_layers(setting, (settings.device, settings.vram), ctx.machine, size)
}

/// Why a draft of this kind stays on the CPU even if the GPU has room for it.
fn why_on_cpu(ctx: &LoadContext<'_>, kind: DrafterId) -> Option<Obstacle> {
    let advised = |advice: &Advice| (!advice.puts_on_gpu(kind)).then_some(Obstacle::CpuIsFaster);
    ctx.drafts_on_cpu().or_else(|| ctx.advice.as_ref().and_then(advised))
}

/// Where a head should run.
pub(super) fn head(ctx: &LoadContext<'_>, config: &HeadConfig, kind: FusionKind) -> Placement {
    match why_on_cpu(ctx, DrafterId::Head) {
        Some(why) => Placement::on_cpu(config.blocks(), why),
        None => head_by_room(ctx, config, kind),
    }
}

/// Where a head would go according to the available room, independent of its expected speed.
fn head_by_room(ctx: &LoadContext<'_>, config: &HeadConfig, kind: FusionKind) -> Placement {
    let tied_head = ctx.files.target.config.tied_head;
    let capacity = config.capacity(ctx.context);
    // The embedding stays in main memory.
    let draft = DraftSize { lookup: 0, ..sizes::of_head(config, kind, tied_head, CODES) };
    let size = GpuDraftSize { draft, cache: sizes::device_cache(&config.body, capacity) };
    plan::place(ctx.settings.device, ctx.machine, ctx.settings.vram, size)
}

/// Where a small model goes: to a GPU that was requested or has its own memory, unless the whole
/// target is there, because then the CPU is free.
pub(super) fn small_model(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    files: &TargetFiles,
) -> Placement {
    if let Some(why) = why_on_cpu(ctx, DrafterId::SmallModel) {
        return Placement::on_cpu(0, why);
    }
    let leaves_gpu = target.is_on_gpu && ctx.advice.is_none();
    let choice = if leaves_gpu { DeviceChoice::Cpu } else { ctx.settings.device };
    // In bytes, independent of the weights.
    let draft = DraftSize {
        fixed: sizes::of_draft(files, ctx.context),
        lookup: 0,
        block: 0,
        bytes_per_weight: 1.0,
        blocks: 0,
        elastic: false,
    };
    let size = GpuDraftSize { draft, cache: 0 };
    plan::place(choice, ctx.machine, ctx.settings.vram, size)
}
