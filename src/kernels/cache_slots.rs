//! Reads the committed positions of one layer of a KV cache, one after the other, as a device takes
//! them. It must not depend on which device that is.

use std::ops::Range;

use super::cache::KvCache;
use super::cache_layout::KEY_GROUP;
use super::cache_planes::Bank;
use super::kv_format::KvFormat;
use super::lanes::LANES;

impl KvCache {
    /// Some slots of a layer, one after the other. Each slot is the keys of all heads and then
    /// their values, every number in the cache's [`KvFormat::on_device`].
    ///
    /// # Panics
    /// If there is no such layer, or it has fewer slots.
    pub fn slots(&self, layer: usize, slots: Range<usize>) -> Vec<u8> {
        let size = self.format().on_device().size();
        let shape = self.layer(layer);
        let mut out = vec![0; slots.len() * (shape.keys() + shape.values()) * size];
        match self.format() {
            KvFormat::F16 => {
                self.gather(layer, slots, out.as_chunks_mut().0, |half: [u8; 2], _| half);
            }
            KvFormat::F32 => {
                self.gather(layer, slots, out.as_chunks_mut().0, |word: [u8; 4], _| word);
            }
            KvFormat::Q8 => self.gather(layer, slots, out.as_chunks_mut().0, |number, own| {
                half::f16::from_f32(eight_bits(number, own)).to_ne_bytes()
            }),
        }
        out
    }

    /// The key and the value in a slot of one layer, `[heads · width]` each.
    ///
    /// # Panics
    /// If there is no such layer or slot.
    pub fn row(&self, layer: usize, slot: usize) -> (Vec<f32>, Vec<f32>) {
        let shape = self.layer(layer);
        let mut key = vec![0.0; shape.keys() + shape.values()];
        let slot = slot..slot + 1;
        match self.format() {
            KvFormat::F16 => self
                .gather(layer, slot, &mut key, |half, _| half::f16::from_ne_bytes(half).to_f32()),
            KvFormat::F32 => self.gather(layer, slot, &mut key, |word, _| f32::from_ne_bytes(word)),
            KvFormat::Q8 => self.gather(layer, slot, &mut key, eight_bits),
        }
        let value = key.split_off(shape.keys());
        (key, value)
    }

    /// Fills `out` with slots. Their numbers are `SIZE` bytes each; `number` gets these, their
    /// scale and what is to be added to them: 1 and 0 in a format without scales.
    fn gather<const SIZE: usize, T>(
        &self,
        layer: usize,
        slots: Range<usize>,
        out: &mut [T],
        number: impl Fn([u8; SIZE], (f32, f32)) -> T,
    ) {
        assert!(slots.end <= self.capacity(), "{slots:?} of {}", self.capacity());
        let shape = self.layer(layer);
        let (bank, first_plane) = self.bank(layer, 0);
        let Bank { layout, keys: all_keys, values: all_values, first_keys } = &self.banks[bank];
        let scale = |all: &[u8], at: usize| match self.format().has_scales() {
            true => all[at..].first_chunk().map_or(1.0, |&bytes| f32::from_ne_bytes(bytes)),
            false => 1.0,
        };
        let width = (shape.keys() + shape.values()).max(1);
        for (slot, out) in slots.zip(out.chunks_exact_mut(width)) {
            let (own_keys, own_values) = out.split_at_mut(shape.keys());
            let own_values = own_values.chunks_exact_mut(shape.value_dim);
            let places = own_keys.chunks_exact_mut(shape.key_dim).zip(own_values);
            for (head, (key, value)) in places.enumerate() {
                let plane = first_plane + head;
                let keys = all_keys[layout.key(plane, slot)..].as_chunks().0;
                let mut keys = keys.iter().step_by(LANES);
                let mut first = first_keys[layout.first_key(plane)].iter().copied();
                for (group, key) in key.chunks_mut(KEY_GROUP).enumerate() {
                    let own = scale(all_keys, layout.key_scale(plane, slot, group));
                    for (to, &from) in key.iter_mut().zip(&mut keys) {
                        *to = number(from, (own, first.next().unwrap_or(0.0)));
                    }
                }
                let own = scale(all_values, layout.value_scale(plane, slot));
                let values = all_values[layout.value(plane, slot)..].as_chunks().0;
                for (to, &from) in value.iter_mut().zip(values) {
                    *to = number(from, (own, 0.0));
                }
            }
        }
    }
}

fn eight_bits([byte]: [u8; 1], (scale, first): (f32, f32)) -> f32 {
    f32::from(byte.cast_signed()) * scale + first
}

#[cfg(test)]
mod tests {
    use crate::kernels::KvFormat;
    use crate::kernels::saved_cache::tests::{filled, written};

    #[test]
    fn slots_are_the_rows_that_were_written() {
        let rows = 270;
        for format in KvFormat::ALL {
            let cache = filled(300, rows, format);
            for layer in 0..3 {
                let expected = written(layer, rows, format);
                let numbers = format.numbers(&cache.slots(layer, 0..rows));
                let found = numbers.chunks_exact(expected[0].0.len() * 2);
                for (slot, (found, (key, value))) in found.zip(&expected).enumerate() {
                    assert_eq!(cache.row(layer, slot), (key.clone(), value.clone()));
                    let mut both = [&key[..], value].concat();
                    if format == KvFormat::Q8 {
                        both.iter_mut().for_each(|x| *x = half::f16::from_f32(*x).to_f32());
                    }
                    assert_eq!(found, both, "layer {layer}, slot {slot}");
                }
            }
            assert!(cache.slots(1, 5..5).is_empty());
        }
    }
}
