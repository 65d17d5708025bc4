//! The candle backend: decoder blocks, their KV cache and weights as tensors on any device that
//! candle supports.

mod block;
mod cache;
mod table;
mod weights;

pub use block::Places;
pub(super) use block::{Block, linear};
pub use cache::{BlockCache, TensorCache};
pub use table::Table;
pub use weights::{BlockWeights, Linear};
