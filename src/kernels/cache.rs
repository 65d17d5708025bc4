//! The KV cache of all layers: allocated once, filled row by row, compacted in place. It deals with
//! positions, not tokens.
//!
//! Keys are stored in tiles of 16 positions, dimension by dimension, like weight rows in a product;
//! values are stored position by position. Both come in chunks of positions, so that memory becomes
//! resident only as the text grows. Positions `0..len` are committed. The rows of the pass in
//! flight occupy the slots after them until [`KvCache::commit`] keeps a path.
//!
//! In a format with scales a key is stored as its difference from the key in slot 0. The keys of
//! some models have a few dimensions that are a hundred times larger than the others but nearly the
//! same at every position, since they come from a bias. The differences are small, and so are the
//! steps of their numbers. Attention need not add the first key again: a softmax stays the same
//! when one number is added to all scores of a query. Slot 0 is in the prefix of every row, so a
//! row's bits still depend on its own prefix only.

use super::cache_layout::CacheLayout;
use super::cache_planes::{Bank, Plane, Planes, Write};
use super::kv_format::{KvFormat, KvShape};
use super::lanes::{self, LANES};
use super::pages::{OutOfMemory, Pages};
use super::pool::Pool;
use super::recurrent::RecurrentStates;

/// Keys and values of every layer.
pub struct KvCache {
    shapes: Vec<KvShape>,
    /// For each layer, the index of its bank and of its first plane there.
    places: Vec<[usize; 2]>,
    capacity: usize,
    pub(super) len: usize,
    format: KvFormat,
    pub(super) banks: Vec<Bank>,
    pub(super) recurrent: Option<Box<RecurrentStates>>,
}

