//! Why a model could not be loaded, on whatever backend. Must never know files.

use super::WeightError;
use crate::kernels::OutOfMemory;

/// Why a target could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// A weight is missing, misshapen or unreadable.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// No memory for the KV cache.
    #[error("the KV cache for {capacity} positions: {error}")]
    Cache {
        /// Positions asked for.
        capacity: usize,
        /// Why.
        error: OutOfMemory,
    },
    /// The device that was to hold the first blocks cannot.
    #[error("{layers} blocks of the target on the GPU: {reason}; lower or leave out `gpu_layers`")]
    Device {
        /// Blocks asked for.
        layers: usize,
        /// Why.
        reason: String,
    },
    /// A context that the model was not made for.
    #[error(
        "a context of {capacity} was asked for; this model takes 1 to {most}: change `context`"
    )]
    Capacity {
        /// Positions asked for.
        capacity: usize,
        /// Positions the model was made for.
        most: usize,
    },
}
