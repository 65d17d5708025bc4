//! The speculation algorithm without tensors: the draft tree, its growth and reranking, the
//! acceptance walk, the sampler and its noise. Must never know devices, models or text.

mod sampler;
mod tree;

pub use sampler::SamplerSettings;
pub use tree::{Node, Shape, Tree};