/// The planes of each width that layers of these shapes have, in the order in which the widths
/// come, and the place of each layer in them.
fn layouts(
    shapes: &[KvShape],
    capacity: usize,
    format: KvFormat,
) -> (Vec<CacheLayout>, Vec<[usize; 2]>) {
    let mut widths: Vec<([usize; 2], usize)> = Vec::new();
    let mut places = Vec::with_capacity(shapes.len());
    for shape in shapes {
        let known = widths.iter().position(|&(dims, _)| dims == shape.dims());
        let bank = known.unwrap_or(widths.len());
        if known.is_none() {
            widths.push((shape.dims(), 0));
        }
        let planes = &mut widths[bank].1;
        places.push([bank, *planes]);
        *planes = planes.saturating_add(shape.heads);
    }
    let layout = |(dims, planes)| CacheLayout::new(planes, capacity, dims, format);
    (widths.into_iter().map(layout).collect(), places)
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
        Self::of_layers(vec![KvShape::square(heads, head_dim); layers], capacity, format)
    }

    /// The same for layers of any shapes.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn of_layers(
        shapes: Vec<KvShape>,
        capacity: usize,
        format: KvFormat,
    ) -> Result<Self, OutOfMemory> {
        let capacity = capacity.next_multiple_of(LANES);
        let (layouts, places) = layouts(&shapes, capacity, format);
        let bank = |layout: CacheLayout| {
            let [keys, values] = layout.bytes();
            let [keys, values] = [Pages::zeroed(keys)?, Pages::zeroed(values)?];
            Ok(Bank { layout, keys, values, first_keys: vec![0.0; layout.first_keys()] })
        };
        let banks = layouts.into_iter().map(bank).collect::<Result<_, _>>()?;
        Ok(Self { shapes, places, capacity, len: 0, format, banks, recurrent: None })
    }

    /// An empty cache of the same shape with this capacity.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn another(&self, capacity: usize) -> Result<Self, OutOfMemory> {
        let mut new = Self::of_layers(self.shapes.clone(), capacity, self.format)?;
        new.recurrent = self.recurrent.clone();
        new.len = self.len;
        new.truncate(0);
        Ok(new)
    }

    /// The bytes that the positions of such a cache take once all are written.
    pub fn bytes_of(shapes: &[KvShape], capacity: usize, format: KvFormat) -> usize {
        let bytes = |layout: CacheLayout| {
            let first_keys = layout.first_keys().saturating_mul(size_of::<f32>());
            layout.bytes().into_iter().fold(first_keys, usize::saturating_add)
        };
        let (layouts, _) = layouts(shapes, capacity, format);
        layouts.into_iter().map(bytes).fold(0, usize::saturating_add)
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
        self.shapes.len()
    }

    /// The heads of a layer.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn layer(&self, layer: usize) -> KvShape {
        self.shapes[layer]
    }

    /// The number format of keys and values.
    pub fn format(&self) -> KvFormat {
        self.format
    }

    /// Bytes allocated. They become resident with the positions that are written, 256 at a time.
    pub fn bytes(&self) -> usize {
        let bytes =
            |bank: &Bank| bank.keys.len() + bank.values.len() + size_of_val(&bank.first_keys[..]);
        let states = self.recurrent.as_ref().map_or(0, |states| states.bytes());
        self.banks.iter().map(bytes).sum::<usize>() + states
    }

    /// Writes the keys and values of a pass's rows, `[m, heads · width]` each, into the slots
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
        assert!(layer < first.layers(), "layer {layer} of {}", first.layers());
        let shape = first.layer(layer);
        let KvShape { heads, key_dim, value_dim } = shape;
        let row = shape.keys();
        assert!(row > 0, "layer {layer} has heads");
        assert!(keys.len().is_multiple_of(row * caches.len()), "rows of {row} for each cache");
        let m = keys.len() / row / caches.len();
        assert!(values.len() == m * caches.len() * shape.values(), "a value for each key");
        for cache in caches.iter() {
            let start = cache.len + rows;
            assert!(start + m <= cache.capacity, "{m} rows after {start} of {}", cache.capacity);
            assert!(cache.is_like(first), "caches of one shape");
        }
        let [bank, plane] = first.places[layer];
        let places: Vec<(usize, Planes)> = caches
            .iter_mut()
            .map(|cache| (cache.len + rows, cache.banks[bank].planes(cache.format)))
            .collect();
        pool.run(places.len() * heads, |task| {
            let cache = task / heads;
            let head = task % heads;
            let (first, planes) = &places[cache];
            for r in 0..m {
                let at = (cache * m + r) * heads + head;
                let write = Write {
                    planes,
                    plane: plane + head,
                    slot: first + r,
                    keys: &keys[at * key_dim..][..key_dim],
                    values: &values[at * value_dim..][..value_dim],
                };
                lanes::run(pool.isa(), write);
            }
        });
    }

    /// Whether both can be used in one pass.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.shapes == other.shapes && self.format == other.format
    }

    /// Commits the rows in `path` (ascending rows of the last pass) as the next positions, in all
    /// layers, in place. The other rows of the pass are dropped.
    ///
    /// # Panics
    /// If the rows do not ascend or were never in the cache.
    pub fn commit(&mut self, pool: &Pool, path: &[usize]) {
        self.keep(pool, path, &[]);
    }

    /// [`KvCache::commit`] that leaves the rows in `stay`, which come after `path`, in flight: they
    /// are then the first ones.
    ///
    /// # Panics
    /// As [`KvCache::commit`].
    pub fn keep(&mut self, pool: &Pool, path: &[usize], stay: &[usize]) {
        let moved = [path, stay].concat();
        assert!(moved.windows(2).all(|p| p[0] < p[1]), "rows of a path ascend");
        assert!(moved.iter().all(|&p| self.len + p < self.capacity), "rows within the cache");
        let first = self.len;
        if let Some(states) = &mut self.recurrent {
            states.keep(first, path, stay);
        }
        // An ascending path only moves rows to lower slots, so no row is overwritten before it is
        // read.
        let moves = moved.iter().enumerate().any(|(i, &p)| i != p);
        for bank in 0..if moves { self.banks.len() } else { 0 } {
            let planes = self.banks[bank].planes(self.format);
            pool.run(planes.layout.planes(), |plane| {
                for (i, &p) in moved.iter().enumerate().filter(|&(i, &p)| i != p) {
                    // SAFETY: both slots are below the capacity; each plane belongs to one task.
                    unsafe { planes.copy(plane, first + p, first + i) };
                }
            });
        }
        self.len += path.len();
    }

    /// Rolls back to the first `len` positions, or with recurrent layers to as many of them as it
    /// can; a longer `len` changes nothing.
    pub fn truncate(&mut self, len: usize) {
        self.len = match &mut self.recurrent {
            Some(states) => states.truncate(self.len, len),
            None => self.len.min(len),
        };
    }

    /// The keys and values of one head of one layer.
    pub(super) fn plane(&self, layer: usize, head: usize) -> Plane<'_> {
        let (bank, index) = self.bank(layer, head);
        self.banks[bank].plane(index)
    }

    /// The bank and the plane of one head of one layer.
    pub(super) fn bank(&self, layer: usize, head: usize) -> (usize, usize) {
        let [bank, first] = self.places[layer];
        (bank, first + head)
    }

    /// The bank and the plane of each head of each layer.
    pub(super) fn all_planes(&self) -> Vec<(usize, usize)> {
        let layers = self.shapes.iter().enumerate();
        layers.flat_map(|(layer, s)| (0..s.heads).map(move |head| self.bank(layer, head))).collect()
    }
}

