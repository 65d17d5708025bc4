//! Loads the draft head on its device: the planned one, or the CPU if that fails. It must never
//! choose the device; the plan does.

use std::sync::Arc;

use super::context::LoadContext;
use super::drafter::LoadedDrafter;
use super::error::StartError;
use super::place;
use super::reason::{LoadReason, Notice};
use super::shared_target::SharedTarget;
use super::sizes::{self, CODES, FOUR_BITS};
use crate::draft::FeatureHead;
use crate::kernels::{KvFormat, Pool};
use crate::library::{HeadFiles, TargetFiles, text_tokens};
use crate::model::head::{
    DraftVocabulary, Eagle3Config, GpuHead, HeadBackend, HeadError, HeadPrecision, HeadWeights,
    PackedHead, SharedTables, TappedStates,
};
use crate::model::{FeatureSource, Gpu};
use crate::plan::{DraftDevice, DraftSize, DrafterId, Obstacle, Placement, Reason, Throughput};
use crate::settings::ScoredTokens;

/// The head in `files`, for `target`, on the device that was planned.
pub(super) fn load(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    files: &HeadFiles,
) -> Result<LoadedDrafter, StartError> {
    let refused = |source| StartError::Head { origin: files.name.clone(), source };
    let weights = HeadWeights::load(&files.config, files.tensors.as_ref()).map_err(refused)?;
    let layers = ctx.files.target.config.layers;
    let source = files.config.features(layers).map_err(|misfit| refused(misfit.into()))?;
    let (weights, vocabulary) = with_vocabulary(ctx, weights)?;
    let states = weights.config.eagle3.as_ref().map(|own| states(own, source.states()));

    let placed = place::head(ctx, &weights.config, weights.kind());
    let head = to_gpu(ctx, target, weights, &placed);
    let on_gpu = head.on_gpu.is_some();
    let why = match on_gpu || placed.device == DraftDevice::Cpu {
        true => placed.reason.clone(),
        false => Reason::DraftOnCpu(Obstacle::Failed),
    };
    let found = ctx.files.recognised.then(|| LoadReason::HeadFound(files.name.clone()));
    let chosen = ctx.chosen_head.reason.clone().map(LoadReason::Plan);
    let config = &head.weights.config;
    let kind = head.weights.kind();
    let bytes_per_weight = if on_gpu { CODES } else { FOUR_BITS };
    let size = sizes::of_head(config, kind, target.tied_head, bytes_per_weight);
    let (pool, threads) = ctx.draft_pool(target.size, size, on_gpu);
    let reasons = std::iter::once(LoadReason::Plan(why))
        .chain(found)
        .chain(chosen)
        .chain(vocabulary)
        .chain(states)
        .chain([LoadReason::Plan(threads)]);

    let most = config.blocks();
    Ok(LoadedDrafter {
        kind: DrafterId::Head,
        on_gpu,
        size: DraftSize { blocks: most, ..size },
        own_weights: sizes::own_weights(config, kind),
        throughput: if on_gpu { Throughput::of_gpu(ctx.machine.gpu.get()) } else { ctx.cpu },
        blocks: (if config.elastic { 1 } else { most }, most),
        limit: (on_gpu && placed.reason.cut().is_some()).then(|| placed.reason.clone()),
        reasons: reasons.collect(),
        notice: head.notice.clone(),
        drafter: Box::new(drafter(ctx, target, head, pool, source).map_err(refused)?),
    })
}

/// A head whose first blocks were put on a GPU, if the plan has it there.
struct PlacedHead {
    /// The part that runs, even if the GPU fails later.
    weights: HeadWeights,
    /// `None` on the CPU.
    on_gpu: Option<Box<dyn HeadBackend>>,
    /// What was requested and not done.
    notice: Option<Notice>,
}

/// Puts the head on the GPU, if it was placed there and if the GPU takes it.
fn to_gpu(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    weights: HeadWeights,
    placed: &Placement,
) -> PlacedHead {
    let on_cpu = |weights, notice| PlacedHead { weights, on_gpu: None, notice };
    let refused = placed.refused.then(|| Notice::Reason(placed.reason.clone().into()));
    let gpu = match (ctx.open_device)(placed.device, placed.room) {
        Ok(None) => return on_cpu(weights, refused),
        Ok(Some(gpu)) => gpu,
        Err(error) => return on_cpu(weights, Some(Notice::GpuFailed(error))),
    };
    let first = weights.first_blocks(placed.blocks);
    match upload(ctx, &first, &target.tables, &gpu) {
        Ok(head) => PlacedHead { weights: first, on_gpu: Some(head), notice: refused },
        Err(error) => on_cpu(weights, Some(Notice::HeadFailed(error.to_string()))),
    }
}

