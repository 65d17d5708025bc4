//! Loads the draft head on its device: the planned one, or the CPU if that fails. It must never
//! choose the device; the plan does.

use std::sync::Arc;

use super::context::LoadContext;
use super::drafter::LoadedDrafter;
use super::error::StartError;
use super::scored_tokens::scored_tokens;
use super::shared_target::SharedTarget;
use super::sizes::{self, CODES, FOUR_BITS};
use crate::draft::FeatureHead;
use crate::kernels::KvFormat;
use crate::library::HeadFiles;
use crate::messages;
use crate::model::Gpu;
use crate::model::head::{
    Eagle3Config, FusionKind, GpuHead, HeadBackend, HeadConfig, HeadError, HeadPrecision,
    HeadWeights, PackedHead, SharedTables, Taps,
};
use crate::plan::{
    DraftDevice, DraftSize, DrafterId, GpuDraftSize, Obstacle, Placement, Reason, Throughput, place,
};
use crate::settings::ScoredTokens;

/// The head in `files`, for `target`, on the device that was planned.
pub(super) fn load(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    files: &HeadFiles,
) -> Result<LoadedDrafter, StartError> {
    let refused = |source| StartError::Head { origin: files.name.clone(), source };
    let weights = HeadWeights::load(&files.config, files.tensors.as_ref()).map_err(refused)?;
    let (weights, scored) = match &ctx.settings.draft_vocab {
        None => (weights, None),
        Some(wished) => {
            let (weights, told) = scoring(ctx, wished, weights)?;
            (weights, Some(told))
        }
    };
    of_weights(ctx, target, files, (weights, scored)).map_err(refused)
}

/// The head with these weights, and what became of the requested draft vocabulary.
fn of_weights(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    files: &HeadFiles,
    (mut weights, scored): (HeadWeights, Option<String>),
) -> Result<LoadedDrafter, HeadError> {
    let source = files.config.features(ctx.files.target.config.layers)?;
    let config = &weights.config.clone();
    let shared = target.tables.clone();
    let capacity = config.capacity(ctx.context);
    let kind = weights.kind();
    let size = |bytes| sizes::of_head(config, kind, target.tied_head, bytes);
    let advised = ctx.advice.as_ref().map(|advice| advice.puts_on_gpu(DrafterId::Head));
    let placed = match (ctx.drafts_on_cpu(), advised) {
        (Some(reason), _) => Placement::on_cpu(config.blocks(), reason),
        (None, Some(false)) => Placement::on_cpu(config.blocks(), Obstacle::CpuIsFaster),
        _ => room_for(ctx, config, (kind, target.tied_head)),
    };
    let mut reason = messages::reason(&placed.reason);
    let mut notice = placed.refused.then(|| reason.clone());

    let on_device = match (ctx.open_device)(placed.device, placed.room) {
        Ok(None) => None,
        Ok(Some(gpu)) => match upload(ctx, &weights, (placed.blocks, capacity), &shared, &gpu) {
            Ok((head, uploaded)) => {
                weights = uploaded;
                Some(head)
            }
            Err(error) => {
                notice = Some(format!("Cannot load the draft on the GPU ({error})."));
                None
            }
        },
        Err(error) => {
            notice = Some(format!("Cannot use the GPU ({error})."));
            None
        }
    };
    if placed.device != DraftDevice::Cpu && on_device.is_none() {
        reason = messages::reason(&Reason::DraftOnCpu(Obstacle::Failed));
    }
    let on_gpu = on_device.is_some();
    if ctx.files.recognised {
        reason = format!("{reason} The draft head {} was trained for this model.", files.name);
    }
    if let Some(taken) = &ctx.taken.reason {
        reason = format!("{reason} {}", messages::reason(taken));
    }
    if let Some(scored) = scored {
        reason = format!("{reason} {scored}");
    }
    if let Some(eagle3) = &config.eagle3 {
        reason = format!("{reason} {}", tapped(eagle3, source.states()));
    }
    let limit = messages::cut(&placed.reason).filter(|_| on_gpu);
    // From here on the head is the part that was uploaded, even if the GPU fails later.
    let config = &weights.config.clone();
    let size = size(if on_gpu { CODES } else { FOUR_BITS });
    let (pool, beside) = ctx.draft_pool(target.size, size, on_gpu);
    let cores = Arc::clone(&pool);
    let on_cpu = move || -> Result<Box<dyn HeadBackend>, HeadError> {
        let (precision, kv) = (HeadPrecision::Four, KvFormat::F16);
        Ok(Box::new(PackedHead::new(&weights, &shared, pool, capacity, precision, kv)?))
    };
    let new = |backend| FeatureHead::new(config, kind, backend, ctx.context).reading(source);
    let head: FeatureHead = match on_device {
        Some(head) => new(head).with_fallback(Box::new(on_cpu)),
        None => new(on_cpu()?),
    };
    let most = config.blocks();
    Ok(LoadedDrafter {
        kind: DrafterId::Head,
        drafter: Box::new(head.with_cores(cores)),
        on_gpu,
        size: DraftSize { blocks: most, ..size },
        own_weights: sizes::own_weights(config, kind),
        throughput: if on_gpu { Throughput::of_gpu(ctx.machine.gpu.get()) } else { ctx.cpu },
        blocks: (if config.elastic { 1 } else { most }, most),
        limit,
        reason,
        beside: Some(beside),
        notice,
    })
}