impl std::fmt::Debug for KvCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "KvCache({} of {} positions, {} layers, {:?})",
            self.len,
            self.capacity,
            self.layers(),
            self.format
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::cache_layout::KEY_GROUP;
    use crate::kernels::{Format, random_row};

    /// Bytes of `memory` that are resident.
    #[cfg(target_os = "linux")]
    fn resident(memory: &[u8]) -> usize {
        // SAFETY: the call takes no pointers.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap();
        let mut pages = vec![0u8; memory.len().div_ceil(page)];
        let start = memory.as_ptr();
        assert_eq!(start.align_offset(page), 0);
        // SAFETY: the mapping covers `memory`, and there is a byte for each of its pages.
        let failed =
            unsafe { libc::mincore(start.cast_mut().cast(), memory.len(), pages.as_mut_ptr()) };
        assert_eq!(failed, 0);
        pages.iter().filter(|&page| page & 1 == 1).count() * page
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_cache_becomes_resident_only_as_positions_are_written() {
        use crate::kernels::{AttentionOptions, TreeMask, attention};
        let pool = Pool::new(1);
        let (layers, width) = (8, 8 * 128);
        for format in KvFormat::ALL {
            let mut cache = KvCache::new(layers, 8, 128, 8192, format).unwrap();
            let rows = KvFormat::F32.numbers(&random_row(Format::F32, 16 * width, 1));
            let part = |cache: &KvCache| {
                let Bank { keys, values, .. } = &cache.banks[0];
                let resident = resident(keys) + resident(values);
                resident as f64 / cache.bytes() as f64
            };
            assert!(part(&cache) < 0.001);
            for positions in (16..=1024usize).step_by(16) {
                for layer in 0..layers {
                    cache.write(&pool, layer, &rows, &rows);
                    let mut out = vec![0.0; rows.len()];
                    let (mask, options) = (TreeMask::causal(16), AttentionOptions::default());
                    if positions < 33 {
                        let cache = std::slice::from_ref(&cache);
                        attention(&pool, cache, layer, &rows, &mask, &options, &mut out);
                    }
                }
                cache.commit(&pool, &(0..16).collect::<Vec<_>>());
                let chunks = positions.div_ceil(256) as f64;
                // And the rest of the last 2 MiB of keys and of values.
                let most = chunks * 256.0 / 8192.0 + (4 << 20) as f64 / cache.bytes() as f64;
                assert!(part(&cache) <= most, "{format:?}, {positions}: {}", part(&cache));
            }
        }
    }

    #[test]
    fn numbers_in_8_bits_are_off_by_at_most_half_a_step_and_never_differ_by_instruction_set() {
        let dim = 40;
        let mut rows = KvFormat::F32.numbers(&random_row(Format::F32, 4 * dim, 3));
        rows[dim..2 * dim].fill(0.0);
        rows[2 * dim + 3] = 1e30;
        rows[3 * dim..].iter_mut().for_each(|x| *x *= 1e-30);
        let strange = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-45, -0.0, 1.0, 2.0];
        let strange = strange.repeat(dim / 8);
        let mut all = Vec::new();
        for isa in crate::kernels::Isa::here() {
            let pool = Pool::with_isa(1, isa);
            let mut cache = KvCache::new(1, 1, dim, 16, KvFormat::Q8).unwrap();
            let written = [&rows[..], &strange].concat();
            cache.write(&pool, 0, &written, &written);
            for (slot, row) in rows.chunks_exact(dim).enumerate() {
                let (key, value) = cache.row(0, slot);
                let less =
                    |all: &[f32]| all.iter().zip(&rows).map(|(x, first)| x - first).collect();
                let parts: [(Vec<f32>, Vec<f32>, usize); 2] =
                    [(less(row), less(&key), KEY_GROUP), (row.to_vec(), value, dim)];
                for (row, stored, group) in parts {
                    for (row, stored) in row.chunks(group).zip(stored.chunks(group)) {
                        let most = row.iter().fold(0f32, |most, x| most.max(x.abs()));
                        let off = row.iter().zip(stored).map(|(x, y)| (x - y).abs());
                        let off = off.fold(0f32, f32::max);
                        let at = format!("{isa:?}, row {slot}, {group} with a scale");
                        assert!(off <= most / 127.0 * 0.501, "{at}: {off} of {most}");
                    }
                }
            }
            let Bank { keys, values, .. } = &cache.banks[0];
            all.push([&keys[..], values].concat());
        }
        assert!(all.windows(2).all(|two| two[0] == two[1]));
    }

    #[test]
    fn keys_in_8_bits_lose_nothing_to_dimensions_that_are_large_at_every_position() {
        let (dim, rows) = (80, 40);
        let pool = Pool::new(1);
        let mut keys = KvFormat::F32.numbers(&random_row(Format::F32, rows * dim, 3));
        let most = keys.iter().fold(0f32, |most, x| most.max(x.abs()));
        let values = keys.clone();
        for key in keys.chunks_exact_mut(dim) {
            key[3] += 300.0 * most;
            key[70] -= 200.0 * most;
        }
        let mut cache = KvCache::new(1, 1, dim, rows, KvFormat::Q8).unwrap();
        cache.write(&pool, 0, &keys, &values);
        for (slot, key) in keys.chunks_exact(dim).enumerate() {
            for (x, stored) in key.iter().zip(cache.row(0, slot).0) {
                // A difference is at most twice as large.
                assert!(
                    (x - stored).abs() <= 2.0 * most / 127.0 * 0.51,
                    "row {slot}: {x} {stored}"
                );
            }
        }
    }
}
