//! Loads the draft head on its device: the planned one, or the CPU if that fails. It must never
//! choose the device; the plan does.

use std::sync::Arc;

use super::context::LoadContext;
use super::drafter::LoadedDrafter;
use super::error::StartError;
use super::place;
use super::reason::{LoadReason, Notice};
use super::shared_target::SharedTarget;
use super::sizes;
use crate::draft::FeatureHead;
use crate::kernels::Pool;
use crate::library::{HeadFiles, TargetFiles, text_tokens};
use crate::model::head::{
    DraftVocabulary, GpuHead, HeadError, HeadKind, HeadRequest, HeadWeights, SharedTables,
    TappedStates,
};
use crate::model::{FeatureSource, WeightSource};
use crate::plan::{DrafterId, Obstacle, Placement, Reason};
use crate::settings::ScoredTokens;

/// The head in `files`, for `target`, on the device that was planned.
pub(super) fn load(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    tables: &SharedTables,
    files: &HeadFiles,
) -> Result<LoadedDrafter, StartError> {
    let refused = |source| StartError::Head { origin: files.name.clone(), source };
    let weights = HeadWeights::load(&files.config, files.tensors.as_ref()).map_err(refused)?;
    let layers = ctx.files.target.config.layers;
    let source = files.config.features(layers).map_err(|misfit| refused(misfit.into()))?;
    let (weights, vocabulary) = with_vocabulary(ctx, weights)?;
    let states = weights.config.kind.eagle3().map(|own| LoadReason::HeadStates {
        layers: source.states().to_vec(),
        from_one: matches!(own.taps, TappedStates::OutputOf(_)),
    });

    let gpu_weight = ctx.head_weight(files, true);
    let placed = place::head(ctx, &weights.config, gpu_weight);
    let head = to_gpu(ctx, tables, files, weights, &placed);
    let on_gpu = head.on_gpu.is_some();
    let why = match on_gpu || placed.gpu.is_none() {
        true => placed.reason.clone(),
        false => Reason::DraftOnCpu(Obstacle::Failed),
    };
    let found = match &files.config.kind {
        HeadKind::Mtp(own) => Some(LoadReason::HeadInFile { blocks: own.steps() }),
        _ => ctx.files.recognised.then(|| LoadReason::HeadFound(files.name.clone())),
    };
    let chosen = ctx.chosen_head.reason.clone().map(LoadReason::Plan);
    let config = &head.weights.config;
    let bytes_per_weight = ctx.head_weight(files, on_gpu);
    let tied_head = ctx.files.target.config.tied_head;
    let size = sizes::of_head(config, tied_head, bytes_per_weight);
    let (pool, threads) = ctx.draft_pool(target.size, size, on_gpu);
    let beside = target.is_apart_from(on_gpu);
    let reads = Reason::ReadsPrompt { beside };
    let reasons = std::iter::once(LoadReason::Plan(why))
        .chain(found)
        .chain(chosen)
        .chain(vocabulary)
        .chain(states)
        .chain([threads, reads].map(LoadReason::Plan));

    Ok(LoadedDrafter {
        kind: DrafterId::Head,
        on_gpu,
        size,
        own_weights: sizes::own_weights(config),
        limit: (on_gpu && placed.reason.cut().is_some()).then(|| placed.reason.clone()),
        reasons: reasons.collect(),
        notice: head.notice.clone(),
        drafter: Box::new(
            drafter(ctx, tables, files, head, pool, source)
                .map_err(refused)?
                .reading_beside(beside),
        ),
    })
}

/// A head whose first blocks were put on a GPU, if the plan has it there.
struct PlacedHead {
    /// The part that runs, even if the GPU fails later.
    weights: HeadWeights,
    /// `None` on the CPU.
    on_gpu: Option<GpuHead>,
    /// What was requested and not done.
    notice: Option<Notice>,
}