/// Where a head would go according to the available room, independent of its expected speed;
/// `tied_head` is the target's.
pub(super) fn room_for(
    ctx: &LoadContext<'_>,
    config: &HeadConfig,
    (kind, tied_head): (FusionKind, bool),
) -> Placement {
    let capacity = config.capacity(ctx.context);
    // The embedding stays in main memory.
    let draft = DraftSize { lookup: 0, ..sizes::of_head(config, kind, tied_head, CODES) };
    let size = GpuDraftSize { draft, cache: sizes::device_cache(&config.body, capacity) };
    place(ctx.settings.device, ctx.machine, ctx.settings.vram, size)
}

/// The head with the draft vocabulary that the user requested, and what became of that.
fn scoring(
    ctx: &LoadContext<'_>,
    wished: &ScoredTokens,
    weights: HeadWeights,
) -> Result<(HeadWeights, String), StartError> {
    if let Some(own) = weights.config.draft_vocab {
        return Ok((
            weights,
            format!("The draft head scores the {own} tokens it was trained for."),
        ));
    }
    let vocab = weights.config.body.vocab;
    let (tokens, of) = scored_tokens(wished, &ctx.files.target)?;
    let told =
        format!("The draft head scores {} of the target's {vocab} tokens{of}.", tokens.len());
    let failed = |error| {
        let origin = ctx.head().map(|head| head.files.name.clone()).unwrap_or_default();
        StartError::Head { origin, source: HeadError::from(error) }
    };
    Ok((weights.scoring(tokens).map_err(failed)?, told))
}

/// Which states an EAGLE-3 head reads, and whether that was a guess.
fn tapped(config: &Eagle3Config, states: &[usize]) -> String {
    let states: Vec<String> = states.iter().map(usize::to_string).collect();
    let states = states.join(", ");
    match config.taps {
        Taps::OutputOf(_) => format!(
            "The draft head reads the inputs of the target's layers {states}. The layer ids in \
             its config.json start at 1, so each means the output of that layer."
        ),
        Taps::Default | Taps::Entering(_) => {
            format!("The draft head reads the inputs of the target's layers {states}.")
        }
    }
}

/// The first `blocks` blocks of a head on a GPU, and the weights that went there.
fn upload(
    ctx: &LoadContext<'_>,
    weights: &HeadWeights,
    (blocks, capacity): (usize, usize),
    shared: &SharedTables,
    gpu: &Arc<Gpu>,
) -> Result<(Box<dyn HeadBackend>, HeadWeights), HeadError> {
    let planned = weights.first_blocks(blocks);
    let held = (HeadPrecision::Eight, KvFormat::F16);
    let head = GpuHead::new(&planned, shared, gpu, &ctx.pool, capacity, held)?;
    Ok((Box::new(head), planned))
}
