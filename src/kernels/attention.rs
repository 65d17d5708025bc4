//! Attention of a pass's rows over the KV cache: each row sees the committed prefix, then its path
//! in the tree, and sums over them in that order. A node of a tree and the same token in plain
//! decoding therefore agree in every bit. Knows heads and positions, not models.
//!
//! Lanes are positions where queries meet keys and dimensions where weights meet values, so no
//! order depends on the instruction set; queries that share keys pass in groups, each with sums of
//! its own.

use std::cell::RefCell;

use super::cache::{KvCache, KvFormat, Plane};
use super::lanes::element::{Element, F16, F32};
use super::lanes::{self, LANES, Lanes, Work};
use super::math;
use super::paths::Paths;
use super::pool::{Pool, Shareable};

/// Queries of one key head that a task takes together.
const GROUP: usize = 8;

thread_local! {
    static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Softmax attention of the rows that [`KvCache::write_behind`] has put behind the committed
/// positions of `layer`, the first of them behind `paths.first()` others: `queries` and `out` are `[m, heads · head_dim]` with m = `paths.len()`. Scores are
/// scaled by 1/√head_dim; query head h reads key head h · `cache.heads()` / heads.
///
/// # Panics
/// If shapes disagree, the heads are no multiple of the cache's, or rows lie beyond the cache.
pub fn attention(
    pool: &Pool,
    cache: &KvCache,
    layer: usize,
    queries: &[f32],
    paths: &Paths,
    out: &mut [f32],
) {
    let m = paths.len();
    if m == 0 {
        return;
    }
    let keys = cache.heads() * cache.head_dim();
    assert!(layer < cache.layers(), "layer {layer} of {}", cache.layers());
    assert!(queries.len().is_multiple_of(m * keys), "{m} rows of a multiple of {keys}");
    assert_eq!(queries.len(), out.len(), "a result for each query");
    assert!(cache.len() + paths.first() + m <= cache.capacity(), "rows within the cache");
    let shared = queries.len() / (m * keys);
    let groups = (m * shared).div_ceil(GROUP);
    let out = Shareable(out.as_mut_ptr());
    pool.run(cache.heads() * groups, |task| {
        let (head, group) = (task / groups, task % groups);
        let work = Attend {
            cache,
            plane: cache.plane(layer, head),
            head,
            shared,
            queries,
            paths,
            first: group * GROUP,
            count: GROUP.min(m * shared - group * GROUP),
            out: out.get(),
        };
        SCRATCH.with_borrow_mut(|scratch| match cache.format() {
            KvFormat::F16 => lanes::run(pool.isa(), Group::<F16>::new(work, scratch)),
            KvFormat::F32 => lanes::run(pool.isa(), Group::<F32>::new(work, scratch)),
        });
    });
}

/// Queries `first..first + count` of one key head; query i is row i / shared, and the
/// (i % shared)-th query head of this key head.
struct Attend<'a> {
    cache: &'a KvCache,
    plane: Plane,
    head: usize,
    shared: usize,
    queries: &'a [f32],
    paths: &'a Paths,
    first: usize,
    count: usize,
    out: *mut f32,
}

struct Group<'a, E> {
    work: Attend<'a>,
    scratch: &'a mut Vec<f32>,
    element: std::marker::PhantomData<E>,
}

impl<'a, E: Element> Group<'a, E> {
    fn new(work: Attend<'a>, scratch: &'a mut Vec<f32>) -> Self {
        Self { work, scratch, element: std::marker::PhantomData }
    }
}

impl<E: Element> Work for Group<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let groups = self.work.count.div_ceil(L::ROWS);
        let mut first = self.work.first;
        for group in 0..groups {
            let left = self.work.first + self.work.count - first;
            let n = left.div_ceil(groups - group);
            // SAFETY: `attention` has checked the shapes, and these queries are this task's.
            unsafe {
                if const { L::ROWS > 4 } && n > 4 {
                    self.work.few::<L, E, 8>(first, n, self.scratch);
                } else if const { L::ROWS > 1 } && n > 2 {
                    self.work.few::<L, E, 4>(first, n, self.scratch);
                } else if const { L::ROWS > 1 } && n > 1 {
                    self.work.few::<L, E, 2>(first, n, self.scratch);
                } else {
                    self.work.few::<L, E, 1>(first, n, self.scratch);
                }
            }
            first += n;
        }
    }
}

