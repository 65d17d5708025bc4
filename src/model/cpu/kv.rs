//! The KV cache of a model on the CPU, allocated once.

use crate::kernels::{KvCache, KvFormat};
use crate::model::{Config, LoadError};

/// A cache of `layers` blocks of `config` for `capacity` positions and `in_flight` rows behind
/// them.
///
/// # Errors
/// [`LoadError::Capacity`] if the model was not made for so many positions; [`LoadError::Cache`]
/// if there is no memory.
pub(super) fn allocate(
    config: &Config,
    layers: usize,
    capacity: usize,
    in_flight: usize,
    kv: KvFormat,
) -> Result<KvCache, LoadError> {
    let most = config.max_positions;
    if capacity == 0 || capacity > most {
        return Err(LoadError::Capacity { capacity, most });
    }
    let slots = capacity.saturating_add(in_flight);
    KvCache::new(layers, config.kv_heads, config.head_dim, slots, kv)
        .map_err(|error| LoadError::Cache { capacity: slots, error })
}
