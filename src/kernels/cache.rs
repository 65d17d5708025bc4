//! The KV cache of all layers: allocated once, filled row by row, compacted in place. It deals with
//! positions, not tokens.
//!
//! Keys are stored in tiles of 16 positions, dimension by dimension, like weight rows in a product;
//! values are stored position by position. Positions `0..len` are committed. The rows of the pass
//! in flight occupy the slots after them until [`KvCache::commit`] keeps a path.

use super::lanes::element::{Element, F16, F32, Stored};
use super::lanes::{self, LANES, Lanes, Work};
use super::math;
use super::pages::{OutOfMemory, Pages};
use super::pool::{Pool, Shareable};

/// The number format of cached keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvFormat {
    /// 16-bit floats: half the memory; each number is rounded once, when it is written.
    #[default]
    F16,
    /// 32-bit floats.
    F32,
}

impl KvFormat {
    /// Bytes per number.
    pub fn size(self) -> usize {
        match self {
            KvFormat::F16 => F16::SIZE,
            KvFormat::F32 => F32::SIZE,
        }
    }

    /// Numbers in this format, as they are in memory.
    pub fn numbers(self, bytes: &[u8]) -> Vec<f32> {
        match self {
            KvFormat::F16 => {
                let halves = bytes.as_chunks().0.iter();
                halves.map(|&half| half::f16::from_ne_bytes(half).to_f32()).collect()
            }
            KvFormat::F32 => {
                bytes.as_chunks().0.iter().map(|&word| f32::from_ne_bytes(word)).collect()
            }
        }
    }
}

/// Keys and values of every layer.
pub struct KvCache {
    layers: usize,
    heads: usize,
    head_dim: usize,
    capacity: usize,
    pub(super) len: usize,
    format: KvFormat,
    /// `[layer][head][tile][head_dim][16]`.
    pub(super) keys: Pages,
    /// `[layer][head][slot][width]`.
    pub(super) values: Pages,
}

impl KvCache {
    /// An empty cache with `capacity` slots, which committed positions and rows in flight share.
    /// Each of `layers` layers has `heads` key and value heads of `head_dim` dimensions.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn new(
        layers: usize,
        heads: usize,
        head_dim: usize,
        capacity: usize,
        format: KvFormat,
    ) -> Result<Self, OutOfMemory> {
        let capacity = capacity.next_multiple_of(LANES);
        let rows = [layers, heads, capacity, format.size()]
            .into_iter()
            .fold(1usize, usize::saturating_mul);
        let keys = Pages::zeroed(rows.saturating_mul(head_dim))?;
        let values = Pages::zeroed(rows.saturating_mul(head_dim.next_multiple_of(LANES)))?;
        Ok(Self { layers, heads, head_dim, capacity, len: 0, format, keys, values })
    }

    /// How many positions are committed.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no position is committed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many slots there are, rounded up to whole tiles of 16.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many layers there are.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// How many key and value heads there are.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// How many dimensions a head has.
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// The number format of keys and values.
    pub fn format(&self) -> KvFormat {
        self.format
    }

    /// Bytes allocated; only those already written are resident.
    pub fn bytes(&self) -> usize {
        self.keys.len() + self.values.len()
    }

    /// Writes the keys and values of a pass's rows, `[m, heads · head_dim]` each, into the slots
    /// after the committed positions of `layer`, in the order of the rows.
    ///
    /// # Panics
    /// If the layer does not exist, the shapes differ or are not whole rows, or there is no room
    /// for the rows (check [`KvCache::capacity`] first).
    pub fn write(&mut self, pool: &Pool, layer: usize, keys: &[f32], values: &[f32]) {
        Self::write_each(pool, std::slice::from_mut(self), layer, 0, keys, values);
    }

    /// [`KvCache::write`] for several caches of one shape in one dispatch, after `rows` rows of
    /// earlier passes that are still in flight in each of them. The rows are divided equally: the
    /// first share goes to the first cache, and so on.
    ///
    /// # Panics
    /// As [`KvCache::write`], and if the caches differ in shape or the rows cannot be divided
    /// equally.
    pub fn write_each(
        pool: &Pool,
        caches: &mut [Self],
        layer: usize,
        rows: usize,
        keys: &[f32],
        values: &[f32],
    ) {
        let Some(first) = caches.first() else { return };
        let heads = first.heads;
        let head_dim = first.head_dim;
        let shape = first.shape();
        let row = heads * head_dim;
        assert!(layer < first.layers, "layer {layer} of {}", first.layers);
        assert!(keys.len() == values.len(), "a value for each key");
        assert!(keys.len().is_multiple_of(row * caches.len()), "rows of {row} for each cache");
        let m = keys.len() / row / caches.len();
        for cache in caches.iter() {
            let first = cache.len + rows;
            assert!(first + m <= cache.capacity, "{m} rows after {first} of {}", cache.capacity);
            assert_eq!(cache.shape(), shape, "caches of one shape");
        }
        let places: Vec<(usize, Planes)> =
            caches.iter_mut().map(|cache| (cache.len + rows, cache.planes())).collect();
        pool.run(places.len() * heads, |task| {
            let cache = task / heads;
            let head = task % heads;
            let (first, planes) = &places[cache];
            for r in 0..m {
                let at = (cache * m + r) * row + head * head_dim;
                let write = Write {
                    planes,
                    plane: layer * heads + head,
                    slot: first + r,
                    keys: &keys[at..][..head_dim],
                    values: &values[at..][..head_dim],
                };
                lanes::run(pool.isa(), write);
            }
        });
    }

    /// What must be equal in all caches of one pass: layers, heads, their dimensions, the format.
    pub(super) fn shape(&self) -> (usize, usize, usize, KvFormat) {
        (self.layers, self.heads, self.head_dim, self.format)
    }

    /// Commits the rows in `path` (ascending rows of the last pass) as the next positions, in all
    /// layers, in place. The other rows of the pass are dropped.
    ///
    /// # Panics
    /// If the rows do not ascend or were never in the cache.
    pub fn commit(&mut self, pool: &Pool, path: &[usize]) {
        assert!(path.windows(2).all(|p| p[0] < p[1]), "rows of a path ascend");
        assert!(path.iter().all(|&p| self.len + p < self.capacity), "rows within the cache");
        let first = self.len;
        let planes = self.planes();
        // An ascending path only moves rows to lower slots, so no row is overwritten before it is
        // read.
        if path.iter().enumerate().any(|(i, &p)| i != p) {
            pool.run(self.layers * self.heads, |plane| {
                for (i, &p) in path.iter().enumerate().filter(|&(i, &p)| i != p) {
                    // SAFETY: both slots are below the capacity; each plane belongs to one task.
                    unsafe { planes.copy(plane, first + p, first + i) };
                }
            });
        }
        self.len += path.len();
    }

    /// Rolls back to the first `len` positions; a longer `len` changes nothing.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The key tiles and the values of one head of one layer.
    pub(super) fn plane(&self, layer: usize, head: usize) -> Plane {
        let keys = self.keys.len();
        let values = self.values.len();
        let planes = self.layers * self.heads;
        let plane = layer * self.heads + head;
        Plane {
            keys: self.keys[keys / planes * plane..].as_ptr(),
            values: self.values[values / planes * plane..].as_ptr(),
        }
    }

    fn planes(&mut self) -> Planes {
        Planes {
            keys: Shareable(self.keys.as_mut_ptr()),
            values: Shareable(self.values.as_mut_ptr()),
            capacity: self.capacity,
            head_dim: self.head_dim,
            format: self.format,
        }
    }
}