/// The head on a GPU.
fn upload(
    ctx: &LoadContext<'_>,
    weights: &HeadWeights,
    shared: &SharedTables,
    gpu: &Arc<Gpu>,
) -> Result<Box<dyn HeadBackend>, HeadError> {
    let capacity = weights.config.capacity(ctx.context);
    let precision = HeadPrecision::Eight;
    let head = GpuHead::new(weights, shared, gpu, &ctx.pool, capacity, precision, KvFormat::F16)?;
    Ok(Box::new(head))
}

/// The drafter: on the GPU, if the head is there, otherwise on the CPU, which also continues if the
/// GPU fails.
fn drafter(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    head: PlacedHead,
    pool: Arc<Pool>,
    source: FeatureSource,
) -> Result<FeatureHead, HeadError> {
    let PlacedHead { weights, on_gpu, .. } = head;
    let config = weights.config.clone();
    let kind = weights.kind();
    let capacity = config.capacity(ctx.context);
    let tables = target.tables.clone();
    let cores = Arc::clone(&pool);
    let on_cpu = move || -> Result<Box<dyn HeadBackend>, HeadError> {
        let precision = HeadPrecision::Four;
        let kv = KvFormat::F16;
        Ok(Box::new(PackedHead::new(&weights, &tables, pool, capacity, precision, kv)?))
    };
    let new = |backend| FeatureHead::new(&config, kind, backend, ctx.context).reading(source);
    let head = match on_gpu {
        Some(head) => new(head).with_fallback(Box::new(on_cpu)),
        None => new(on_cpu()?),
    };
    Ok(head.with_cores(cores))
}

/// The head with the draft vocabulary that the user requested, and what became of that.
fn with_vocabulary(
    ctx: &LoadContext<'_>,
    weights: HeadWeights,
) -> Result<(HeadWeights, Option<LoadReason>), StartError> {
    let Some(wished) = &ctx.settings.draft_vocab else { return Ok((weights, None)) };
    if let Some(own) = weights.config.draft_vocab {
        return Ok((weights, Some(LoadReason::HeadVocabulary(own))));
    }
    let vocab = weights.config.body.vocab;
    let (scored, text) = scored_tokens(wished, &ctx.files.target)?;
    let reason = LoadReason::RequestedVocabulary { tokens: scored.len(), vocab, text };
    let failed = |error| {
        let origin = ctx.head().map(|head| head.files.name.clone()).unwrap_or_default();
        StartError::Head { origin, source: HeadError::from(error) }
    };
    Ok((weights.scoring(scored).map_err(failed)?, Some(reason)))
}

/// The tokens of `target` that `wished` requests, with those that end a turn; and their text, if
/// they are from one.
fn scored_tokens(
    wished: &ScoredTokens,
    target: &TargetFiles,
) -> Result<(DraftVocabulary, Option<String>), StartError> {
    let vocab = target.config.vocab;
    let eos = &target.eos;
    let most = sizes::most_scored(wished, vocab);
    match wished {
        ScoredTokens::First(_) => Ok((DraftVocabulary::first(most, vocab, eos), None)),
        ScoredTokens::OfText(path) => {
            let name = path.display().to_string();
            let unusable = |error| StartError::DraftVocab { text: name.clone(), error };
            let text = text_tokens(path, &target.tokenizer);
            let text = text.map_err(|error| unusable(Some(error.to_string())))?;
            if text.is_empty() {
                return Err(unusable(None));
            }
            Ok((DraftVocabulary::of_text(&text, most, vocab, eos), Some(name)))
        }
    }
}

/// Which states an EAGLE-3 head reads, and whether that was a guess.
fn states(config: &Eagle3Config, states: &[usize]) -> LoadReason {
    let from_one = matches!(config.taps, TappedStates::OutputOf(_));
    LoadReason::HeadStates { layers: states.to_vec(), from_one }
}
