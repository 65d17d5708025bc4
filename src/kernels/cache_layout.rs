//! Where the numbers of a KV cache are. It deals with bytes and their order, not with what they
//! mean.
//!
//! Positions come in chunks, and each chunk has the keys, or the values, of all planes (a plane is
//! one head of one layer). So the memory of a chunk is touched only when the text reaches it, in
//! whole pages. Within a chunk a plane is tiles of 16 positions, one after the other:
//!
//! - keys: `[chunk][plane][tile]` of `[key_dim][16]` numbers,
//! - values: `[chunk][plane][tile]` of `[16][width]` numbers, the width being `value_dim` rounded
//!   up to 16.
//!
//! In a format with scales each tile ends with those of its 16 positions, as f32: for keys one
//! scale for every 32 dimensions, `[groups][16]`; for values one, `[16]`. The last chunk has only
//! as many tiles as are left.

use std::ops::Range;

use super::kv_format::KvFormat;
use super::lanes::LANES;

/// Tiles per chunk: large enough that a plane's part is read at the speed of one long run.
const CHUNK: usize = 16;

/// How many dimensions of a key share a scale. The keys of some models have a few dimensions that
/// are a hundred times larger than the others; these take the precision only from their own group.
/// The last group has the dimensions that are left.
pub(super) const KEY_GROUP: usize = 32;

/// Bytes of a scale.
pub(super) const SCALE: usize = size_of::<f32>();

/// The shape of the planes of one width of a KV cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheLayout {
    planes: usize,
    /// Tiles of a plane.
    tiles: usize,
    /// How many dimensions keys have.
    pub(super) key_dim: usize,
    /// How many dimensions values have.
    pub(super) value_dim: usize,
    format: KvFormat,
}

impl CacheLayout {
    /// For at least `capacity` positions, with these dimensions of keys and of values.
    pub(super) fn new(planes: usize, capacity: usize, dims: [usize; 2], format: KvFormat) -> Self {
        let [key_dim, value_dim] = dims;
        Self { planes, tiles: capacity.div_ceil(LANES), key_dim, value_dim, format }
    }

    /// How many planes there are.
    pub(super) fn planes(&self) -> usize {
        self.planes
    }

    /// Bytes of all keys and of all values; the greatest number if they are more.
    pub(super) fn bytes(&self) -> [usize; 2] {
        let tiles = self.planes.saturating_mul(self.tiles);
        [self.key_tile_bytes(), self.value_tile_bytes()].map(|bytes| tiles.saturating_mul(bytes))
    }

    /// Bytes of a tile of keys.
    pub(super) fn key_tile_bytes(&self) -> usize {
        let numbers = self.key_dim.saturating_mul(self.format.size());
        LANES.saturating_mul(numbers.saturating_add(self.key_groups() * self.scale()))
    }

    /// How many numbers the first keys of all planes have, which only a format with scales stores
    /// apart.
    pub(super) fn first_keys(&self) -> usize {
        self.planes.saturating_mul(self.first_key(0).len())
    }

    /// Where the first key of a plane is among those of all planes.
    pub(super) fn first_key(&self, plane: usize) -> Range<usize> {
        let numbers = if self.format.has_scales() { self.key_dim } else { 0 };
        plane * numbers..(plane + 1) * numbers
    }

    /// How many scales a key has, in a format with scales.
    pub(super) fn key_groups(&self) -> usize {
        self.key_dim.div_ceil(KEY_GROUP)
    }

    /// Bytes of a tile of values.
    pub(super) fn value_tile_bytes(&self) -> usize {
        LANES.saturating_mul(self.value_bytes().saturating_add(self.scale()))
    }

    /// Bytes from one value to the next in the same tile.
    pub(super) fn value_bytes(&self) -> usize {
        self.value_dim.next_multiple_of(LANES).saturating_mul(self.format.size())
    }

    /// Bytes of the values of the first `len` positions of a plane: whole tiles where these end
    /// with scales.
    pub(super) fn values_bytes(&self, len: usize) -> usize {
        match self.format.has_scales() {
            true => len.div_ceil(LANES) * self.value_tile_bytes(),
            false => len * self.value_bytes(),
        }
    }

