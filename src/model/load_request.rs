//! What a model is loaded from and for, on whatever backend. Must never know files.

use std::sync::Arc;

use super::{Config, LoadError, WeightSource};
use crate::kernels::{KvFormat, Pool};

/// What a model is loaded from and for.
#[derive(Clone)]
pub struct LoadRequest<'a> {
    /// Shape and constants.
    pub config: &'a Config,
    /// The weights.
    pub source: &'a dyn WeightSource,
    /// Threads that pack them and then compute.
    pub pool: Arc<Pool>,
    /// Positions of the KV cache.
    pub capacity: usize,
    /// Elements of the KV cache.
    pub kv: KvFormat,
}

impl LoadRequest<'_> {
    /// # Errors
    /// [`LoadError::Capacity`] if the model was not made for so many positions.
    pub(super) fn check_capacity(&self) -> Result<(), LoadError> {
        let (capacity, most) = (self.capacity, self.config.max_positions);
        if capacity == 0 || capacity > most {
            return Err(LoadError::Capacity { capacity, most });
        }
        Ok(())
    }
}
