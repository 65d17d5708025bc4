//! The memory of single heads of a [`super::KvCache`]: tiles for attention to read, and the rows
//! that a pass writes. It must not depend on which positions are committed.

use super::cache_layout::{CacheLayout, KEY_GROUP, SCALE};
use super::kv_format::KvFormat;
use super::lanes::element::{F16, F32, I8, Stored};
use super::lanes::{LANES, Lanes, Work};
use super::math;
use super::pages::Pages;
use super::pool::Shareable;

/// The planes of all heads of one width; a plane is one head of one layer.
pub(super) struct Bank {
    pub(super) layout: CacheLayout,
    pub(super) keys: Pages,
    pub(super) values: Pages,
    /// What is to be added to the keys of each plane, `[planes][key_dim]`: the last key that was
    /// written into slot 0. Empty in a format without scales.
    pub(super) first_keys: Vec<f32>,
}

impl Bank {
    /// One head of one layer.
    pub(super) fn plane(&self, index: usize) -> Plane<'_> {
        let Self { layout, keys, values, first_keys } = self;
        Plane { keys, values, first_keys, layout, index }
    }

    /// All of them, as tasks write to them.
    pub(super) fn planes(&mut self, format: KvFormat) -> Planes {
        Planes {
            keys: Shareable(self.keys.as_mut_ptr()),
            values: Shareable(self.values.as_mut_ptr()),
            first_keys: Shareable(self.first_keys.as_mut_ptr()),
            layout: self.layout,
            format,
        }
    }
}

/// One head of one layer.
#[derive(Clone, Copy)]
pub(super) struct Plane<'a> {
    keys: &'a [u8],
    values: &'a [u8],
    first_keys: &'a [f32],
    layout: &'a CacheLayout,
    index: usize,
}

impl Plane<'_> {
    /// A tile of keys, `[key_dim][16]`, then the scales, `[groups][16]`. The next tile of the same
    /// run follows it.
    ///
    /// # Safety
    /// The tile exists.
    #[inline(always)]
    pub(super) unsafe fn key_tile(&self, tile: usize) -> *const u8 {
        // SAFETY: the caller's promise.
        unsafe { self.keys.as_ptr().add(self.layout.key_tile(self.index, tile)) }
    }

    /// A tile of values, `[16][width]`, then the scales, `[16]`. The next tile of the same run
    /// follows it.
    ///
    /// # Safety
    /// The tile exists.
    #[inline(always)]
    pub(super) unsafe fn value_tile(&self, tile: usize) -> *const u8 {
        // SAFETY: the caller's promise.
        unsafe { self.values.as_ptr().add(self.layout.value_tile(self.index, tile)) }
    }

    /// What is to be added to the keys, `[key_dim]`; empty in a format without scales.
    pub(super) fn first_key(&self) -> &[f32] {
        &self.first_keys[self.layout.first_key(self.index)]
    }

    /// How a tile is divided.
    #[inline(always)]
    pub(super) fn layout(&self) -> &CacheLayout {
        self.layout
    }
}

/// The cache's memory as tasks write to it; each task writes to its own planes.
pub(super) struct Planes {
    keys: Shareable<u8>,
    values: Shareable<u8>,
    first_keys: Shareable<f32>,
    pub(super) layout: CacheLayout,
    format: KvFormat,
}

impl Planes {
    /// # Safety
    /// The plane and both slots exist, and only this task uses them.
    pub(super) unsafe fn copy(&self, plane: usize, from: usize, to: usize) {
        let layout = &self.layout;
        let size = self.format.size();
        // SAFETY: the caller's promise. The slots differ, so the two ranges never overlap.
        unsafe {
            let copy = |all: *mut u8, from: usize, to: usize, bytes: usize| {
                std::ptr::copy_nonoverlapping(all.add(from), all.add(to), bytes);
            };
            let (keys, values) = (self.keys.get(), self.values.get());
            let key = [from, to].map(|slot| layout.key(plane, slot));
            for d in (0..layout.key_dim * LANES * size).step_by(LANES * size) {
                copy(keys, key[0] + d, key[1] + d, size);
            }
            let value = [from, to].map(|slot| layout.value(plane, slot));
            copy(values, value[0], value[1], layout.value_dim * size);
            if self.format.has_scales() {
                for group in 0..layout.key_groups() {
                    let key = [from, to].map(|slot| layout.key_scale(plane, slot, group));
                    copy(keys, key[0], key[1], SCALE);
                }
                let value = [from, to].map(|slot| layout.value_scale(plane, slot));
                copy(values, value[0], value[1], SCALE);
            }
        }
    }
}

