//! The GPU backend: wgpu (Vulkan, Metal, DirectX 12) and shaders of our own, so that the build
//! needs no toolkit and any card will do. What draft heads, small models and a target's blocks
//! share there. Must never know fusion, trees or why a device was chosen.
//!
//! From the bottom up: `error`, `traffic`, `device` (one opened device with its counters),
//! `buffer`, `kernels` (the shaders and their pipelines), `step` (a kernel with its buffers, and
//! the recording of a pass), `probe` (what the way there takes), `encode` and `matrix` (weights as
//! they lie on the device), `norm`, `streamed` (those that come and go), `cache`, `places`,
//! `block_steps` (how one block runs), `block` (some of them) and `scores`, `layers` (a target's
//! first), `prefill` (all of them, for prompts alone), `model` (a whole one) with `target` and
//! `draft`.
//!
//! Exactness: every kernel makes a row's numbers in one order, whatever rows go with it. So on one
//! device a token's logits inside a tree are the bits of plain decoding. Between devices they are
//! not: each compiler of shaders rounds its own way.

mod block;
mod block_steps;
mod buffer;
mod cache;
mod device;
mod draft;
mod encode;
mod error;
mod kernels;
mod layers;
mod matrix;
mod model;
mod norm;
mod places;
mod prefill;
mod probe;
mod scores;
mod step;
mod streamed;
mod target;
mod traffic;

pub(super) use block::{Blocks, Shape};
pub(super) use buffer::Buffer;
pub use device::{Gpu, GpuLimits};
pub(super) use device::{bytes_of, bytes_of_words, floats_of};
pub use draft::GpuDraft;
pub use error::GpuError;
pub(super) use kernels::Kernel;
pub(super) use layers::{GpuLayers, STREAMED_SLICE};
pub(super) use matrix::{GpuMatrix, Product, UploadError};
pub(super) use norm::{Columns, norm_step};
pub(super) use places::Rows;
pub(super) use prefill::GpuPrefill;
pub(super) use scores::Scores;
pub(super) use step::{Grid, Recorder, Step};
pub use target::GpuTarget;
pub use traffic::{Traffic, TrafficMeter};
