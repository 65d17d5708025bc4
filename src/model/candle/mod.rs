//! The candle backend: decoder blocks, their KV cache and weights as tensors on any device that
//! candle supports. A draft head and the first blocks of a split target share it. It must not
//! depend on fusion, trees or why a device was chosen.

mod block;
mod cache;
mod layers;
mod table;
mod weights;

pub use block::Places;
pub(super) use block::{Block, linear};
pub use cache::{BlockCache, TensorCache};
pub use layers::DeviceLayers;
pub(super) use layers::TensorLayers;
pub use table::Table;
pub use weights::{BlockWeights, Linear};
