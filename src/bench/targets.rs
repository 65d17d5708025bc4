//! Targets on the CPU that are measured alone: a model's own weights, or random weights of a known
//! shape.

use std::sync::Arc;

use crate::kernels::{Format, KvFormat, Pool};
use crate::library::TargetFiles;
use crate::model::{CpuTarget, KnownShape, LoadError, LoadRequest};

/// A model's own weights, with room for `positions`.
///
/// # Errors
/// [`LoadError`].
pub fn load_cpu(
    files: &TargetFiles,
    threads: usize,
    positions: usize,
    kv: KvFormat,
) -> Result<CpuTarget, LoadError> {
    let request = LoadRequest {
        config: &files.config,
        source: files.weights.as_ref(),
        pool: Arc::new(Pool::new(threads)),
        capacity: positions,
        kv,
    };
    CpuTarget::load(&request, &mut |_| {})
}

/// Random weights of a known shape, with room for `positions`.
///
/// # Errors
/// [`LoadError`].
pub fn random_cpu(
    shape: KnownShape,
    format: Format,
    threads: usize,
    positions: usize,
) -> Result<CpuTarget, LoadError> {
    let pool = Arc::new(Pool::new(threads));
    CpuTarget::random(&shape.config(), format, 1, pool, positions, KvFormat::F16)
}
