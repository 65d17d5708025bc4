//! Reads the committed positions of one layer of a KV cache, one after the other, as a device takes
//! them. It must not depend on which device that is.

use std::ops::Range;

use super::cache::{KvCache, KvFormat, key_index, value_index};
use super::lanes::LANES;

impl KvCache {
    /// Some slots of a layer, one after the other. Each slot is the keys of all heads and then
    /// their values, every number as it is in memory.
    ///
    /// # Panics
    /// If there is no such layer, or it has fewer slots.
    pub fn slots(&self, layer: usize, slots: Range<usize>) -> Vec<u8> {
        assert!(layer < self.layers(), "layer {layer} of {}", self.layers());
        assert!(slots.end <= self.capacity(), "{slots:?} of {}", self.capacity());
        let size = self.format().size();
        let mut out = vec![0; slots.len() * 2 * self.heads() * self.head_dim() * size];
        match self.format() {
            KvFormat::F16 => self.gather::<2>(layer, slots.start, &mut out),
            KvFormat::F32 => self.gather::<4>(layer, slots.start, &mut out),
        }
        out
    }

    /// The key and the value in a slot of one layer, `[heads · head_dim]` each.
    ///
    /// # Panics
    /// If there is no such layer or slot.
    pub fn row(&self, layer: usize, slot: usize) -> (Vec<f32>, Vec<f32>) {
        let mut key = self.format().numbers(&self.slots(layer, slot..slot + 1));
        let value = key.split_off(key.len() / 2);
        (key, value)
    }

    /// Fills `out` with slots from `first` on, whose numbers are `SIZE` bytes each.
    fn gather<const SIZE: usize>(&self, layer: usize, first: usize, out: &mut [u8]) {
        let heads = self.heads();
        let dim = self.head_dim();
        let keys = self.keys.as_chunks::<SIZE>().0;
        let values = self.values.as_chunks::<SIZE>().0;
        let slots = out.as_chunks_mut::<SIZE>().0.chunks_exact_mut((2 * heads * dim).max(1));
        for (slot, out) in (first..).zip(slots) {
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
    use crate::kernels::saved_cache::tests::{filled, written};

    #[test]
    fn slots_are_the_rows_that_were_written() {
        let rows = 37;
        for format in [KvFormat::F16, KvFormat::F32] {
            let cache = filled(48, rows, format);
            for layer in 0..3 {
                let expected = written(layer, rows, format);
                let numbers = format.numbers(&cache.slots(layer, 0..rows));
                let found = numbers.chunks_exact(2 * 48);
                for (slot, (found, (key, value))) in found.zip(&expected).enumerate() {
                    assert_eq!(found, [&key[..], value].concat(), "layer {layer}, slot {slot}");
                    assert_eq!(cache.row(layer, slot), (key.clone(), value.clone()));
                }
            }
            assert!(cache.slots(1, 5..5).is_empty());
        }
    }
}