/// Puts the head on the GPU, if it was placed there and if the GPU takes it.
fn to_gpu(
    ctx: &LoadContext<'_>,
    tables: &SharedTables,
    files: &HeadFiles,
    weights: HeadWeights,
    placed: &Placement,
) -> PlacedHead {
    let on_cpu = |weights, notice| PlacedHead { weights, on_gpu: None, notice };
    let Some(number) = placed.gpu else {
        let refused = placed.refused().map(|reason| Notice::Reason(reason.clone().into()));
        return on_cpu(weights, refused);
    };
    let gpu = match ctx.open(number, placed.room) {
        Ok(gpu) => gpu,
        Err(error) => return on_cpu(weights, Some(Notice::GpuFailed(error))),
    };
    let first = weights.first_blocks(placed.blocks);
    let capacity = first.config.capacity(ctx.context);
    let source = files.weights.as_deref().unwrap_or(ctx.files.target.weights.as_ref());
    let request = HeadRequest {
        source: Some(source),
        precision: ctx.draft_precision(true),
        ..HeadRequest::new(&first, tables, Arc::clone(&ctx.pool), capacity)
    };
    match GpuHead::new(&gpu, &request) {
        Ok(head) => PlacedHead { weights: first, on_gpu: Some(head), notice: None },
        Err(error) => on_cpu(weights, Some(Notice::HeadFailed(error.to_string()))),
    }
}

/// The drafter: on the GPU, if the head is there, otherwise on the CPU. The CPU also continues if
/// the GPU fails, unless that takes the target's file again.
fn drafter(
    ctx: &LoadContext<'_>,
    tables: &SharedTables,
    files: &HeadFiles,
    head: PlacedHead,
    pool: Arc<Pool>,
    source: FeatureSource,
) -> Result<FeatureHead, HeadError> {
    let PlacedHead { weights, on_gpu, .. } = head;
    let config = weights.config.clone();
    let capacity = config.capacity(ctx.context);
    let cores = Arc::clone(&pool);
    let precision = ctx.draft_precision(false);
    let in_file = config.kind.format().is_some();
    let new = |backend| {
        let head = FeatureHead::new(&config, backend, ctx.context);
        head.reading(source).with_cores(cores)
    };
    match on_gpu {
        Some(head) if in_file => Ok(new(Box::new(head))),
        Some(head) => {
            let tables = tables.clone();
            let on_cpu = move || {
                let request = HeadRequest::new(&weights, &tables, pool, capacity);
                HeadRequest { precision, ..request }.on_cpu()
            };
            Ok(new(Box::new(head)).with_fallback(Box::new(on_cpu)))
        }
        None => {
            let of_target = ctx.files.target.source();
            let source =
                files.weights.as_deref().map_or(&of_target as &dyn WeightSource, |own| own);
            let request = HeadRequest::new(&weights, tables, pool, capacity);
            Ok(new(HeadRequest { source: Some(source), precision, ..request }.on_cpu()?))
        }
    }
}

/// The head with the draft vocabulary that the user requested, and what became of that.
fn with_vocabulary(
    ctx: &LoadContext<'_>,
    weights: HeadWeights,
) -> Result<(HeadWeights, Option<LoadReason>), StartError> {
    let Some(wished) = ctx.head_vocab() else { return Ok((weights, None)) };
    if let Some(own) = weights.config.draft_vocab {
        return Ok((weights, Some(LoadReason::HeadVocabulary(own))));
    }
    let TargetFiles { config, eos, tokenizer, .. } = &ctx.files.target;
    let most = sizes::most_scored(wished, config.vocab);
    let (scored, text) = match wished {
        ScoredTokens::All | ScoredTokens::First(_) => {
            (DraftVocabulary::first(most, config.vocab, eos), None)
        }
        ScoredTokens::OfText(path) => {
            let name = path.display().to_string();
            let unusable = |error| StartError::DraftVocab { text: name.clone(), error };
            let text = text_tokens(path, tokenizer);
            let text = text.map_err(|error| unusable(Some(error.to_string())))?;
            if text.is_empty() {
                return Err(unusable(None));
            }
            (DraftVocabulary::of_text(&text, most, config.vocab, eos), Some(name))
        }
    };
    let vocab = weights.config.body.vocab;
    let reason = LoadReason::RequestedVocabulary { tokens: scored.len(), vocab, text };
    let failed = |error| {
        let origin = ctx.head().map(|head| head.files.name.clone()).unwrap_or_default();
        StartError::Head { origin, source: HeadError::from(error) }
    };
    Ok((weights.scoring(scored).map_err(failed)?, Some(reason)))
}
