//! The numbers of a small model, to be changed by name.

use dovetail::model::{Config, RopeLayout, RopeScaling};

pub fn small_config() -> Config {
    Config {
        vocab: 70,
        hidden: 64,
        intermediate: 96,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        rms_eps: 1e-5,
        rope_theta: 10_000.0,
        rope_scaling: RopeScaling::None,
        rope_layout: RopeLayout::Halves,
        qkv_bias: false,
        o_bias: false,
        qk_norm: false,
        tied_head: false,
        max_positions: 512,
        block: Default::default(),
    }
}
