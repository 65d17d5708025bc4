//! What a model is loaded from and for, on any backend. It must not depend on files.

use std::sync::Arc;

use super::{Config, LoadError, Progress, WeightSource};
use crate::kernels::{KvFormat, Pool};

/// What a model is loaded from and for.
#[derive(Clone)]
pub struct LoadRequest<'a> {
    /// Shape and constants.
    pub config: &'a Config,
    /// The weights.
    pub source: &'a dyn WeightSource,
    /// The threads that pack the weights and then compute.
    pub pool: Arc<Pool>,
    /// How many positions the KV cache holds.
    pub capacity: usize,
    /// The number format of the KV cache.
    pub kv: KvFormat,
    /// Called after every block.
    pub progress: &'a dyn Fn(Progress),
}

impl<'a> LoadRequest<'a> {
    /// A request that reports no progress.
    pub fn new(
        config: &'a Config,
        source: &'a dyn WeightSource,
        pool: Arc<Pool>,
        capacity: usize,
        kv: KvFormat,
    ) -> Self {
        Self { config, source, pool, capacity, kv, progress: &|_| {} }
    }

    /// # Errors
    /// [`LoadError::Capacity`] if the model was not made for so many positions.
    pub(super) fn check_capacity(&self) -> Result<(), LoadError> {
        let capacity = self.capacity;
        let most = self.config.max_positions;
        if capacity == 0 || capacity > most {
            return Err(LoadError::Capacity { capacity, most });
        }
        Ok(())
    }
}
