//! The draft head (method.md, Draft heads): DGF or EAGLE fusion and M Llama blocks that estimate
//! the target's next feature. Owns the head's weights, its stable KV and its tree rows; must never
//! know how a tree is grown, where the weights lie on disk or why its device was chosen.
//!
//! [`HeadBackend`] is what drafting needs of a head. [`TensorHead`] computes it with candle on any
//! device; [`PackedHead`] with the CPU's kernels, several times faster there; [`GpuHead`] with our
//! own shaders on any GPU.

mod backend;
mod config;
mod draft_vocab;
mod eagle3;
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

/// Why a head cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HeadError {
    /// Its `config.json` does not describe a head that can be run.
    #[error("draft head: {0}")]
    Config(#[from] super::ConfigError),
    /// It was made for another target.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// Tensors are missing, unknown or misshapen; all of them are named.
    #[error("the draft head's tensors do not match its config.json:\n  {}", .problems.join("\n  "))]
    Weights {
        /// One line a tensor.
        problems: Vec<String>,
    },
    /// A tensor that should be there could not be read.
    #[error("the draft head's tensor `{name}` cannot be read: {reason}; is the file damaged?")]
    Unreadable {
        /// Its name in the file.
        name: String,
        /// What the reader said.
        reason: String,
    },
    /// The device failed or is full.
    #[error("the draft device failed: {0}")]
    Device(String),
}

impl From<candle_core::Error> for HeadError {
    fn from(error: candle_core::Error) -> Self {
        Self::Device(error.to_string())
    }
}
