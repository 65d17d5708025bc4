//! The decoder-only transformer as functions of tensors: configuration, KV cache, RoPE, tree
//! attention, the target and a small model on the CPU, the draft head, what two vocabularies share.
//! Must never know files or chat.

mod block_options;
mod config;
mod cpu;
pub mod head;
mod hf_config;
mod hf_families;
mod random;
mod rope;
mod small;
mod split;
mod target;
mod vocabulary;
pub mod weights;

pub use block_options::{BlockOptions, Experts, Gating, LatentAttention, NormKind, SlidingWindow};
#[cfg(test)]
pub(crate) use config::tests::small as config_for_tests;
pub use config::{Config, ConfigError, RopeLayout};
pub use cpu::{CpuDraft, CpuTarget, LoadError, PassTiming, Progress};
pub use random::{KnownShape, RandomWeights};
pub use rope::{RopeScaling, RopeTable, frequencies};
pub use small::{Branch, SmallLm};
pub use split::{DeviceLayers, SplitTarget};
pub use target::{Target, TargetError, Verified};
pub use vocabulary::{Piece, PieceKind, SharedVocabulary};
pub use weights::{RawTensor, WeightError, WeightSource};
