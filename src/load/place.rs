//! Chooses what has room where the settings or the advice have things run: how many blocks of the
//! target go to the GPU, which of several draft heads is used, and where drafts go. It must never
//! load a weight.

use super::context::{Advice, ChosenHead, LoadContext};
use super::files::NamedHead;
use super::shared_target::SharedTarget;
use super::sizes;
use crate::library::{DflashFiles, TargetFiles};
use crate::model::head::{GpuHead, HeadConfig};
use crate::model::{GpuDflash, TargetPlace};
use crate::plan::{
    CostInputs, DraftChoice, DraftSize, DrafterId, GpuLayers, GpuRoom, HeadForecast, Measured,
    Obstacle, Placement, PlacementInputs, Reason, SearchSpace, Setting, best_head, choose,
    place_draft, place_layers, stream_layers,
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
    let by_room = |head: &NamedHead| {
        let weight = ctx.head_weight(&head.files, true);
        head_by_room(ctx, &ctx.config_of(&head.files), weight)
    };
    let placed: Vec<Placement> = heads.iter().map(by_room).collect();
    let wants_gpu = match advice {
        Some(advice) => advice.puts_on_gpu(DrafterId::Head),
        None => ctx.drafts_on_cpu().is_none(),
    };
    let on_gpu = wants_gpu && placed.iter().any(|placed| placed.gpu.is_some());
    let forecasts = |checked: bool| -> Vec<HeadForecast> {
        let forecast = |(index, placed): (usize, &Placement)| {
            let head = &heads[index];
            let config = ctx.config_of(&head.files);
            let refused = if checked { refused(ctx, &config, placed, on_gpu) } else { None };
            let blocks = if on_gpu { placed.blocks } else { config.blocks() };
            let rate = refused.map_or_else(|| rate(ctx, index, blocks, on_gpu), Err);
            HeadForecast { name: head.called().to_owned(), blocks, rate }
        };
        placed.iter().enumerate().map(forecast).collect()
    };
    let mut all = forecasts(true);
    if all.iter().all(|head| head.rate.is_err()) {
        // If none has room in main memory, loading will show whether that is true.
        all = forecasts(false);
    }
    let best = best_head(&all, on_gpu);
    best.map_or_else(ChosenHead::default, |(index, reason)| ChosenHead {
        index,
        reason: Some(reason),
    })
}

/// Why a head has no room on the GPU or on the CPU; `None` if it has.
fn refused(
    ctx: &LoadContext<'_>,
    config: &HeadConfig,
    placed: &Placement,
    on_gpu: bool,
) -> Option<Obstacle> {
    match &placed.reason {
        Reason::DraftOnCpu(why) if on_gpu => return Some(why.clone()),
        _ if on_gpu => return None,
        _ => {}
    }
    let free = ctx.machine.memory.free;
    let needed = sizes::head_on_cpu(config, ctx.context);
    let is_full = ctx.machine.memory.total > 0 && needed > free;
    is_full.then_some(Obstacle::MainMemory { needed, free })
}

/// Tokens per second with a head's first `most` blocks: from the advice's own times if there are
/// any, otherwise from the machine's description.
fn rate(ctx: &LoadContext<'_>, index: usize, most: usize, on_gpu: bool) -> Result<f64, Obstacle> {
    if let Some(Advice { best, rows, .. }) = &ctx.advice {
        let alike = rows.iter().filter(|row| {
            let own = row.draft == DrafterId::Head && row.head == Some(index);
            let same = (row.layers == 0, row.streamed) == (best.layers == 0, best.streamed);
            own && row.draft_on_gpu == on_gpu && same
        });
        let rates = alike.map(|row| row.rate);
        return rates.max_by(f64::total_cmp).ok_or(Obstacle::NoRoomNextToTarget);
    }
    let NamedHead { files, .. } = &ctx.files.heads[index];
    let weight = ctx.head_weight(files, on_gpu);
    let tied_head = ctx.files.target.config.tied_head;
    let size = sizes::of_head(&ctx.config_of(files), tied_head, weight);
    let size = DraftSize { blocks: most, ..size };
    let inputs = CostInputs {
        verifier: ctx.cpu,
        target: sizes::of_target_files(&ctx.files.target),
        draft: Some((size, ctx.throughput(on_gpu))),
    };
    let space = SearchSpace::new(ctx.settings.controls, Some(size));
    let space = SearchSpace { always: true, ..space };
    Ok(choose(&inputs, &Measured::default(), &space).expected)
}

