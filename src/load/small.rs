//! Loads a small language model for drafting: compares its vocabulary with the target's, sets its
//! context and computes its size for the cost model. It must never draft.

use std::sync::Arc;

use super::context::{LoadContext, percents};
use super::drafter::LoadedDrafter;
use super::error::StartError;
use super::packed::{WithPacked, with_packed};
use super::shared_target::SharedTarget;
use super::sizes;
use crate::draft::SmallModel;
use crate::library::{self, TargetFiles};
use crate::model::{CpuDraft, GpuDraft, LoadError, LoadRequest, SharedVocabulary, SmallLm};
use crate::plan::{
    self, DeviceChoice, DraftSize, DrafterId, GpuDraftSize, Obstacle, Placement, Throughput,
};

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
    let config = &files.config;
    let capacity = ctx.context.min(config.max_positions);
    let size = sizes::of_small(&files.config, files.bytes);
    let placed = place(ctx, target, files);
    let gpu = (ctx.open_device)(placed.device, placed.room).ok().flatten();
    let mut refused = None;
    let on_gpu = match &gpu {
        None => None,
        Some(gpu) => {
            // Nothing of it is packed for the CPU, so nothing could be stored.
            let (pool, kv, source) = (Arc::clone(&ctx.pool), ctx.kv(), files.weights.as_ref());
            let request = LoadRequest { config, source, pool, capacity, kv };
            match GpuDraft::load(gpu, &request, &mut percents(&files.name, progress)) {
                Ok(lm) => Some(lm),
                Err(error @ LoadError::Device { .. }) => {
                    refused = Some(format!("The small model runs on the CPU: {error}."));
                    None
                }
                Err(error) => return Err(error.into()),
            }
        }
    };
    let (pool, beside) = ctx.draft_pool(target.size, size, on_gpu.is_some());
    let mut not_kept = None;
    let (lm, bytes): (Box<dyn SmallLm>, u64) = match on_gpu {
        Some(lm) => {
            let bytes = lm.bytes();
            (Box::new(lm), bytes)
        }
        None => {
            let WithPacked { loaded: lm, not_kept: notice, .. } =
                with_packed(ctx, files, |source| {
                    let (pool, kv) = (Arc::clone(&pool), ctx.kv());
                    let request = LoadRequest { config, source, pool, capacity, kv };
                    CpuDraft::load(&request, &mut percents(&files.name, progress))
                })?;
            not_kept = notice;
            let bytes = lm.pass_bytes();
            (Box::new(lm), bytes)
        }
    };
    let is_on_gpu = gpu.is_some() && refused.is_none();
    let weights = config.linear_weights();
    let bytes_per_weight = bytes as f64 / weights.max(1) as f64;
    let device = gpu.filter(|_| is_on_gpu);
    let device = device.as_ref().map_or("the CPU", |gpu| gpu.name());
    let reason = reason(ctx, files, &words, (capacity, device));
    Ok(LoadedDrafter {
        kind: DrafterId::SmallModel,
        drafter: Box::new(SmallModel::new(&files.name, lm, words).with_pool(pool)),
        on_gpu: is_on_gpu,
        size: DraftSize { bytes_per_weight, ..size },
        own_weights: size.fixed + size.lookup,
        throughput: if is_on_gpu { Throughput::of_gpu(ctx.machine.gpu.get()) } else { ctx.cpu },
        blocks: (0, 0),
        limit: None,
        reason,
        beside: Some(beside),
        notice: refused.or(not_kept),
    })
}

/// Where it goes: to a GPU that was requested or has its own memory, unless the whole target is
/// there, because then the CPU is free.
fn place(ctx: &LoadContext<'_>, target: &SharedTarget, files: &TargetFiles) -> Placement {
    let advised = ctx.advice.as_ref().map(|advice| advice.puts_on_gpu(DrafterId::SmallModel));
    if let Some(reason) = ctx.drafts_on_cpu() {
        return Placement::on_cpu(0, reason);
    }
    if advised == Some(false) {
        return Placement::on_cpu(0, Obstacle::CpuIsFaster);
    }
    let choice =
        if target.is_on_gpu && advised.is_none() { DeviceChoice::Cpu } else { ctx.settings.device };
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

/// Where it runs, and what it shares with the target.
fn reason(
    ctx: &LoadContext<'_>,
    files: &TargetFiles,
    words: &SharedVocabulary,
    (capacity, device): (usize, &str),
) -> String {
    let shared = if words.is_identical() {
        "and has the target's vocabulary".to_owned()
    } else {
        let tokens = ctx.files.target.tokenizer.vocab_size();
        format!("and shares {} of the target's {tokens} tokens", words.shared())
    };
    let short = if capacity < ctx.context {
        format!("; it cannot draft beyond {capacity} tokens of context")
    } else {
        String::new()
    };
    format!("{} drafts on {device} {shared}{short}.", files.name)
}
