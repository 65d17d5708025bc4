//! The steps of attention for M queries that share a head's keys and values: scores, softmax,
//! weighted sums. It deals with slots of the cache, not with rows or trees.

use std::ops::Range;

use crate::kernels::block::LINE;
use crate::kernels::cache_layout::{KEY_GROUP, runs};
use crate::kernels::cache_planes::Plane;
use crate::kernels::lanes::{Element, LANES, Lanes};
use crate::kernels::math;

/// The keys of a head.
pub(super) struct Keys<'a> {
    pub(super) plane: Plane<'a>,
    pub(super) dim: usize,
}

/// Least bytes between what is read and what is prefetched: the bandwidth times the latency of the
/// memory.
const PREFETCH_DISTANCE: usize = 4 << 10;

impl Keys<'_> {
    /// Dot products of M queries, `[M][dim]`, with the keys of `tiles`; the scores of query i go to
    /// `to + i · stride`. T tiles are computed in parallel. In a format with scales, the sum over
    /// each group of dimensions is multiplied by its scale and added to those before it.
    ///
    /// # Safety
    /// The tiles exist, and there is room for the results.
    #[inline(always)]
    pub(super) unsafe fn scores<L: Lanes, E: Element, const M: usize, const T: usize>(
        &self,
        query: &[f32],
        tiles: Range<usize>,
        to: *mut f32,
        stride: usize,
    ) {
        debug_assert_eq!(query.len(), M * self.dim, "M queries");
        let size = self.plane.layout().key_tile_bytes();
        // They are needed right after the scores, so they are prefetched together with the keys.
        let value_size = self.plane.layout().value_tile_bytes();
        let first = tiles.start;
        for run in runs(tiles) {
            // SAFETY: the caller's promise.
            unsafe {
                let mut keys = self.plane.key_tile(run.start);
                let mut values = self.plane.value_tile(run.start);
                let mut to = to.add((run.start - first) * LANES);
                let mut left = run.len();
                while left > 0 {
                    let tiles = if left >= T {
                        self.together::<L, E, M, T>(query, keys, values, to, stride);
                        T
                    } else {
                        self.together::<L, E, M, 1>(query, keys, values, to, stride);
                        1
                    };
                    keys = keys.wrapping_add(tiles * size);
                    values = values.wrapping_add(tiles * value_size);
                    to = to.wrapping_add(tiles * LANES);
                    left -= tiles;
                }
            }
        }
    }

    /// T tiles, one after the other from `keys` on; `values` are theirs.
    ///
    /// # Safety
    /// As `scores`.
    #[inline(always)]
    unsafe fn together<L: Lanes, E: Element, const M: usize, const T: usize>(
        &self,
        query: &[f32],
        keys: *const u8,
        mut values: *const u8,
        to: *mut f32,
        stride: usize,
    ) {
        let dim = self.dim;
        let size = self.plane.layout().key_tile_bytes();
        // SAFETY: the caller's promise; `query` holds M × dim floats.
        unsafe {
            let query = query.as_ptr();
            // Tiles that are read in parallel are prefetched with those before them.
            let mut ahead = keys.wrapping_add(PREFETCH_DISTANCE.max(T * size));
            let group = if E::HAS_SCALE { KEY_GROUP } else { dim };
            for first in (0..dim).step_by(group) {
                let mut sums = [[L::splat(0.0); T]; M];
                for d in first..dim.min(first + group) {
                    if d % (LINE / (LANES * E::SIZE)) == 0 {
                        for _ in 0..T {
                            L::prefetch(ahead);
                            L::prefetch(values);
                            ahead = ahead.wrapping_add(LINE);
                            values = values.wrapping_add(LINE);
                        }
                    }
                    let mut key = [L::splat(0.0); T];
                    for (t, key) in key.iter_mut().enumerate() {
                        *key = E::load::<L>(keys.add(t * size + d * LANES * E::SIZE));
                    }
                    for (i, sums) in sums.iter_mut().enumerate() {
                        let q = L::splat(*query.add(i * dim + d));
                        for (t, sum) in sums.iter_mut().enumerate() {
                            *sum = L::fma(key[t], q, *sum);
                        }
                    }
                }
                for t in 0..T {
                    let scales = keys.add(t * size + dim * LANES * E::SIZE).cast::<f32>();
                    let scales = scales.wrapping_add(first / KEY_GROUP * LANES);
                    for (i, sums) in sums.iter().enumerate() {
                        let to = to.add(i * stride + t * LANES);
                        let score = match (E::HAS_SCALE, first) {
                            (false, _) => sums[t],
                            (true, 0) => L::mul(sums[t], L::load(scales)),
                            (true, _) => L::fma(sums[t], L::load(scales), L::load(to)),
                        };
                        L::store(to, score);
                    }
                }
            }
        }
    }
}