/// What is to be placed, with this many bytes of a GPU.
pub(super) fn inputs(ctx: &LoadContext<'_>, room: u64) -> PlacementInputs {
    let files = ctx.files;
    let config = &files.target.config;
    let head_weights = (config.vocab * config.hidden) as u64;
    let several = files.heads.len() > 1;
    let heads = files.heads.iter().enumerate().map(|(index, head)| {
        let own = &ctx.config_of(&head.files);
        let weight = ctx.head_weight(&head.files, true);
        let on_gpu = sizes::of_head(own, config.tied_head, weight);
        DraftChoice {
            kind: DrafterId::Head,
            head: several.then_some(index),
            on_cpu: DraftSize { bytes_per_weight: ctx.head_weight(&head.files, false), ..on_gpu },
            on_gpu,
            bytes: match GpuHead::unsupported(own) {
                // It has no room on any GPU.
                Some(_) => u64::MAX,
                None => sizes::head_on_gpu(own, weight, ctx.context),
            },
        }
    });
    let dflash = files.dflash.as_ref().map(|dflash| DraftChoice {
        kind: DrafterId::Dflash,
        head: None,
        on_cpu: sizes::of_dflash_files(dflash, ctx.draft_precision(false), false),
        on_gpu: sizes::of_dflash_files(dflash, ctx.draft_precision(true), true),
        bytes: ctx.dflash_bytes().unwrap_or(u64::MAX),
    });
    let small = files.small.as_ref().map(|small| DraftChoice {
        kind: DrafterId::SmallModel,
        head: None,
        on_cpu: ctx.small_size(small, false),
        on_gpu: ctx.small_size(small, true),
        bytes: sizes::of_draft(small, ctx.context),
    });
    let target = sizes::of_target_files(&ctx.files.target);
    let layers = sizes::of_layers(&files.target, ctx.context);
    let memory = ctx.machine.memory;
    PlacementInputs {
        target,
        streams: memory.total == 0 || layers.weights() <= memory.free,
        block_weights: (target.weights - head_weights) / config.layers.max(1) as u64,
        layers,
        room,
        drafts: heads.chain(dflash).chain(small).collect(),
        overrides: ctx.settings.controls,
    }
}

/// Where the target's blocks are to go.
fn target_blocks(ctx: &LoadContext<'_>) -> GpuLayers {
    match &ctx.advice {
        Some(Advice { best, .. }) if best.streamed => GpuLayers::Streamed,
        Some(Advice { best, .. }) => GpuLayers::Held(Setting::Fixed(best.layers)),
        None => ctx.settings.target_blocks(),
    }
}

/// Whether the target's blocks are to be streamed to the GPU.
pub(super) fn streams(ctx: &LoadContext<'_>) -> bool {
    target_blocks(ctx) == GpuLayers::Streamed
}

/// What the GPU has for drafts. A target that is held there leaves them room, as does the plan; one
/// that the user has streamed there takes the same room in any case.
fn draft_room(ctx: &LoadContext<'_>) -> Result<GpuRoom, Obstacle> {
    let mut room = ctx.gpu_room()?;
    if ctx.advice.is_none() && streams(ctx) {
        let target = sizes::of_layers(&ctx.files.target, ctx.context).streamed();
        room.bytes = room.bytes.saturating_sub(target);
    }
    Ok(room)
}

