//! Loads a small language model for drafting: compares its vocabulary with the target's, sets its
//! context and computes its size for the cost model. It must never draft.

use std::sync::Arc;

use super::context::{LoadContext, WithPacked};
use super::drafter::LoadedDrafter;
use super::error::StartError;
use super::place;
use super::reason::{LoadReason, Notice, SharedTokens};
use super::shared_target::SharedTarget;
use crate::draft::SmallModel;
use crate::kernels::Pool;
use crate::library::{self, TargetFiles};
use crate::model::{
    CpuDraft, GpuDraft, LoadError, LoadRequest, Repacked, SharedVocabulary, SmallLm, WeightSource,
};
use crate::plan::{DraftSize, DrafterId, Reason};

/// Makes a drafter from the model in `files`. Its context is the target's, or as much of it as the
/// model was made for.
///
/// # Errors
/// [`StartError`] if the vocabularies share nothing, a weight is missing or there is not enough
/// memory.
pub(super) fn load(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    files: &TargetFiles,
) -> Result<LoadedDrafter, StartError> {
    let words = library::shared_vocabulary(&ctx.files.target, files)?;
    let mut notice = None;
    let on_gpu = match on_gpu(ctx, target, files) {
        // The GPU does not take it.
        Some(Err(LoadError::Device(reason))) => {
            notice = Some(Notice::SmallModelFailed(reason));
            None
        }
        loaded => loaded.transpose()?,
    };
    let is_on_gpu = on_gpu.is_some();
    let size = ctx.small_size(files, is_on_gpu);
    let gpu = on_gpu.as_ref().map(|(_, gpu)| gpu.clone());
    let (pool, threads) = ctx.draft_pool(target.size, size, is_on_gpu);
    let (lm, bytes): (Box<dyn SmallLm>, u64) = match on_gpu {
        Some((lm, _)) => {
            let bytes = lm.bytes();
            (Box::new(lm), bytes)
        }
        None => {
            let load = |source: &dyn WeightSource| {
                let progress = &ctx.percents(&files.name);
                CpuDraft::load(&LoadRequest { progress, ..request(ctx, files, source, &pool) })
            };
            let narrowed = ctx.small_weights(files, false);
            let source = Repacked { source: &narrowed, repack: files.repack };
            let WithPacked { loaded: lm, not_kept, .. } = ctx.with_packed(files, &source, load)?;
            notice = notice.or(not_kept);
            let bytes = lm.pass_bytes();
            (Box::new(lm), bytes)
        }
    };
    let bytes_per_weight = bytes as f64 / files.config.linear_weights().max(1) as f64;
    let beside = target.is_apart_from(is_on_gpu);
    let reads = Reason::ReadsPrompt { beside };
    let repack = if is_on_gpu { None } else { ctx.files.repack_reason(files) };
    let reasons = [reason(ctx, files, &words, gpu), threads.into(), reads.into()];
    let reasons = reasons.into_iter().chain(repack).collect();
    let drafter = SmallModel::new(&files.name, lm, words).with_pool(pool).reading_beside(beside);
    let drafter = match ctx.small_vocab() {
        Some(first) => drafter.scoring(first),
        None => drafter,
    };
    Ok(LoadedDrafter {
        kind: DrafterId::SmallModel,
        drafter: Box::new(drafter),
        on_gpu: is_on_gpu,
        size: DraftSize { bytes_per_weight, ..size },
        own_weights: size.fixed + size.lookup,
        limit: None,
        reasons,
        notice,
    })
}

/// How many positions the model gets.
fn capacity(ctx: &LoadContext<'_>, files: &TargetFiles) -> usize {
    ctx.context.min(files.config.max_positions)
}

fn request<'a>(
    ctx: &LoadContext<'_>,
    files: &'a TargetFiles,
    source: &'a dyn WeightSource,
    pool: &Arc<Pool>,
) -> LoadRequest<'a> {
    let config = &files.config;
    let capacity = capacity(ctx, files);
    LoadRequest::new(config, source, Arc::clone(pool), capacity, ctx.settings.kv)
}

/// The model on a GPU, if it goes there, and the GPU's name.
fn on_gpu(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    files: &TargetFiles,
) -> Option<Result<(GpuDraft, String), LoadError>> {
    let placed = place::small_model(ctx, target, files);
    let gpu = ctx.open(placed.gpu?, placed.room).ok()?;
    // Nothing of it is packed for the CPU, so nothing could be stored.
    let source = ctx.small_weights(files, true);
    let progress = &ctx.percents(&files.name);
    let request = LoadRequest { progress, ..request(ctx, files, &source, &ctx.pool) };
    let lm = GpuDraft::load(&gpu, &request);
    Some(lm.map(|lm| (lm, gpu.name().to_owned())))
}

/// Where it runs, and what it shares with the target.
fn reason(
    ctx: &LoadContext<'_>,
    files: &TargetFiles,
    words: &SharedVocabulary,
    gpu: Option<String>,
) -> LoadReason {
    let of = ctx.files.target.tokenizer.vocab_size();
    let shared = SharedTokens { shared: words.shared(), of };
    let capacity = capacity(ctx, files);
    LoadReason::SmallModel {
        name: files.name.clone(),
        gpu,
        shared: (!words.is_identical()).then_some(shared),
        most_context: (capacity < ctx.context).then_some(capacity),
    }
}
