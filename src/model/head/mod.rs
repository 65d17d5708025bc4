//! The draft head (method.md, Draft heads): DGF or EAGLE fusion and M Llama blocks that estimate
//! the target's next feature. It owns the head's weights, its stable KV and its tree rows. It must
//! not depend on how a tree is grown, where the weights are on disk or why its device was chosen.
//!
//! [`HeadBackend`] is what drafting needs of a head. [`PackedHead`] computes it with the CPU's
//! kernels, [`GpuHead`] on a GPU. The trainer computes the same with gradients
//! ([`DraftNet`](crate::train::DraftNet)), which is also the reference in tests.

mod assistant;
mod backend;
mod chained;
mod config;
mod draft_vocab;
mod eagle3;
mod error;
mod gpu_fusion;
mod gpu_head;
mod kind;
mod misfit;
mod mtp;
mod pack;
mod packed_head;
mod request;
mod shared_tables;
mod weights;

pub use assistant::{AssistantConfig, AssistantHead};
pub use backend::{Candidates, FeatureOrigin, HeadBackend, Pairs, TREE_ROWS};
pub use chained::ChainedHeads;
pub use config::HeadConfig;
pub use draft_vocab::DraftVocabulary;
pub use eagle3::{Eagle3Config, TapNorm, TappedStates};
pub use error::HeadError;
pub use gpu_head::GpuHead;
pub(super) use gpu_head::upload_table;
pub use kind::{FusionKind, HeadKind};
pub use misfit::Misfit;
pub use mtp::{MTP, MtpConfig};
pub use pack::DraftPrecision;
pub(super) use pack::bytes_in;
pub use packed_head::PackedHead;
pub use request::HeadRequest;
pub use shared_tables::SharedTables;
pub(super) use shared_tables::rows_of;
pub(crate) use shared_tables::to_tensor;
pub(crate) use weights::stored_as;
pub use weights::{HeadWeights, TensorSource, layout};