/// How many blocks of the target go to the GPU, next to what the draft will take there.
pub(super) fn layers(ctx: &LoadContext<'_>) -> Placement {
    let settings = ctx.settings;
    let size = sizes::of_layers(&ctx.files.target, ctx.context);
    let needs_some = settings.strategy.is_some_and(|row| row.gpu_layers);
    let setting = match target_blocks(ctx) {
        GpuLayers::Streamed => return stream_layers(ctx.gpu_room(), size.layers),
        GpuLayers::Held(Setting::Fixed(0)) if needs_some => Setting::Auto,
        // None were requested, and nothing says that they pay off.
        GpuLayers::Held(Setting::Auto)
            if !needs_some && !settings.given.contains_key("gpu_layers") =>
        {
            Setting::Fixed(0)
        }
        GpuLayers::Held(setting) => setting,
    };
    place_layers(setting, ctx.gpu_room(), size, ctx.draft_bytes())
}

/// Why a draft of this kind stays on the CPU even if the GPU has room for it.
fn why_on_cpu(ctx: &LoadContext<'_>, kind: DrafterId) -> Option<Obstacle> {
    let advised = |advice: &Advice| (!advice.puts_on_gpu(kind)).then_some(Obstacle::CpuIsFaster);
    ctx.drafts_on_cpu().or_else(|| ctx.advice.as_ref().and_then(advised))
}

/// Where a head should run.
pub(super) fn head(ctx: &LoadContext<'_>, config: &HeadConfig, bytes_per_weight: f64) -> Placement {
    match why_on_cpu(ctx, DrafterId::Head) {
        Some(why) => Placement::on_cpu(config.blocks(), false, Reason::DraftOnCpu(why)),
        None => head_by_room(ctx, config, bytes_per_weight),
    }
}

/// Where a head would go according to the available room, independent of its expected speed.
fn head_by_room(ctx: &LoadContext<'_>, config: &HeadConfig, bytes_per_weight: f64) -> Placement {
    if let Some(with) = GpuHead::unsupported(config) {
        let reason = Reason::DraftOnCpu(Obstacle::OnlyCpu { drafter: config.kind.name(), with });
        return Placement::on_cpu(config.blocks(), ctx.wants_gpu(), reason);
    }
    let tied_head = ctx.files.target.config.tied_head;
    let cache = sizes::device_cache(&config.body, config.capacity(ctx.context));
    // The embedding stays in main memory.
    let size = DraftSize { lookup: 0, ..sizes::of_head(config, tied_head, bytes_per_weight) };
    let (least, most) = size.range();
    let bytes = |blocks: usize| size.bytes(blocks) + blocks as u64 * cache;
    place_draft(draft_room(ctx), ctx.wants_gpu(), least, most, bytes)
}

/// Where a DFlash drafter should run.
pub(super) fn dflash(ctx: &LoadContext<'_>, files: &DflashFiles) -> Placement {
    let config = &files.config;
    let on_cpu = |why| Placement::on_cpu(0, ctx.wants_gpu(), Reason::DraftOnCpu(why));
    if let Some(with) = GpuDflash::unsupported(config) {
        return on_cpu(Obstacle::OnlyCpu { drafter: config.name(), with });
    }
    match why_on_cpu(ctx, DrafterId::Dflash) {
        Some(why) => Placement::on_cpu(0, false, Reason::DraftOnCpu(why)),
        None => {
            let bytes = ctx.dflash_bytes().unwrap_or(u64::MAX);
            place_draft(draft_room(ctx), ctx.wants_gpu(), 0, 0, |_| bytes)
        }
    }
}

/// Where a small model goes: to a GPU that was requested or has its own memory, unless that holds
/// the whole target, because then the CPU is free.
pub(super) fn small_model(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    files: &TargetFiles,
) -> Placement {
    if let Some(why) = why_on_cpu(ctx, DrafterId::SmallModel) {
        return Placement::on_cpu(0, false, Reason::DraftOnCpu(why));
    }
    let leaves_gpu = target.place == TargetPlace::Gpu && ctx.advice.is_none();
    let room = if leaves_gpu { Err(Obstacle::Chosen) } else { draft_room(ctx) };
    place_draft(room, false, 0, 0, |_| sizes::of_draft(files, ctx.context))
}