/// Sums of a head's values, each times the weight of its position, for some queries.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    pub(super) plane: Plane<'a>,
    /// How many slots are committed.
    pub(super) len: usize,
    /// The weights of query i are at `weights + i · stride`, in the order of the sum.
    pub(super) weights: *const f32,
    pub(super) stride: usize,
    /// The sums of query i are at `sums + i · width`.
    pub(super) sums: *mut f32,
    pub(super) width: usize,
}

/// Tiles whose values stay in the nearest cache while all of their dimensions are summed.
const PART: usize = 4;

impl Values<'_> {
    /// Continues the sums of M queries over the committed positions of `tiles`, V vectors of a
    /// value in parallel.
    ///
    /// # Safety
    /// The tiles exist, the weights cover them, and there are M sums.
    #[inline(always)]
    pub(super) unsafe fn add_tiles<L: Lanes, E: Element, const M: usize, const V: usize>(
        &self,
        tiles: Range<usize>,
    ) {
        for run in runs(tiles) {
            for first in run.clone().step_by(PART) {
                let end = (first + PART).min(run.end) * LANES;
                let slots = first * LANES..end.min(self.len);
                let mut d = 0;
                // SAFETY: the caller's promise.
                unsafe {
                    while d + V * LANES <= self.width {
                        self.add_slots::<L, E, M, V>(slots.clone(), d);
                        d += V * LANES;
                    }
                    while d < self.width {
                        self.add_slots::<L, E, M, 1>(slots.clone(), d);
                        d += LANES;
                    }
                }
            }
        }
    }

    /// V vectors, from dimension `d` on, of slots that begin with a tile and lie together.
    ///
    /// # Safety
    /// As `add_tiles`; the dimensions exist.
    #[inline(always)]
    unsafe fn add_slots<L: Lanes, E: Element, const M: usize, const V: usize>(
        &self,
        slots: Range<usize>,
        d: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut totals = self.totals::<L, M, V>(d);
            let mut value = self.plane.value_tile(slots.start / LANES).add(d * E::SIZE);
            for slot in slots {
                // In a long context they have left the nearest cache since they were prefetched
                // with the keys.
                if d == 0 {
                    for line in (0..self.width * E::SIZE).step_by(LINE) {
                        L::prefetch(value.wrapping_add(PREFETCH_DISTANCE + line));
                    }
                }
                add::<L, E, M, V>(&mut totals, value, self.weights.add(slot), self.stride);
                value = value.wrapping_add(self.width * E::SIZE);
                if E::HAS_SCALE && slot % LANES == LANES - 1 {
                    value = value.wrapping_add(LANES * size_of::<f32>());
                }
            }
            self.set_totals::<L, M, V>(d, &totals);
        }
    }

    /// Continues the sums over a path that all M queries share, from its `from`-th row on.
    ///
    /// # Safety
    /// As `add_tiles`, for the rows of the path.
    #[inline(always)]
    pub(super) unsafe fn add_path<L: Lanes, E: Element, const M: usize>(
        &self,
        path: &[u32],
        from: usize,
    ) {
        for d in (0..self.width).step_by(LANES) {
            // SAFETY: the caller's promise.
            unsafe {
                let mut totals = self.totals::<L, M, 1>(d);
                for (p, &node) in path.iter().enumerate().skip(from) {
                    let slot = self.len + node as usize;
                    let in_tile = slot % LANES * self.width + d;
                    let value = self.plane.value_tile(slot / LANES).add(in_tile * E::SIZE);
                    let weights = self.weights.add(self.len + p);
                    add::<L, E, M, 1>(&mut totals, value, weights, self.stride);
                }
                self.set_totals::<L, M, 1>(d, &totals);
            }
        }
    }

    #[inline(always)]
    unsafe fn totals<L: Lanes, const M: usize, const V: usize>(&self, d: usize) -> [[L::F; V]; M] {
        let mut totals = [[L::splat(0.0); V]; M];
        for (i, totals) in totals.iter_mut().enumerate() {
            for (v, total) in totals.iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                *total = unsafe { L::load(self.sums.add(i * self.width + d + v * LANES)) };
            }
        }
        totals
    }

    #[inline(always)]
    unsafe fn set_totals<L: Lanes, const M: usize, const V: usize>(
        &self,
        d: usize,
        totals: &[[L::F; V]; M],
    ) {
        for (i, totals) in totals.iter().enumerate() {
            for (v, total) in totals.iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe { L::store(self.sums.add(i * self.width + d + v * LANES), *total) };
            }
        }
    }
}

