//! The committed positions of a KV cache as bytes, and back. The numbers are stored as they are in
//! memory, so a restored cache has the same bits. It must not depend on where the bytes go.

use super::cache::KvCache;
use super::cache_layout::CacheLayout;
use super::cache_planes::Bank;
use super::lanes::LANES;

impl KvCache {
    /// Bytes of all planes with `len` positions; the keys are whole tiles.
    fn saved_size(&self, len: usize) -> usize {
        let size = |layout: &CacheLayout| {
            let first_key = size_of::<f32>() * layout.first_key(0).len();
            let keys = len.div_ceil(LANES) * layout.key_tile_bytes();
            layout.planes() * (first_key + keys + layout.values_bytes(len))
        };
        self.banks.iter().map(|bank| size(&bank.layout)).sum()
    }

    /// How many bytes [`KvCache::saved`] returns for the committed positions.
    pub fn saved_bytes(&self) -> usize {
        let states = self.recurrent.as_ref().map_or(0, |states| states.saved_bytes());
        self.saved_size(self.len()) + states
    }

    /// The committed positions of all layers. For each plane (one head of one layer) come its first
    /// key, in a format with scales, its keys and then its values, tile by tile. The states of
    /// recurrent layers follow.
    pub fn saved(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.saved_bytes());
        for (bank, plane) in self.all_planes() {
            let Bank { layout, keys, values, first_keys } = &self.banks[bank];
            for number in &first_keys[layout.first_key(plane)] {
                out.extend_from_slice(&number.to_ne_bytes());
            }
            for part in layout.key_parts(plane, self.len()) {
                out.extend_from_slice(&keys[part]);
            }
            for part in layout.value_parts(plane, self.len()) {
                out.extend_from_slice(&values[part]);
            }
        }
        if let Some(states) = &self.recurrent {
            states.save(&mut out);
        }
        out
    }

    /// Replaces all positions by `len` positions saved from a cache of the same layers, heads and
    /// format; its capacity may have been different. Returns `false`, and changes nothing, if they
    /// do not fit.
    pub fn restore(&mut self, len: usize, bytes: &[u8]) -> bool {
        if len == 0 || len > self.capacity() {
            return false;
        }
        let Some((bytes, states)) = bytes.split_at_checked(self.saved_size(len)) else {
            return false;
        };
        match &mut self.recurrent {
            None if states.is_empty() => {}
            Some(own) if own.fits(len, states) => own.restore(states),
            _ => return false,
        }
        let mut at = 0;
        for (bank, plane) in self.all_planes() {
            let Bank { layout, keys, values, first_keys } = &mut self.banks[bank];
            let first_key = &mut first_keys[layout.first_key(plane)];
            let (saved, _) = bytes[at..].as_chunks();
            for (number, &saved) in first_key.iter_mut().zip(saved) {
                *number = f32::from_ne_bytes(saved);
            }
            at += size_of_val(first_key);
            for part in layout.key_parts(plane, len) {
                let saved = &bytes[at..at + part.len()];
                keys[part].copy_from_slice(saved);
                at += saved.len();
            }
            for part in layout.value_parts(plane, len) {
                let saved = &bytes[at..at + part.len()];
                values[part].copy_from_slice(saved);
                at += saved.len();
            }
        }
        self.len = len;
        true
    }
}
#[cfg(test)]
pub(super) mod tests {
    use crate::kernels::cache_layout::KEY_GROUP;
    use crate::kernels::{
        AttentionOptions, Format, KvCache, KvFormat, KvShape, Pool, TreeMask, attention, random_row,
    };

    /// A whole group of a key's dimensions and a part of one.
    const DIM: usize = 40;
    const WIDTH: usize = 2 * DIM;