impl std::fmt::Debug for KvCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "KvCache({} of {} positions, {} layers × {} heads × {}, {:?})",
            self.len, self.capacity, self.layers, self.heads, self.head_dim, self.format
        )
    }
}

/// Index of dimension 0 of a key; the next dimension is 16 numbers further.
pub(super) fn key_index(capacity: usize, head_dim: usize, plane: usize, slot: usize) -> usize {
    (plane * capacity + slot / LANES * LANES) * head_dim + slot % LANES
}

/// Index of dimension 0 of a value; the next dimension is the next number.
pub(super) fn value_index(capacity: usize, head_dim: usize, plane: usize, slot: usize) -> usize {
    (plane * capacity + slot) * head_dim.next_multiple_of(LANES)
}

/// One head of one layer.
pub(super) struct Plane {
    /// `[tile][head_dim][16]`.
    pub(super) keys: *const u8,
    /// `[slot][width]`, the width being `head_dim` rounded up to 16.
    pub(super) values: *const u8,
}

/// The cache's memory as tasks write to it; each task writes to its own planes.
struct Planes {
    keys: Shareable<u8>,
    values: Shareable<u8>,
    capacity: usize,
    head_dim: usize,
    format: KvFormat,
}

impl Planes {
    /// # Safety
    /// The plane and both slots exist, and only this task uses them.
    unsafe fn copy(&self, plane: usize, from: usize, to: usize) {
        let size = self.format.size();
        let key = |slot: usize| key_index(self.capacity, self.head_dim, plane, slot);
        let value = |slot: usize| value_index(self.capacity, self.head_dim, plane, slot);
        // SAFETY: the caller's promise. The slots differ, so the two ranges never overlap.
        unsafe {
            let keys = self.keys.get();
            for d in (0..self.head_dim * LANES).step_by(LANES) {
                let to = keys.add((key(to) + d) * size);
                std::ptr::copy_nonoverlapping(keys.add((key(from) + d) * size), to, size);
            }
            let values = self.values.get();
            let to = values.add(value(to) * size);
            let from = values.add(value(from) * size);
            std::ptr::copy_nonoverlapping(from, to, self.head_dim * size);
        }
    }
}

/// Writes one row into one slot of a plane. Both exist, and only one task uses the plane.
struct Write<'a> {
    planes: &'a Planes,
    plane: usize,
    slot: usize,
    keys: &'a [f32],
    values: &'a [f32],
}

impl Work for Write<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        match self.planes.format {
            KvFormat::F16 => self.write::<L, F16>(),
            KvFormat::F32 => self.write::<L, F32>(),
        }
    }
}

impl Write<'_> {
    #[inline(always)]
    fn write<L: Lanes, E: Stored>(&self) {
        let &Planes { capacity, head_dim, .. } = self.planes;
        let key = key_index(capacity, head_dim, self.plane, self.slot);
        let value = value_index(capacity, head_dim, self.plane, self.slot);
        let mut rounded = [0u32; LANES];
        for d in (0..self.keys.len()).step_by(LANES) {
            let lanes = LANES.min(self.keys.len() - d);
            // SAFETY: the slot exists and is ours; the space of a value is padded to whole vectors,
            // that of a key ends with its last dimension; `rounded` has room for 16 numbers.
            unsafe {
                let to = self.planes.values.get().add((value + d) * E::SIZE);
                E::store::<L>(to, math::padded::<L>(&self.values[d..d + lanes], 0.0));
                let from = rounded.as_mut_ptr().cast::<u8>();
                E::store::<L>(from, math::padded::<L>(&self.keys[d..d + lanes], 0.0));
                let to = self.planes.keys.get().add((key + d * LANES) * E::SIZE);
                for i in 0..lanes {
                    let to = to.add(i * LANES * E::SIZE);
                    std::ptr::copy_nonoverlapping(from.add(i * E::SIZE), to, E::SIZE);
                }
            }
        }
    }
}
