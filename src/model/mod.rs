//! The decoder-only transformer as functions of tensors: configuration, KV cache, RoPE, tree
//! attention, the target and a small model on the CPU, the draft head, what two vocabularies share.
//! It must not depend on files or chat.
//!
//! Each backend has a folder, `cpu` and `gpu`, with its block, KV cache and weights; the files next
//! to these folders hold what the backends share. [`head`] puts a draft head on either backend,
//! `placed` the parts of a target on their devices.

mod block_options;
mod candle;
mod config;
mod cpu;
mod dflash;
mod gpu;
pub mod head;
mod hf_config;
mod hf_families;
mod hf_fields;
mod hf_local_heads;
mod hf_options;
mod hf_recurrent;
mod load_error;
mod load_request;
mod lower;
mod narrowed;
mod placed;
mod prompts;
mod random;
mod repacked;
mod rope;
mod small;
mod taps;
mod target;
mod vocabulary;
pub mod weights;

pub use block_options::{
    BlockOptions, Experts, Gating, LatentAttention, LocalHeads, NormKind, QkNorm, RecurrentLayers,
    SlidingWindow,
};
pub use candle::{
    CANDLE_CHECKPOINTS, CandleFiles, CandleModel, CandleRow, CandleTarget, ModelEngine,
};
#[cfg(test)]
pub(crate) use config::tests::small as config_for_tests;
pub use config::{Config, ConfigError, RopeLayout};
pub use cpu::{
    CpuBatch, CpuDflash, CpuDraft, CpuTarget, DflashModel, DflashPasses, PassTiming, Progress,
};
pub use dflash::DflashConfig;
pub use gpu::{Gpu, GpuDflash, GpuDraft, GpuError, GpuLimits, Traffic, TrafficMeter};
pub use hf_families::{ARCHITECTURES, ArchitectureRow};
pub(crate) use hf_families::{Family, OF_GGUF, SHARED_WIDTH};
pub(crate) use hf_recurrent::MULTIPLIERS;
pub use load_error::LoadError;
pub use load_request::LoadRequest;
pub use narrowed::Narrowed;
pub use placed::{PlacedTarget, TargetFallback, TargetPlace};
pub use prompts::{LEAST_PROMPT, MOST_PROMPT_ROWS};
pub use random::{KnownShape, RandomWeights};
pub use repacked::Repacked;
pub use rope::{RopeScaling, RopeTable, frequencies};
pub use small::{SmallLm, TOKEN_GROUP};
pub use taps::FeatureSource;
pub use target::{Target, TargetError, Verified};
pub use vocabulary::{Piece, PieceKind, SharedVocabulary};
pub use weights::{MappedBytes, PackedStore, RawTensor, WeightError, WeightSource};
