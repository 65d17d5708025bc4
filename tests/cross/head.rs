//! `src/model/head/mod.rs` without the backend on a GPU.
#![allow(dead_code, unused_imports)]

#[path = "../../src/model/head/assistant.rs"]
mod assistant;
#[path = "../../src/model/head/backend.rs"]
mod backend;
#[path = "../../src/model/head/chained.rs"]
mod chained;
#[path = "../../src/model/head/config.rs"]
mod config;
#[path = "../../src/model/head/draft_vocab.rs"]
mod draft_vocab;
#[path = "../../src/model/head/eagle3.rs"]
mod eagle3;
#[path = "../../src/model/head/error.rs"]
mod error;
#[path = "../../src/model/head/kind.rs"]
mod kind;
#[path = "../../src/model/head/misfit.rs"]
mod misfit;
#[path = "../../src/model/head/mtp.rs"]
mod mtp;
#[path = "no_gpu.rs"]
mod no_gpu;
#[path = "../../src/model/head/pack.rs"]
mod pack;
#[path = "../../src/model/head/packed_head.rs"]
mod packed_head;
#[path = "../../src/model/head/request.rs"]
mod request;
#[path = "../../src/model/head/shared_tables.rs"]
mod shared_tables;
#[path = "../../src/model/head/weights/mod.rs"]
mod weights;

pub use assistant::{AssistantConfig, AssistantHead};
pub use backend::{Candidates, FeatureOrigin, HeadBackend, Pairs, TREE_ROWS};
pub use chained::ChainedHeads;
pub use config::HeadConfig;
pub use draft_vocab::DraftVocabulary;
pub use eagle3::{Eagle3Config, TapNorm, TappedStates};
pub use error::HeadError;
pub use kind::{FusionKind, HeadKind};
pub use misfit::Misfit;
pub use mtp::{MTP, MtpConfig};
pub use no_gpu::{Gpu, GpuHead};
pub use pack::DraftPrecision;
pub(super) use pack::bytes_in;
pub use packed_head::PackedHead;
pub use request::HeadRequest;
pub use shared_tables::SharedTables;
pub(super) use shared_tables::rows_of;
pub use weights::{HeadWeights, TensorSource, layout};