    /// Where the keys of the first positions of a plane are, in whole tiles.
    pub(super) fn key_parts(&self, plane: usize, len: usize) -> impl Iterator<Item = Range<usize>> {
        runs(0..len.div_ceil(LANES)).map(move |run| {
            let start = self.key_tile(plane, run.start);
            start..start + run.len() * self.key_tile_bytes()
        })
    }

    /// Where the values of the first positions of a plane are.
    pub(super) fn value_parts(
        &self,
        plane: usize,
        len: usize,
    ) -> impl Iterator<Item = Range<usize>> {
        runs(0..len.div_ceil(LANES)).map(move |run| {
            let start = self.value_tile(plane, run.start);
            start..start + self.values_bytes(len.min(run.end * LANES) - run.start * LANES)
        })
    }

    /// Bytes of a scale; 0 in a format without scales.
    fn scale(&self) -> usize {
        if self.format.has_scales() { SCALE } else { 0 }
    }

    /// How many tiles come before this one.
    fn tiles_before(&self, plane: usize, tile: usize) -> usize {
        let chunk = tile / CHUNK * CHUNK;
        let in_chunk = CHUNK.min(self.tiles - chunk);
        chunk * self.planes + plane * in_chunk + tile - chunk
    }

    /// Where a tile of keys begins.
    pub(super) fn key_tile(&self, plane: usize, tile: usize) -> usize {
        self.tiles_before(plane, tile) * self.key_tile_bytes()
    }

    /// Where a tile of values begins.
    pub(super) fn value_tile(&self, plane: usize, tile: usize) -> usize {
        self.tiles_before(plane, tile) * self.value_tile_bytes()
    }

    /// Where dimension 0 of a key is; the next dimension is 16 numbers further.
    pub(super) fn key(&self, plane: usize, slot: usize) -> usize {
        self.key_tile(plane, slot / LANES) + slot % LANES * self.format.size()
    }

    /// Where dimension 0 of a value is; the next dimension is the next number.
    pub(super) fn value(&self, plane: usize, slot: usize) -> usize {
        self.value_tile(plane, slot / LANES) + slot % LANES * self.value_bytes()
    }

    /// Where the scale of a group of a key's dimensions is, in a format that has scales.
    pub(super) fn key_scale(&self, plane: usize, slot: usize, group: usize) -> usize {
        let numbers = LANES * self.key_dim * self.format.size();
        self.key_tile(plane, slot / LANES) + numbers + (group * LANES + slot % LANES) * SCALE
    }

    /// Where a value's scale is, in a format that has one.
    pub(super) fn value_scale(&self, plane: usize, slot: usize) -> usize {
        let numbers = LANES * self.value_bytes();
        self.value_tile(plane, slot / LANES) + numbers + slot % LANES * SCALE
    }
}

/// The parts of a range of tiles that are each in one chunk, where a plane's tiles lie one after
/// the other.
pub(super) fn runs(tiles: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut start = tiles.start;
    std::iter::from_fn(move || {
        let end = (start / CHUNK * CHUNK + CHUNK).min(tiles.end);
        let run = start..end;
        start = end.max(start);
        (!run.is_empty()).then_some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_has_bytes_of_its_own() {
        for format in KvFormat::ALL {
            for capacity in [1, 16, 250, 256, 257, 600] {
                let layout = CacheLayout::new(6, capacity, [20, 12], format);
                let tiles = (0..6).flat_map(|plane| (0..layout.tiles).map(move |t| (plane, t)));
                let mut starts: Vec<usize> =
                    tiles.map(|(plane, tile)| layout.tiles_before(plane, tile)).collect();
                starts.sort_unstable();
                assert!(starts.iter().copied().eq(0..6 * capacity.div_ceil(LANES)));
            }
        }
    }

    #[test]
    fn runs_are_the_range_in_parts_that_lie_together() {
        let layout = CacheLayout::new(3, 1000, [8; 2], KvFormat::F16);
        for (start, end) in [(0, 0), (5, 5), (0, 3), (3, 16), (15, 17), (2, 60)] {
            let parts: Vec<_> = runs(start..end).collect();
            assert!(parts.iter().cloned().flatten().eq(start..end), "{start}..{end}");
            for tile in parts.into_iter().flat_map(|run| run.skip(1)) {
                assert_eq!(layout.tiles_before(1, tile), layout.tiles_before(1, tile - 1) + 1);
            }
        }
    }
}
