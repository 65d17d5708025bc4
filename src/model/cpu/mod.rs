//! Models on the CPU: packed weights, a KV cache allocated once, and passes through the
//! row-invariant kernels. A token's logits and feature have the same bits whether it came in a
//! prompt, alone, or as a node of a tree. It must not depend on files.

mod batch;
mod block;
mod dflash;
mod dflash_model;
mod draft;
mod experts;
mod latent;
pub(super) mod layer;
mod mlp;
mod model;
pub(super) mod packer;
mod pass;
mod per_layer;
mod recurrent;
pub(super) mod scratch;
mod target;
mod weights;

pub use batch::CpuBatch;
pub use dflash::CpuDflash;
pub(super) use dflash::dflash_layer;
pub use dflash_model::{DflashModel, DflashPasses};
pub use draft::CpuDraft;
pub use packer::Progress;
pub use scratch::PassTiming;
pub use target::CpuTarget;

/// How many rows of a prompt pass together: enough that arithmetic and not memory is the limit, few
/// enough that the buffers stay small.
const CHUNK: usize = 256;
