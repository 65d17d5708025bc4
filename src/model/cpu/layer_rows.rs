//! The KV cache of a target, as another device that runs the target's blocks reads and fills it. It
//! must not depend on which device.

use crate::kernels::{KvCache, Pool};

/// The committed positions and the rows of a pass after them, block by block.
pub(in crate::model) struct LayerRows<'a> {
    pub(super) cache: &'a mut KvCache,
    pub(super) pool: &'a Pool,
}

impl LayerRows<'_> {
    /// Keys and values of a block's first `count` positions, as [`KvCache::slots`] gives them.
    pub(in crate::model) fn before(&self, block: usize, count: usize) -> Vec<u8> {
        self.cache.slots(block, count)
    }

    /// Stores the keys and values of a pass's rows in a block, `[rows, kv width]` each.
    pub(in crate::model) fn keep(&mut self, block: usize, keys: &[f32], values: &[f32]) {
        self.cache.write(self.pool, block, keys, values);
    }
}
