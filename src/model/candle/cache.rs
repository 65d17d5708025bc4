//! KV caches as candle tensors: one buffer per block, with committed rows first and the tree's
//! scratch rows after them. The caller keeps count of the committed rows. It must not depend on
//! tokens or trees.

use candle_core::{DType, Device, Tensor};

/// Keys and values of one block, `[kv_heads, room, d]` each, allocated in advance.
#[derive(Clone, Debug)]
pub struct BlockCache {
    keys: Tensor,
    values: Tensor,
}

impl BlockCache {
    fn new(
        kv_heads: usize,
        room: usize,
        head_dim: usize,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Self> {
        let zeros = || Tensor::zeros((kv_heads, room, head_dim), dtype, device);
        Ok(Self { keys: zeros()?, values: zeros()? })
    }

    /// Writes rows `[kv_heads, rows, d]` to `at..at + rows`.
    ///
    /// # Errors
    /// If they do not fit or the device fails.
    pub fn write(&self, at: usize, keys: &Tensor, values: &Tensor) -> candle_core::Result<()> {
        self.keys.slice_set(&keys.contiguous()?, 1, at)?;
        self.values.slice_set(&values.contiguous()?, 1, at)
    }

    /// The first `len` rows, `[kv_heads, len, d]`, as views.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn read(&self, len: usize) -> candle_core::Result<(Tensor, Tensor)> {
        Ok((self.keys.narrow(1, 0, len)?, self.values.narrow(1, 0, len)?))
    }

    fn bytes(&self) -> u64 {
        2 * (self.keys.elem_count() * self.keys.dtype().size_in_bytes()) as u64
    }
}

/// The caches of all blocks. They grow by doubling, so that a long context takes memory only when
/// it is used.
#[derive(Debug)]
pub struct TensorCache {
    blocks: Vec<BlockCache>,
    room: usize,
}

impl TensorCache {
    const FIRST_ROOM: usize = 512;

    /// Empty caches for `blocks` blocks.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(
        blocks: usize,
        kv_heads: usize,
        head_dim: usize,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Self> {
        let room = Self::FIRST_ROOM;
        let new = |_| BlockCache::new(kv_heads, room, head_dim, dtype, device);
        Ok(Self { blocks: (0..blocks).map(new).collect::<candle_core::Result<_>>()?, room })
    }

    /// Makes room for `rows` rows in each block; the first `keep` rows are preserved.
    ///
    /// # Errors
    /// If the device has no room; the caches are then unchanged.
    pub fn reserve(&mut self, rows: usize, keep: usize) -> candle_core::Result<()> {
        if rows <= self.room {
            return Ok(());
        }
        let room = rows.next_power_of_two();
        let grown = self.blocks.iter().map(|old| {
            let (kv_heads, _, head_dim) = old.keys.dims3()?;
            let new =
                BlockCache::new(kv_heads, room, head_dim, old.keys.dtype(), old.keys.device())?;
            if keep > 0 {
                let (keys, values) = old.read(keep)?;
                new.write(0, &keys, &values)?;
            }
            Ok(new)
        });
        self.blocks = grown.collect::<candle_core::Result<_>>()?;
        self.room = room;
        Ok(())
    }

    /// The cache of one block.
    pub fn block(&self, block: usize) -> &BlockCache {
        &self.blocks[block]
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(BlockCache::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_keeps_the_stable_rows() {
        let mut cache = TensorCache::new(2, 2, 4, DType::F32, &Device::Cpu).unwrap();
        let before = cache.bytes();
        let rows = Tensor::arange(0f32, 24.0, &Device::Cpu).unwrap().reshape((2, 3, 4)).unwrap();
        cache.block(1).write(5, &rows, &rows.neg().unwrap()).unwrap();
        cache.reserve(600, 8).unwrap();
        assert_eq!(cache.bytes(), 2 * before);
        let (keys, values) = cache.block(1).read(8).unwrap();
        let flat = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let kept = keys.narrow(1, 5, 3).unwrap().contiguous().unwrap();
        assert_eq!(flat(&kept), flat(&rows));
        let kept = values.narrow(1, 5, 3).unwrap().contiguous().unwrap();
        assert_eq!(flat(&kept), flat(&rows.neg().unwrap()));
        assert!(cache.block(0).write(1023, &rows, &rows).is_err());
    }
}