    /// A cache with `rows` committed positions and 2 heads of 40 numbers in each of 3 layers.
    pub(in crate::kernels) fn filled(capacity: usize, rows: usize, format: KvFormat) -> KvCache {
        let pool = Pool::new(1);
        let mut cache = KvCache::new(3, 2, DIM, capacity, format).unwrap();
        for layer in 0..3 {
            let (keys, values) = numbers(layer, rows);
            cache.write(&pool, layer, &keys, &values);
        }
        cache.commit(&pool, &(0..rows).collect::<Vec<_>>());
        cache
    }

    fn numbers(layer: usize, rows: usize) -> (Vec<f32>, Vec<f32>) {
        let bytes = random_row(Format::F32, 2 * rows * WIDTH, layer as u64);
        let mut keys = KvFormat::F32.numbers(&bytes);
        let values = keys.split_off(rows * WIDTH);
        (keys, values)
    }

    /// Key and value of each row of [`filled`], rounded to the format.
    pub(in crate::kernels) fn written(
        layer: usize,
        rows: usize,
        format: KvFormat,
    ) -> Vec<(Vec<f32>, Vec<f32>)> {
        let (keys, values) = numbers(layer, rows);
        let eight_bits = |group: &[f32]| -> Vec<f32> {
            let scale = group.iter().fold(0f32, |most, x| most.max(x.abs())) / 127.0;
            let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            group.iter().map(|x| (x * inverse).round_ties_even() * scale).collect()
        };
        // `first` is what a key is stored without.
        let rounded = |row: &[f32], group: usize, first: &[f32]| match format {
            KvFormat::F16 => row.iter().map(|&x| half::f16::from_f32(x).to_f32()).collect(),
            KvFormat::F32 => row.to_vec(),
            KvFormat::Q8 => {
                let rest: Vec<f32> = row.iter().zip(first).map(|(x, first)| x - first).collect();
                let groups = rest.chunks_exact(DIM).flat_map(|head| head.chunks(group));
                groups.flat_map(eight_bits).zip(first).map(|(x, first)| x + first).collect()
            }
        };
        let first = &keys[..WIDTH];
        let rows = keys.chunks_exact(WIDTH).zip(values.chunks_exact(WIDTH));
        rows.map(|(key, value)| {
            (rounded(key, KEY_GROUP, first), rounded(value, DIM, &[0.0; WIDTH]))
        })
        .collect()
    }

    #[test]
    fn what_is_taken_back_is_the_same_bits_whatever_the_capacity() {
        for format in KvFormat::ALL {
            for rows in [1, 15, 16, 17, 40, 255, 256, 257, 300] {
                let cache = filled(rows + 8, rows, format);
                let saved = cache.saved();
                assert_eq!(saved.len(), cache.saved_bytes());
                let mut other = filled(rows + 400, 3, format);
                // Another first key, which is to be replaced as well.
                other.truncate(0);
                other.write(&Pool::new(1), 0, &[9.0; WIDTH], &[9.0; WIDTH]);
                assert!(other.restore(rows, &saved));
                assert_eq!(other.len(), rows);
                for layer in 0..3 {
                    for slot in 0..rows {
                        assert_eq!(other.row(layer, slot), cache.row(layer, slot));
                    }
                }
            }
        }
    }

