//! Loads a small language model for drafting: compares its vocabulary with the target's, sets its
//! context and computes its size for the cost model. It must never draft.

use std::sync::Arc;

use super::context::{LoadContext, WithPacked, percents};
use super::drafter::LoadedDrafter;
use super::error::StartError;
use super::place;
use super::reason::{LoadReason, Notice, SharedTokens};
use super::shared_target::SharedTarget;
use super::sizes;
use crate::draft::SmallModel;
use crate::kernels::Pool;
use crate::library::{self, TargetFiles};
use crate::model::{
    CpuDraft, GpuDraft, LoadError, LoadRequest, SharedVocabulary, SmallLm, WeightSource,
};
use crate::plan::{DraftSize, DrafterId, Throughput};

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
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<LoadedDrafter, StartError> {
    let words = library::shared_vocabulary(&ctx.files.target, files)?;
    let size = sizes::of_small(&files.config, files.bytes);
    let (on_gpu, refused) = on_gpu(ctx, target, files, progress)?;
    let is_on_gpu = on_gpu.is_some();
    let (pool, threads) = ctx.draft_pool(target.size, size, is_on_gpu);
    let model = match on_gpu {
        Some(model) => model,
        None => on_cpu(ctx, files, &pool, progress)?,
    };
    let bytes_per_weight = model.bytes as f64 / files.config.linear_weights().max(1) as f64;
    let reasons = vec![reason(ctx, files, &words, model.gpu), threads.into()];
    Ok(LoadedDrafter {
        kind: DrafterId::SmallModel,
        drafter: Box::new(SmallModel::new(&files.name, model.lm, words).with_pool(pool)),
        on_gpu: is_on_gpu,
        size: DraftSize { bytes_per_weight, ..size },
        own_weights: size.fixed + size.lookup,
        throughput: if is_on_gpu { Throughput::of_gpu(ctx.machine.gpu.get()) } else { ctx.cpu },
        blocks: (0, 0),
        limit: None,
        reasons,
        notice: refused.or(model.not_kept),
    })
}

/// A small model on its device.
struct PlacedModel {
    lm: Box<dyn SmallLm>,
    /// Bytes that a pass reads.
    bytes: u64,
    /// The name of its GPU; `None` on the CPU.
    gpu: Option<String>,
    /// Why its packed weights could not be stored, if so.
    not_kept: Option<Notice>,
}

/// How many positions the model gets.
fn capacity(ctx: &LoadContext<'_>, files: &TargetFiles) -> usize {
    ctx.context.min(files.config.max_positions)
}

/// The model on a GPU, if it goes there; and a notice if the GPU does not take it.
fn on_gpu(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    files: &TargetFiles,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<(Option<PlacedModel>, Option<Notice>), StartError> {
    let placed = place::small_model(ctx, target, files);
    let Ok(Some(gpu)) = (ctx.open_device)(placed.device, placed.room) else {
        return Ok((None, None));
    };
    let request = LoadRequest {
        config: &files.config,
        // Nothing of it is packed for the CPU, so nothing could be stored.
        source: files.weights.as_ref(),
        pool: Arc::clone(&ctx.pool),
        capacity: capacity(ctx, files),
        kv: ctx.kv(),
    };
    match GpuDraft::load(&gpu, &request, &mut percents(&files.name, progress)) {
        Ok(lm) => {
            let bytes = lm.bytes();
            let gpu = Some(gpu.name().to_owned());
            Ok((Some(PlacedModel { lm: Box::new(lm), bytes, gpu, not_kept: None }), None))
        }
        Err(error @ LoadError::Device { .. }) => {
            Ok((None, Some(Notice::SmallModelFailed(error.to_string()))))
        }
        Err(error) => Err(error.into()),
    }
}

/// The model on the CPU, with these threads.
fn on_cpu(
    ctx: &LoadContext<'_>,
    files: &TargetFiles,
    pool: &Arc<Pool>,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<PlacedModel, StartError> {
    let load = |source: &dyn WeightSource| {
        let config = &files.config;
        let pool = Arc::clone(pool);
        let kv = ctx.kv();
        let request = LoadRequest { config, source, pool, capacity: capacity(ctx, files), kv };
        CpuDraft::load(&request, &mut percents(&files.name, progress))
    };
    let WithPacked { loaded: lm, not_kept, .. } = ctx.with_packed(files, load)?;
    let bytes = lm.pass_bytes();
    Ok(PlacedModel { lm: Box::new(lm), bytes, gpu: None, not_kept })
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
