//! Loads weights from those that were packed before, where the settings want packed weights to be
//! kept. Must never know what is loaded of them.

use super::context::LoadContext;
use crate::library::{PackedCache, PackedWeights, TargetFiles};
use crate::model::WeightSource;

/// Runs `load` on the weights of `files`; gives its result, and why they could not be kept, if so.
pub(super) fn with_packed<T, E>(
    ctx: &LoadContext<'_>,
    files: &TargetFiles,
    load: impl FnOnce(&dyn WeightSource) -> Result<T, E>,
) -> Result<(T, Option<String>), E> {
    let source = files.weights.as_ref();
    let most = ctx.settings.pack_cache as u64 * 1_000_000_000;
    let cache = if most > 0 { PackedCache::in_cache_folder(most) } else { None };
    let packed = cache
        .as_ref()
        .and_then(|cache| PackedWeights::new(source, &files.config, files.bytes, cache));
    match packed {
        Some(packed) => load(&packed).map(|loaded| (loaded, packed.finish())),
        None => load(source).map(|loaded| (loaded, None)),
    }
}