/// Writes one row into one slot of a plane. Both exist, and only one task uses the plane.
pub(super) struct Write<'a> {
    pub(super) planes: &'a Planes,
    pub(super) plane: usize,
    pub(super) slot: usize,
    pub(super) keys: &'a [f32],
    pub(super) values: &'a [f32],
}

impl Work for Write<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        match self.planes.format {
            KvFormat::F16 => self.write::<L, F16>(),
            KvFormat::F32 => self.write::<L, F32>(),
            KvFormat::Q8 => self.write::<L, I8>(),
        }
    }
}

impl Write<'_> {
    #[inline(always)]
    fn write<L: Lanes, E: Stored>(&self) {
        let &Self { planes, plane, slot, .. } = self;
        let layout = &planes.layout;
        let (key, value) = (layout.key(plane, slot), layout.value(plane, slot));
        let value_scale = E::scale(self.values);
        let value_inverse = inverse(value_scale);
        let mut rounded = [0u32; LANES];
        // SAFETY: the slot exists and is ours, as is the plane's first key in a format with scales;
        // the space of a value is padded to whole vectors, that of a key ends with its last
        // dimension; `rounded` has room for 16 numbers.
        unsafe {
            let (keys, values) = (planes.keys.get(), planes.values.get());
            let scaled = |numbers: &[f32], inverse: f32| {
                let x = math::padded::<L>(numbers, 0.0);
                if E::HAS_SCALE { L::mul(x, L::splat(inverse)) } else { x }
            };
            let mut to = values.add(value);
            for part in self.values.chunks(LANES) {
                E::store::<L>(to, scaled(part, value_inverse));
                to = to.add(LANES * E::SIZE);
            }
            if E::HAS_SCALE {
                let to = values.add(layout.value_scale(plane, slot));
                to.cast::<f32>().write_unaligned(value_scale);
            }
            let first_key = planes.first_keys.get().wrapping_add(layout.first_key(plane).start);
            if E::HAS_SCALE && slot == 0 {
                std::ptr::copy_nonoverlapping(self.keys.as_ptr(), first_key, self.keys.len());
            }
            let mut numbers = [0.0; KEY_GROUP];
            let mut to = keys.add(key);
            for (i, group) in self.keys.chunks(KEY_GROUP).enumerate() {
                let numbers = &mut numbers[..group.len()];
                numbers.copy_from_slice(group);
                if E::HAS_SCALE {
                    for (d, number) in numbers.iter_mut().enumerate() {
                        *number -= *first_key.add(i * KEY_GROUP + d);
                    }
                }
                let scale = E::scale(numbers);
                let inverse = inverse(scale);
                for part in numbers.chunks(LANES) {
                    let from = rounded.as_mut_ptr().cast::<u8>();
                    E::store::<L>(from, scaled(part, inverse));
                    for d in 0..part.len() {
                        std::ptr::copy_nonoverlapping(from.add(d * E::SIZE), to, E::SIZE);
                        to = to.add(LANES * E::SIZE);
                    }
                }
                if E::HAS_SCALE {
                    let to = keys.add(layout.key_scale(plane, slot, i));
                    to.cast::<f32>().write_unaligned(scale);
                }
            }
        }
    }
}

/// What numbers are multiplied by so that `scale` becomes 1. Where the inverse would not be a
/// normal number, all numbers become 0.
fn inverse(scale: f32) -> f32 {
    if scale.is_normal() { 1.0 / scale } else { 0.0 }
}
