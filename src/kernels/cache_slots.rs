//! Reads the committed positions of one layer of a KV cache, one after the other, as a device takes
//! them. It must not depend on which device that is.

use super::cache::{KvCache, KvFormat, key_index, value_index};
use super::lanes::LANES;

impl KvCache {
    /// The first `count` slots of a layer, one after the other. Each slot is the keys of all heads
    /// and then their values, every number as it is in memory.
    ///
    /// # Panics
    /// If there is no such layer, or it has fewer slots.
    pub fn slots(&self, layer: usize, count: usize) -> Vec<u8> {
        assert!(layer < self.layers(), "layer {layer} of {}", self.layers());
        assert!(count <= self.capacity(), "{count} slots of {}", self.capacity());
        let size = self.format().size();
        let mut out = vec![0; count * 2 * self.heads() * self.head_dim() * size];
        match self.format() {
            KvFormat::F16 => self.gather::<2>(layer, &mut out),
            KvFormat::F32 => self.gather::<4>(layer, &mut out),
        }
        out
    }

    /// Fills `out` with slots whose numbers are `SIZE` bytes each.
    fn gather<const SIZE: usize>(&self, layer: usize, out: &mut [u8]) {
        let heads = self.heads();
        let dim = self.head_dim();
        let keys = self.keys.as_chunks::<SIZE>().0;
        let values = self.values.as_chunks::<SIZE>().0;
        let slots = out.as_chunks_mut::<SIZE>().0.chunks_exact_mut((2 * heads * dim).max(1));
        for (slot, out) in slots.enumerate() {
            let (own_keys, own_values) = out.split_at_mut(heads * dim);
            let places = own_keys.chunks_exact_mut(dim).zip(own_values.chunks_exact_mut(dim));
            for (head, (key, value)) in places.enumerate() {
                let plane = layer * heads + head;
                let at = key_index(self.capacity(), dim, plane, slot);
                for (d, to) in key.iter_mut().enumerate() {
                    *to = keys[at + d * LANES];
                }
                let at = value_index(self.capacity(), dim, plane, slot);
                value.copy_from_slice(&values[at..at + dim]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::kernels::KvFormat;
    use crate::kernels::saved_cache::tests::filled;

    #[test]
    fn slots_are_the_rows_that_were_written() {
        let width = 2 * 24;
        let rows = 37;
        for format in [KvFormat::F16, KvFormat::F32] {
            let cache = filled(48, rows, format);
            for layer in 0..3 {
                let bytes = cache.slots(layer, rows);
                let numbers: Vec<f32> = match format {
                    KvFormat::F16 => {
                        let halves = bytes.as_chunks().0.iter();
                        halves.map(|&half| half::f16::from_ne_bytes(half).to_f32()).collect()
                    }
                    KvFormat::F32 => {
                        bytes.as_chunks().0.iter().map(|&word| f32::from_ne_bytes(word)).collect()
                    }
                };
                for (slot, found) in numbers.chunks_exact(2 * width).enumerate() {
                    let (key, value) = cache.row(layer, slot);
                    assert_eq!(found, [key, value].concat(), "layer {layer}, slot {slot}");
                }
            }
            assert!(cache.slots(1, 0).is_empty());
        }
    }
}
