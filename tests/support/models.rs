//! The numbers of a small model, whose fields tests change, and models on the CPU.

use std::sync::Arc;

use dovetail::kernels::{Activation, KvFormat, Pool};
use dovetail::model::{
    BlockOptions, Config, CpuDraft, CpuTarget, KnownShape, LoadRequest, NormKind, QkNorm,
    RopeLayout, SlidingWindow, WeightSource,
};

/// A target of these weights with a cache for `capacity` positions.
pub fn load_target(
    config: &Config,
    source: &dyn WeightSource,
    pool: impl Into<Arc<Pool>>,
    capacity: usize,
    kv: KvFormat,
) -> CpuTarget {
    let request = LoadRequest::new(config, source, pool.into(), capacity, kv);
    CpuTarget::load(&request).unwrap()
}

/// A drafting model of these weights with a cache for `capacity` positions.
pub fn load_small(
    config: &Config,
    source: &dyn WeightSource,
    pool: impl Into<Arc<Pool>>,
    capacity: usize,
    kv: KvFormat,
) -> CpuDraft {
    let request = LoadRequest::new(config, source, pool.into(), capacity, kv);
    CpuDraft::load(&request).unwrap()
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

/// What families change in a block, as far as the kernels of a GPU support it.
pub fn families(base: Config) -> Vec<(&'static str, Config)> {
    let block = |options: BlockOptions| Config { block: options, ..base.clone() };
    let layers = (0..base.layers).map(|layer| layer % 2 == 0).collect();
    let windowed = BlockOptions {
        window: Some(SlidingWindow { size: 9, layers }),
        attention_softcap: Some(20.0),
        final_softcap: Some(15.0),
        attention_scale: Some(0.3),
        local_rope_theta: Some(500.0),
        ..BlockOptions::default()
    };
    let scaled = BlockOptions {
        activation: Activation::GeluTanh,
        embedding_scale: 3.0,
        residual_scale: 0.5,
        logit_divisor: 2.0,
        rotary_dim: Some(8),
        no_rope_every: 2,
        ..BlockOptions::default()
    };
    let parallel = BlockOptions {
        norm: NormKind::LayerWithoutBias,
        parallel: true,
        qk_norm: QkNorm::LayerPerHead,
        logit_divisor: 4.0,
        ..BlockOptions::default()
    };
    vec![
        ("plain", base.clone()),
        ("biases", Config { qkv_bias: true, o_bias: true, ..base.clone() }),
        ("norms of heads", Config { qk_norm: true, tied_head: true, ..base.clone() }),
        ("interleaved", Config { rope_layout: RopeLayout::Interleaved, ..base.clone() }),
        ("window and caps", block(windowed)),
        ("scales", block(scaled)),
        ("in parallel", block(parallel)),
        ("no gate", block(BlockOptions { gated: false, ..BlockOptions::default() })),
    ]
}
