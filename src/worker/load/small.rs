//! Loads a small language model to draft with: compares its vocabulary with the target's, sets its
//! context and gives the cost model its size. Must never draft.

use std::sync::Arc;

use super::context::{LoadContext, percents};
use super::drafter::LoadedDrafter;
use super::error::StartError;
use super::packed::{WithPacked, with_packed};
use super::sizes;
use crate::draft::SmallModel;
use crate::library::{self, TargetFiles};
use crate::model::{CpuDraft, LoadRequest, SharedVocabulary};
use crate::plan::{DeviceChoice, DraftKind, DraftSize, TargetSize};

/// Makes a drafter of the model in `files`. Its context is the target's, or as much of it as the
/// model was made for.
///
/// # Errors
/// [`StartError`] if nothing of the vocabularies is shared, a weight is missing or there is no
/// memory.
pub(super) fn load(
    ctx: &LoadContext<'_>,
    target: TargetSize,
    files: &TargetFiles,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<LoadedDrafter, StartError> {
    let words = library::shared_vocabulary(&ctx.files.target, files)?;
    let config = &files.config;
    let capacity = ctx.context.min(config.max_positions);
    let size = sizes::of_small(&files.config, files.bytes);
    let (pool, beside) = ctx.draft_pool(target, size, false);
    let WithPacked { loaded: lm, not_kept, .. } = with_packed(ctx, files, |source| {
        let (pool, kv) = (Arc::clone(&pool), ctx.kv());
        let request = LoadRequest { config, source, pool, capacity, kv };
        CpuDraft::load(&request, &mut percents(&files.name, progress))
    })?;
    let weights = config.linear_weights();
    let bytes_per_weight = lm.pass_bytes() as f64 / weights.max(1) as f64;
    let reason = reason(ctx, files, &words, capacity);
    Ok(LoadedDrafter {
        kind: DraftKind::Small,
        drafter: Box::new(SmallModel::new(&files.name, Box::new(lm), words).with_pool(pool)),
        on_gpu: false,
        size: DraftSize { bytes_per_weight, ..size },
        throughput: ctx.cpu,
        blocks: (0, 0),
        limit: None,
        reason,
        beside: Some(beside),
        notice: not_kept.or_else(|| notice(ctx)),
    })
}

/// For a user who asked for a GPU.
fn notice(ctx: &LoadContext<'_>) -> Option<String> {
    let drafts = ctx.settings.strategy.is_some_and(|row| row.draft == DraftKind::Small);
    let elsewhere = matches!(ctx.settings.device, DeviceChoice::Cuda | DeviceChoice::Metal);
    (drafts && elsewhere)
        .then(|| "A small model drafts on the CPU: `device` places draft heads only.".to_owned())
}

/// Where it runs and what it has in common with the target.
fn reason(
    ctx: &LoadContext<'_>,
    files: &TargetFiles,
    words: &SharedVocabulary,
    capacity: usize,
) -> String {
    let shared = if words.is_identical() {
        "with the target's vocabulary".to_owned()
    } else {
        let tokens = ctx.files.target.tokenizer.vocab_size();
        format!("and knows {} of the target's {tokens} tokens", words.shared())
    };
    let short = if capacity < ctx.context {
        format!("; beyond {capacity} tokens of context it cannot draft")
    } else {
        String::new()
    };
    format!("{} drafts on the CPU {shared}{short}.", files.name)
}
