//! Why a model could not be loaded, on any backend. It must not depend on files.

use super::WeightError;
use crate::kernels::OutOfMemory;

/// Why a target could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// A weight is missing, misshapen or unreadable.
    #[error(transparent)]
    Weights(WeightError),
    /// There is not enough memory for the KV cache.
    #[error("cannot make a KV cache for {capacity} positions: {error}")]
    Cache {
        /// The requested number of positions.
        capacity: usize,
        /// The reason.
        error: OutOfMemory,
    },
    /// The device that was to hold it, or a part of it, cannot do so.
    #[error("{0}")]
    Device(String),
    /// The requested context is longer than the model was made for.
    #[error("`context` is {capacity}, but this model supports 1 to {most}; change `context`")]
    Capacity {
        /// The requested number of positions.
        capacity: usize,
        /// How many positions the model was made for.
        most: usize,
    },
    /// candle-transformers cannot build its model.
    #[error("candle-transformers cannot load this model: {0}")]
    Candle(String),
    /// Our engine is needed, and does not know the architecture.
    #[error(
        "only candle-transformers runs this architecture, and this needs a model that Dovetail's \
        own engine runs; the guide's page `architectures` lists them"
    )]
    OtherEngine,
}

impl From<WeightError> for LoadError {
    fn from(error: WeightError) -> Self {
        match error {
            WeightError::Device { reason, .. } => Self::Device(reason),
            other => Self::Weights(other),
        }
    }
}
