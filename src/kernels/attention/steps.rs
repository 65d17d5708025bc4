//! The steps of attention for M queries that share a head's keys and values: scores, softmax,
//! weighted sums. It deals with slots of the cache, not with rows or trees.

use std::ops::Range;

use crate::kernels::block::LINE;
use crate::kernels::lanes::{Element, LANES, Lanes};
use crate::kernels::math;

/// A head's keys, `[tile][dim][16]`.
pub(super) struct Keys {
    pub(super) tiles: *const u8,
    pub(super) dim: usize,
    /// The values of the first tile, and how many bytes of values a tile has. They are needed right
    /// after the scores, so they are prefetched together with the keys.
    pub(super) values: *const u8,
    pub(super) value_tile: usize,
}

/// Bytes between the keys that are read and those that are prefetched: the bandwidth times the
/// latency of the memory.
const PREFETCH_DISTANCE: usize = 4 << 10;

impl Keys {
    /// Dot products of M queries, `[M][dim]`, with the keys of `tiles`; the scores of query i go to
    /// `to + i · stride`. T tiles are computed in parallel.
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
        let mut tile = tiles.start;
        while tile < tiles.end {
            // SAFETY: the caller's promise.
            unsafe {
                let to = to.add((tile - tiles.start) * LANES);
                if tile + T <= tiles.end {
                    self.together::<L, E, M, T>(query, tile, to, stride);
                    tile += T;
                } else {
                    self.together::<L, E, M, 1>(query, tile, to, stride);
                    tile += 1;
                }
            }
        }
    }

    /// T tiles from `tile` on.
    ///
    /// # Safety
    /// As `scores`.
    #[inline(always)]
    unsafe fn together<L: Lanes, E: Element, const M: usize, const T: usize>(
        &self,
        query: &[f32],
        tile: usize,
        to: *mut f32,
        stride: usize,
    ) {
        let dim = self.dim;
        debug_assert_eq!(query.len(), M * dim, "M queries");
        // SAFETY: the caller's promise; `query` holds M × dim floats.
        unsafe {
            let keys = self.tiles.add(tile * dim * LANES * E::SIZE);
            let query = query.as_ptr();
            let mut ahead = keys.wrapping_add(PREFETCH_DISTANCE);
            let mut values = self.values.wrapping_add(tile * self.value_tile);
            let mut sums = [[L::splat(0.0); T]; M];
            for d in 0..dim {
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
                    *key = E::load::<L>(keys.add((t * dim + d) * LANES * E::SIZE));
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let q = L::splat(*query.add(i * dim + d));
                    for (t, sum) in sums.iter_mut().enumerate() {
                        *sum = L::fma(key[t], q, *sum);
                    }
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                for (t, sum) in sums.iter().enumerate() {
                    L::store(to.add(i * stride + t * LANES), *sum);
                }
            }
        }
    }
}

/// A head's values from some dimension on. Slots are `row` bytes apart; the first `len` are
/// committed, and those before `from` have no weight.
pub(super) struct Values {
    pub(super) start: *const u8,
    pub(super) row: usize,
    pub(super) from: usize,
    pub(super) len: usize,
}

impl Values {
    /// Weighted sums of V vectors over the committed positions and then `path`, written to
    /// `[M][V][16]`. The weights of query i are at `weights + i · stride`, in the order of the sum.
    ///
    /// # Safety
    /// The slots exist, the weights cover them, and there is room for the results.
    #[inline(always)]
    pub(super) unsafe fn sums<L: Lanes, E: Element, const M: usize, const V: usize>(
        &self,
        path: &[u32],
        weights: *const f32,
        stride: usize,
        to: *mut f32,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut totals = [[L::splat(0.0); V]; M];
            for slot in self.from..self.len {
                self.add::<L, E, M, V>(&mut totals, slot, weights.add(slot), stride);
            }
            for (p, &node) in path.iter().enumerate() {
                let weights = weights.add(self.len + p);
                self.add::<L, E, M, V>(&mut totals, self.len + node as usize, weights, stride);
            }
            for (i, totals) in totals.iter().enumerate() {
                for (v, total) in totals.iter().enumerate() {
                    L::store(to.add((i * V + v) * LANES), *total);
                }
            }
        }
    }

    /// Continues one query's sums, `[V][16]`, over its path from the `from`-th row on.
    ///
    /// # Safety
    /// As `sums`.
    #[inline(always)]
    pub(super) unsafe fn rest<L: Lanes, E: Element, const V: usize>(
        &self,
        path: &[u32],
        from: usize,
        weights: *const f32,
        sums: *mut f32,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut totals = [[L::splat(0.0); V]; 1];
            for (v, total) in totals[0].iter_mut().enumerate() {
                *total = L::load(sums.add(v * LANES));
            }
            for (p, &node) in path.iter().enumerate().skip(from) {
                let weights = weights.add(self.len + p);
                self.add::<L, E, 1, V>(&mut totals, self.len + node as usize, weights, 0);
            }
            for (v, total) in totals[0].iter().enumerate() {
                L::store(sums.add(v * LANES), *total);
            }
        }
    }

    /// totals += weight · value of a slot, for M queries.
    ///
    /// # Safety
    /// As `sums`.
    #[inline(always)]
    unsafe fn add<L: Lanes, E: Element, const M: usize, const V: usize>(
        &self,
        totals: &mut [[L::F; V]; M],
        slot: usize,
        weights: *const f32,
        stride: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let value = self.start.add(slot * self.row);
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
        for isa in Isa::ALL.into_iter().filter(|isa| isa.available()) {
            let mut scores = [-900.0; 48];
            scores[33] = 25.0;
            let total = lanes::run(isa, Softmax(&mut scores, 40));
            assert_eq!((total, scores[33]), (1.0, 1.0), "{isa:?}");
            assert!(scores[..40].iter().all(|w| (w * least).is_normal()), "{isa:?}: {scores:?}");
        }
    }
}