impl Attend<'_> {
    /// Up to M queries at once; the places of missing ones are computed with zero queries.
    ///
    /// # Safety
    /// The plane is one of `cache`, of format E; shapes are as `attention` demands; nobody else
    /// writes these queries' results.
    #[inline(always)]
    unsafe fn few<L: Lanes, E: Element, const M: usize>(
        &self,
        first: usize,
        n: usize,
        scratch: &mut Vec<f32>,
    ) {
        let dim = self.cache.head_dim();
        let len = self.cache.len();
        let rows = (first / self.shared)..=((first + n - 1) / self.shared);
        let common = self.paths.common(rows.clone());
        let path = |i: usize| self.paths.of((first + i.min(n - 1)) / self.shared);
        // Path rows never lie behind the last row's own.
        let slots = len + self.paths.first() + rows.end() + 1;
        let tree_tiles = slots.div_ceil(LANES) - len / LANES;
        let longest = (0..n).map(|i| path(i).len()).max().unwrap_or(0);
        let stride = (len + longest).next_multiple_of(LANES).max(len / LANES * LANES + LANES);

        let sizes = [M * dim, M * stride, M * tree_tiles * LANES, M * LANES];
        let total: usize = sizes.iter().sum();
        if scratch.len() < total {
            scratch.resize(total, 0.0);
        }
        let (query, rest) = scratch.split_at_mut(sizes[0]);
        let (weights, rest) = rest.split_at_mut(sizes[1]);
        let (tree, rest) = rest.split_at_mut(sizes[2]);
        let sums = &mut rest[..sizes[3]];

        let scale = 1.0 / (dim as f32).sqrt();
        for i in 0..M {
            let to = &mut query[i * dim..(i + 1) * dim];
            if i < n {
                for (to, from) in to.iter_mut().zip(&self.queries[self.place(first + i)..]) {
                    *to = from * scale;
                }
            } else {
                to.fill(0.0);
            }
        }

        // Scores of the prefix in place, those of the tree's slots aside.
        let whole = len / LANES;
        // SAFETY: tiles up to the last row's slot lie within the cache (asserted by `attention`);
        // `weights` holds M × stride and `tree` M × tree_tiles × 16 floats.
        unsafe {
            self.scores::<L, E, M>(query, 0..whole, weights.as_mut_ptr(), stride);
            let tiles = whole..whole + tree_tiles;
            self.scores::<L, E, M>(query, tiles, tree.as_mut_ptr(), tree_tiles * LANES);
        }
        let mut totals = [1.0; M];
        for i in 0..n {
            let weights = &mut weights[i * stride..(i + 1) * stride];
            let tree = &tree[i * tree_tiles * LANES..];
            let path = path(i);
            weights[whole * LANES..len].copy_from_slice(&tree[..len % LANES]);
            for (to, &node) in weights[len..].iter_mut().zip(path) {
                *to = tree[len % LANES + node as usize];
            }
            totals[i] = softmax::<L>(weights, len + path.len());
        }
        for i in n..M {
            weights[i * stride..(i + 1) * stride].fill(0.0);
        }

        // Values: the shared part for all queries together, then each path's own end.
        let shared_path = &path(0)[..common];
        let width = dim.next_multiple_of(LANES);
        for d in (0..width).step_by(LANES) {
            // SAFETY: d + 16 ≤ width; the slots exist; `weights` holds M × stride floats.
            unsafe {
                let values = self.plane.values.add(d * E::SIZE);
                let mut sum = [L::splat(0.0); M];
                for slot in 0..len {
                    let v = E::load::<L>(values.add(slot * width * E::SIZE));
                    for (i, sum) in sum.iter_mut().enumerate() {
                        let weight = *weights.get_unchecked(i * stride + slot);
                        *sum = L::fma(v, L::splat(weight), *sum);
                    }
                }
                for (p, &node) in shared_path.iter().enumerate() {
                    let v = E::load::<L>(values.add((len + node as usize) * width * E::SIZE));
                    for (i, sum) in sum.iter_mut().enumerate() {
                        *sum = L::fma(v, L::splat(weights[i * stride + len + p]), *sum);
                    }
                }
                for (i, sum) in sum.into_iter().enumerate() {
                    L::store(sums[i * LANES..].as_mut_ptr(), sum);
                }
                for (i, total) in totals.iter().enumerate().take(n) {
                    let mut sum = L::load(sums[i * LANES..].as_ptr());
                    for (p, &node) in path(i).iter().enumerate().skip(common) {
                        let v = E::load::<L>(values.add((len + node as usize) * width * E::SIZE));
                        sum = L::fma(v, L::splat(weights[i * stride + len + p]), sum);
                    }
                    L::store(sums[i * LANES..].as_mut_ptr(), L::div(sum, L::splat(*total)));
                    let to = self.out.add(self.place(first + i) + d);
                    let lanes = LANES.min(dim - d);
                    std::ptr::copy_nonoverlapping(sums[i * LANES..].as_ptr(), to, lanes);
                }
            }
        }
    }

    /// Where query i begins in `queries` and in `out`.
    #[inline(always)]
    fn place(&self, i: usize) -> usize {
        let heads = self.cache.heads() * self.shared;
        let head = self.head * self.shared + i % self.shared;
        (i / self.shared * heads + head) * self.cache.head_dim()
    }

    /// Dot products of M queries with the keys of `tiles`; query i's go to `to + i · stride`.
    ///
    /// # Safety
    /// The tiles exist and the results have room.
    #[inline(always)]
    unsafe fn scores<L: Lanes, E: Element, const M: usize>(
        &self,
        query: &[f32],
        tiles: std::ops::Range<usize>,
        to: *mut f32,
        stride: usize,
    ) {
        let dim = self.cache.head_dim();
        for (t, tile) in tiles.enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let keys = self.plane.keys.add(tile * dim * LANES * E::SIZE);
                let mut sum = [L::splat(0.0); M];
                for d in 0..dim {
                    let k = E::load::<L>(keys.add(d * LANES * E::SIZE));
                    for (i, sum) in sum.iter_mut().enumerate() {
                        *sum = L::fma(k, L::splat(*query.get_unchecked(i * dim + d)), *sum);
                    }
                }
                for (i, sum) in sum.into_iter().enumerate() {
                    L::store(to.add(i * stride + t * LANES), sum);
                }
            }
        }
    }
}

/// Turns the first `n` scores into unnormalised weights and returns their sum: sixteen sums over
/// every sixteenth, then one of those. The rest of the last sixteen is overwritten.
#[inline(always)]
fn softmax<L: Lanes>(scores: &mut [f32], n: usize) -> f32 {
    let end = n.next_multiple_of(LANES);
    scores[n..end].fill(f32::NEG_INFINITY);
    let scores = &mut scores[..end];
    let mut peak = L::splat(f32::NEG_INFINITY);
    for scores in scores.chunks_exact(LANES) {
        // SAFETY: chunks of 16.
        peak = L::max(unsafe { L::load(scores.as_ptr()) }, peak);
    }
    let peak = L::splat(math::greatest::<L>(peak));
    let mut sum = L::splat(0.0);
    for scores in scores.chunks_exact_mut(LANES) {
        // SAFETY: chunks of 16.
        unsafe {
            let weight = math::exp::<L>(L::sub(L::load(scores.as_ptr()), peak));
            L::store(scores.as_mut_ptr(), weight);
            sum = L::add(sum, weight);
        }
    }
    math::sum::<L>(sum)
}