    /// Saved conversations are read by later versions.
    #[test]
    fn floats_are_saved_plane_by_plane_as_tiles_of_keys_and_rows_of_values() {
        for format in [KvFormat::F16, KvFormat::F32] {
            let rows = 300;
            let numbers = format.numbers(&filled(320, rows, format).saved());
            // Values are padded to whole vectors.
            let width = DIM.next_multiple_of(16);
            let (keys, values) = (rows.next_multiple_of(16) * DIM, rows * width);
            assert_eq!(numbers.len(), 6 * (keys + values));
            for (plane, numbers) in numbers.chunks_exact(keys + values).enumerate() {
                let head = plane % 2 * DIM;
                for (slot, (key, value)) in written(plane / 2, rows, format).iter().enumerate() {
                    let tile = &numbers[slot / 16 * 16 * DIM..];
                    let found: Vec<f32> = (0..DIM).map(|d| tile[d * 16 + slot % 16]).collect();
                    assert_eq!(found, key[head..head + DIM]);
                    assert_eq!(numbers[keys + slot * width..][..DIM], value[head..head + DIM]);
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let saved = filled(48, 20, KvFormat::F16).saved();
        let mut cache = filled(48, 5, KvFormat::F16);
        let before = cache.row(2, 4);
        for (len, bytes) in
            [(33, &saved[..]), (20, &saved[1..]), (0, &[]), (usize::MAX / 64, &saved)]
        {
            assert!(!cache.restore(len, bytes), "{len}");
        }
        let mut wider = KvCache::new(3, 2, DIM, 48, KvFormat::F32).unwrap();
        assert!(!wider.restore(20, &saved));
        assert_eq!((cache.len(), cache.row(2, 4)), (5, before));
    }

    /// Each layer of a cache of several shapes has the bits of a cache of its shape alone, and
    /// narrow values those of values that are filled up with zeros.
    #[test]
    fn layers_of_several_shapes_are_stored_and_read_like_layers_of_one() {
        let narrow = KvShape { heads: 2, key_dim: 40, value_dim: 24 };
        let none = KvShape::square(0, 16);
        let shapes = vec![KvShape::square(2, 40), narrow, none, KvShape::square(1, 16), narrow];
        let (pool, rows, path) = (Pool::new(2), 280, [0, 5, 277]);
        let numbers = |width: usize, seed: usize| {
            KvFormat::F32.numbers(&random_row(Format::F32, rows * width, seed as u64))
        };
        for format in KvFormat::ALL {
            let mut all = KvCache::of_layers(shapes.clone(), 300, format).unwrap();
            let mut alone = Vec::new();
            for (layer, &shape) in shapes.iter().enumerate().filter(|(_, shape)| shape.heads > 0) {
                let [keys, values] = [numbers(shape.keys(), layer), numbers(shape.values(), 9)];
                let queries = numbers(2 * shape.keys(), 10);
                let mask = TreeMask::causal(rows);
                let attended = |cache: &KvCache, layer, value_dim| {
                    let mut out = vec![0.0; rows * 2 * shape.heads * value_dim];
                    let caches = std::slice::from_ref(cache);
                    let options = AttentionOptions::default();
                    attention(&pool, caches, layer, &queries, &mask, &options, &mut out);
                    out
                };
                all.write(&pool, layer, &keys, &values);
                let mut own = KvCache::of_layers(vec![shape], 300, format).unwrap();
                own.write(&pool, 0, &keys, &values);
                let found = attended(&all, layer, shape.value_dim);
                assert_eq!(found, attended(&own, 0, shape.value_dim), "layer {layer}");
                let zeros = vec![0.0; shape.key_dim - shape.value_dim];
                let filled = values.chunks_exact(shape.value_dim).map(|v| [v, &zeros].concat());
                let mut wide = KvCache::new(1, shape.heads, shape.key_dim, 300, format).unwrap();
                wide.write(&pool, 0, &keys, &filled.collect::<Vec<_>>().concat());
                let wide = attended(&wide, 0, shape.key_dim);
                let wide = wide.chunks_exact(shape.key_dim).flat_map(|v| &v[..shape.value_dim]);
                assert!(found.iter().eq(wide), "layer {layer}");
                own.commit(&pool, &path);
                alone.push((layer, own));
            }
            all.commit(&pool, &path);
            let saved = all.saved();
            assert_eq!(saved, alone.iter().flat_map(|(_, own)| own.saved()).collect::<Vec<_>>());
            let mut other = all.another(20).unwrap();
            assert!(other.restore(path.len(), &saved));
            for (layer, own) in alone {
                for slot in 0..path.len() {
                    assert_eq!(other.row(layer, slot), own.row(0, slot), "layer {layer}");
                }
            }
        }
    }
}
