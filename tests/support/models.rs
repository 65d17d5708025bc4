//! The numbers of a small model, whose fields tests change, and models on the CPU.

use std::sync::Arc;

use dovetail::kernels::{KvFormat, Pool};
use dovetail::model::{Config, CpuDraft, CpuTarget, KnownShape, LoadRequest, WeightSource};

/// A target of these weights with a cache for `capacity` positions.
pub fn load_target(
    config: &Config,
    source: &dyn WeightSource,
    pool: impl Into<Arc<Pool>>,
    capacity: usize,
    kv: KvFormat,
) -> CpuTarget {
    let request = LoadRequest { config, source, pool: pool.into(), capacity, kv };
    CpuTarget::load(&request, &mut |_| {}).unwrap()
}

/// A drafting model of these weights with a cache for `capacity` positions.
pub fn load_small(
    config: &Config,
    source: &dyn WeightSource,
    pool: impl Into<Arc<Pool>>,
    capacity: usize,
    kv: KvFormat,
) -> CpuDraft {
    let request = LoadRequest { config, source, pool: pool.into(), capacity, kv };
    CpuDraft::load(&request, &mut |_| {}).unwrap()
}

pub fn small_config() -> Config {
    Config {
        vocab: 70,
        hidden: 64,
        intermediate: 96,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        max_positions: 512,
        ..KnownShape::B1.config()
    }
}
