//! The GPU backend: wgpu (Vulkan, Metal, DirectX 12) and our own shaders, so that the build needs
//! no toolkit and runs on any card. Draft heads, small models and a target's blocks share it. It
//! must not depend on fusion, trees or why a device was chosen.
//!
//! From the bottom up: `error`, `traffic`, `device` (one open device with its counters), `buffer`,
//! `kernels` (the shaders and their pipelines), `step` (a kernel with its buffers, and the
//! recording of a pass), `probe` (how long transfers take), `encode` and `matrix` (weights as the
//! device stores them), `maker` (products, norms and other kernels as steps), `streamed` (weights
//! sent in every pass), `cache`, `places`, `block_steps` (how one block runs), `block` (several
//! blocks) and `scores`, `layers` (a target's first blocks), `prefill` (all blocks, only for
//! prompts), `model` (a whole model), `draft` and `dflash`.
//!
//! Exactness: every kernel computes a row's numbers in one order, independent of the other rows. So
//! on one device a token's logits inside a tree have the bits of plain decoding. They differ
//! between devices, because shader compilers round differently.

mod block;
mod block_steps;
mod buffer;
mod cache;
mod device;
mod dflash;
mod draft;
mod encode;
mod error;
mod kernels;
mod layers;
mod maker;
mod matrix;
mod model;
mod places;
mod prefill;
mod probe;
mod scores;
mod step;
mod streamed;
mod traffic;

pub(super) use block::{BlockShape, GpuBlocks};
pub(super) use buffer::GpuBuffer;
pub use device::{Gpu, GpuLimits};
pub(super) use device::{bytes_of, bytes_of_words, floats_of};
pub use dflash::GpuDflash;
pub use draft::GpuDraft;
pub use error::GpuError;
pub(super) use kernels::Shader;
pub(super) use layers::{STREAMED_SLICE, encoder, load_blocks, load_fitting, stream_blocks};
pub(super) use maker::{GpuNorm, GpuProduct, StepMaker};
pub(super) use matrix::GpuMatrix;
pub(super) use model::GpuModel;
pub(super) use places::PassRows;
pub(super) use scores::{LmHead, Scores};
pub(super) use step::{PassRecorder, ShaderStep};
pub use traffic::{Traffic, TrafficMeter};
