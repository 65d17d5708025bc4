//! `src/model/mod.rs` without the GPU backend and what depends on it.
// What only those use is unused here.
#![allow(dead_code, unused_imports)]

#[path = "../../src/model/block_options.rs"]
mod block_options;
#[path = "../../src/model/config.rs"]
mod config;
#[path = "../../src/model/cpu/mod.rs"]
mod cpu;
#[path = "../../src/model/dflash.rs"]
mod dflash;
#[path = "head.rs"]
pub mod head;
#[path = "../../src/model/hf_config.rs"]
mod hf_config;
#[path = "../../src/model/hf_families.rs"]
mod hf_families;
#[path = "../../src/model/hf_fields.rs"]
mod hf_fields;
#[path = "../../src/model/hf_local_heads.rs"]
mod hf_local_heads;
#[path = "../../src/model/hf_options.rs"]
mod hf_options;
#[path = "../../src/model/hf_recurrent.rs"]
mod hf_recurrent;
#[path = "../../src/model/load_error.rs"]
mod load_error;
#[path = "../../src/model/load_request.rs"]
mod load_request;
#[path = "../../src/model/lower.rs"]
mod lower;
#[path = "../../src/model/narrowed.rs"]
mod narrowed;
#[path = "../../src/model/random.rs"]
mod random;
#[path = "../../src/model/rope.rs"]
mod rope;
#[path = "../../src/model/small.rs"]
mod small;
#[path = "../../src/model/taps.rs"]
mod taps;
#[path = "../../src/model/target.rs"]
mod target;
#[path = "../../src/model/gpu/traffic.rs"]
mod traffic;
#[path = "../../src/model/vocabulary.rs"]
mod vocabulary;
#[path = "../../src/model/weights.rs"]
pub mod weights;

/// An architecture that candle-transformers runs.
pub struct CandleRow {
    pub model_type: &'static str,
}

/// None: candle-transformers is left out.
pub const CANDLE_CHECKPOINTS: &[CandleRow] = &[];

pub use block_options::{
    BlockOptions, Experts, Gating, LatentAttention, LocalHeads, NormKind, QkNorm, RecurrentLayers,
    SlidingWindow,
};
pub use config::{Config, ConfigError, RopeLayout};
pub use cpu::{
    CpuBatch, CpuDflash, CpuDraft, CpuTarget, DflashModel, DflashPasses, PassTiming, Progress,
};
pub use dflash::DflashConfig;
pub use load_error::LoadError;
pub use load_request::LoadRequest;
pub use narrowed::Narrowed;
pub use random::{KnownShape, RandomWeights};
pub use rope::{RopeScaling, RopeTable};
pub use small::{SmallLm, TOKEN_GROUP};
pub use taps::FeatureSource;
pub use target::{Target, TargetError, Verified};
pub use traffic::{Traffic, TrafficMeter};
pub use vocabulary::{Piece, PieceKind, SharedVocabulary};
pub use weights::{MappedBytes, PackedStore, RawTensor, WeightError, WeightSource};
