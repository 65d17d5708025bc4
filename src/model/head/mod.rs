//! The draft head (method.md, Draft heads): DGF or EAGLE fusion and M Llama blocks that estimate
//! the target's next feature. It owns the head's weights, its stable KV and its tree rows. It must
//! not depend on how a tree is grown, where the weights are on disk or why its device was chosen.
//!
//! [`HeadBackend`] is what drafting needs of a head. [`TensorHead`] computes it with candle on any
//! device, [`PackedHead`] with the CPU's kernels, which are several times faster there; [`GpuHead`]
//! uses our own shaders on any GPU.

mod backend;
mod config;
mod draft_vocab;
mod eagle3;
mod error;
mod gpu_fusion;
mod gpu_head;
mod kind;
mod misfit;
mod net;
mod net_eagle3;
mod pack;
mod packed_eagle3;
mod packed_head;
mod rank;
mod shared_tables;
mod tensor_head;
mod weights;

pub use backend::{Candidates, HeadBackend, Origin, Pairs};
pub use config::HeadConfig;
pub use draft_vocab::DraftVocabulary;
pub use eagle3::{Eagle3Config, TapNorm, Taps};
pub use error::HeadError;
pub use gpu_head::GpuHead;
pub use kind::FusionKind;
pub use misfit::Misfit;
pub use net::{Fused, HeadNet};
pub use pack::HeadPrecision;
pub use packed_head::PackedHead;
pub use rank::rank_tensor;
pub use shared_tables::SharedTables;
pub use tensor_head::TensorHead;
pub use weights::{Eagle3Weights, FusionWeights, HeadWeights, TappedWeights, TensorSource, layout};

pub use super::candle::{BlockCache, BlockWeights, Linear, Places, Table, TensorCache};
