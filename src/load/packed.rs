//! Loads weights from those packed at an earlier start, if the settings want packed weights to be
//! stored. It must not depend on what is loaded from them.

use super::context::LoadContext;
use crate::files::cache_folder;
use crate::library::{PackedWeights, TargetFiles, packed_cache};
use crate::model::WeightSource;

/// Where packed weights came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackedFrom {
    /// The model's files; they are not stored.
    Files,
    /// The model's files, and they are stored for the next start.
    FilesAndKept,
    /// The cache folder, where an earlier start stored them.
    Cache,
}

/// What was loaded, and where its packed weights came from.
pub(super) struct WithPacked<T> {
    pub(super) loaded: T,
    pub(super) from: PackedFrom,
    /// Why they could not be stored, if so.
    pub(super) not_kept: Option<String>,
}

/// Runs `load` on the weights of `files`.
pub(super) fn with_packed<T, E>(
    ctx: &LoadContext<'_>,
    files: &TargetFiles,
    load: impl FnOnce(&dyn WeightSource) -> Result<T, E>,
) -> Result<WithPacked<T>, E> {
    let source = files.weights.as_ref();
    let limit = ctx.settings.pack_cache as u64 * 1_000_000_000;
    let folder = if limit > 0 { cache_folder("packed") } else { None };
    let cache = folder.map(|folder| packed_cache(folder, limit));
    let packed = cache
        .as_ref()
        .and_then(|cache| PackedWeights::new(source, &files.config, files.bytes, cache));
    let Some(packed) = packed else {
        let (from, not_kept) = (PackedFrom::Files, None);
        return Ok(WithPacked { loaded: load(source)?, from, not_kept });
    };
    let loaded = load(&packed)?;
    // Checked after loading, which gives up weights that turn out to be damaged.
    let (reads, keeps) = (packed.reads(), packed.keeps());
    let not_kept = packed.finish();
    let from = match (reads, keeps && not_kept.is_none()) {
        (true, _) => PackedFrom::Cache,
        (false, true) => PackedFrom::FilesAndKept,
        (false, false) => PackedFrom::Files,
    };
    Ok(WithPacked { loaded, from, not_kept })
}