/// totals += weight · value, for M queries.
///
/// # Safety
/// There are V vectors at `value`, and M weights, `stride` apart.
#[inline(always)]
unsafe fn add<L: Lanes, E: Element, const M: usize, const V: usize>(
    totals: &mut [[L::F; V]; M],
    value: *const u8,
    weights: *const f32,
    stride: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut vectors = [L::splat(0.0); V];
        for (v, vector) in vectors.iter_mut().enumerate() {
            *vector = E::load::<L>(value.add(v * LANES * E::SIZE));
        }
        for (i, totals) in totals.iter_mut().enumerate() {
            let weight = L::splat(*weights.add(i * stride));
            for (v, total) in totals.iter_mut().enumerate() {
                *total = L::fma(vectors[v], weight, *total);
            }
        }
    }
}

/// Multiplies a query's weights, in the order of the sum, by the scales of the values: those of the
/// committed positions from the tile `from` on, then those of its path.
///
/// # Safety
/// The format has scales, and the slots exist.
#[inline(always)]
pub(super) unsafe fn scale_weights<L: Lanes, E: Element>(
    plane: Plane<'_>,
    weights: &mut [f32],
    from: usize,
    len: usize,
    path: &[u32],
) {
    let numbers = plane.layout().value_bytes() * LANES;
    let whole = len / LANES;
    // SAFETY: the caller's promise.
    unsafe {
        let scales = |tile: usize| plane.value_tile(tile).add(numbers).cast::<f32>();
        let scale = |slot: usize| scales(slot / LANES).add(slot % LANES).read_unaligned();
        for (tile, weights) in weights.chunks_exact_mut(LANES).enumerate().take(whole).skip(from) {
            let scaled = L::mul(L::load(weights.as_ptr()), L::load(scales(tile)));
            L::store(weights.as_mut_ptr(), scaled);
        }
        for (slot, weight) in weights.iter_mut().enumerate().take(len).skip(whole * LANES) {
            *weight *= scale(slot);
        }
        for (weight, &node) in weights[len..].iter_mut().zip(path) {
            *weight *= scale(len + node as usize);
        }
    }
}

/// The lowest score relative to the greatest. The weight e⁻⁴⁰ is far below one rounding of the sum,
/// however long the context is, and times the smallest half float it is still a normal number.
/// Without this floor a peaked softmax makes its row's sums subnormal, and some machines add
/// subnormal numbers a hundred times more slowly.
const LOWEST_SCORE: f32 = -40.0;

/// Turns the first `n` scores into unnormalised weights and returns their sum. Each of sixteen sums
/// adds every sixteenth weight; these are added up, and then the weight of the `sink`, a score
/// without a value. The rest of the last sixteen is overwritten.
#[inline(always)]
pub(super) fn softmax<L: Lanes>(scores: &mut [f32], n: usize, sink: Option<f32>) -> f32 {
    let end = n.next_multiple_of(LANES);
    scores[n..end].fill(f32::NEG_INFINITY);
    let scores = &mut scores[..end];
    let mut peak = L::splat(sink.unwrap_or(f32::NEG_INFINITY));
    for scores in scores.chunks_exact(LANES) {
        // SAFETY: chunks of 16.
        peak = L::max(unsafe { L::load(scores.as_ptr()) }, peak);
    }
    let peak = L::splat(L::greatest(peak));
    let mut sum = L::splat(0.0);
    for scores in scores.chunks_exact_mut(LANES) {
        // SAFETY: chunks of 16.
        unsafe {
            let below = L::sub(L::load(scores.as_ptr()), peak);
            let weight = math::exp::<L>(L::max(L::splat(LOWEST_SCORE), below));
            L::store(scores.as_mut_ptr(), weight);
            sum = L::add(sum, weight);
        }
    }
    let total = math::sum::<L>(sum);
    match sink {
        Some(sink) => {
            let below = L::max(L::splat(LOWEST_SCORE), L::sub(L::splat(sink), peak));
            total + L::greatest(math::exp::<L>(below))
        }
        None => total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::isa::Isa;
    use crate::kernels::lanes::{self, Work};

    struct Softmax<'a>(&'a mut [f32], usize);

    impl Work for Softmax<'_> {
        type Output = f32;

        #[inline(always)]
        fn run<L: Lanes>(self) -> f32 {
            softmax::<L>(self.0, self.1, None)
        }
    }

    #[test]
    fn a_peaked_softmax_leaves_no_subnormal_products_and_gives_the_peak_all_weight() {
        let least = half::f16::from_bits(1).to_f32();
        for isa in Isa::here() {
            let mut scores = [-900.0; 48];
            scores[33] = 25.0;
            let total = lanes::run(isa, Softmax(&mut scores, 40));
            assert_eq!((total, scores[33]), (1.0, 1.0), "{isa:?}");
            assert!(scores[..40].iter().all(|w| (w * least).is_normal()), "{isa:?}: {scores:?}");
        }
    }
}
