//! The speculation algorithm without tensors: the draft tree, its growth and reranking, the
//! acceptance walk, the sampler and its noise, and texts sorted for retrieval. It must not depend
//! on devices, models or text.

mod accept;
mod coupling;
mod drafter_id;
pub mod duo;
mod grow;
mod history;
mod logprobs;
mod merge;
pub mod ngrams;
mod noise;
mod ranking;
mod rate;
mod rows;
mod sampler;
mod sources;
pub mod suffix_tree;
pub mod suffixes;
mod tree;

pub use accept::{Accepted, accept, no_number};
pub use coupling::Coupling;
pub use drafter_id::DrafterId;
pub use grow::{BeamRow, Growth, SEARCH_BEAM, SEARCH_DECAY};
pub use history::TokenUses;
pub use logprobs::{Filter, LIKELIEST, Likely, LogProb, Logprobs};
pub use merge::{ModelRates, merged};
pub use noise::Noise;
pub use ranking::Ranking;
pub(crate) use rate::Rate;
pub use rows::{argmax, log_softmax, top_k, top_log_probs};
pub use sampler::{Sampler, SamplerSettings};
pub use sources::{Credits, Sources};
pub use tree::{Budget, Method, Node, Shape, Tree};
