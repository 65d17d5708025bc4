//! What a model is loaded from and for, on whatever backend. Must never know files.

use std::sync::Arc;

use super::{Config, WeightSource};
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
