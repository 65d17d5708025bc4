//! Tree attention of a pass's rows over the KV cache. The [`TreeMask`] lets each row attend to the
//! committed prefix and then to its path in the tree, and the row sums over them in that order. A
//! node of a tree and the same token in plain decoding therefore agree in every bit. It deals with
//! heads and positions, not models.
//!
//! A lane is a position in the products of queries and keys, and a dimension in those of weights
//! and values, so no order of summation depends on the instruction set. Query heads that share a
//! key head (GQA) are computed in groups, each query with its own sums.

mod steps;

use std::cell::RefCell;
use std::marker::PhantomData;

use super::cache::KvCache;
use super::cache_planes::Plane;
use super::kv_format::{KvFormat, KvShape};
use super::lanes::element::{Element, F16, F32, I8};
use super::lanes::{self, LANES, Lanes, Work};
use super::math;
use super::pool::{Pool, Shareable};
use super::tree_mask::TreeMask;
use steps::{Keys, Values};

/// How many queries of one key head are computed together.
const GROUP: usize = 8;

/// Tasks per thread, if there are too few key heads.
const TASKS: usize = 4;

thread_local! {
    static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// What a model family adds to softmax attention. The default is plain causal attention.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttentionOptions<'a> {
    /// The factor of the scores; `None` means 1/√head_dim.
    pub scale: Option<f32>,
    /// The soft cap c of the scores: s becomes c · tanh(s / c) (Gemma 2).
    pub softcap: Option<f32>,
    /// Sliding window: of what is not after it, a row sees itself and `window` − 1 positions before
    /// it.
    pub window: Option<usize>,
    /// One more score for each query head, `[heads]`, without a value (gpt-oss's attention sinks):
    /// it takes weight but adds nothing to the result.
    pub sinks: Option<&'a [f32]>,
}

/// Softmax attention of the rows that [`KvCache::write_each`] wrote after the committed positions
/// of `layer` and after `mask.first()` rows in flight, over several caches of one shape in one
/// dispatch. Every cache has the same number of rows, on the same `mask`; the first cache has the
/// first of `queries`. A row's result has the same bits as with its cache alone.
///
/// `queries` are `[m, heads · key_dim]` and `out` is `[m, heads · value_dim]`, with m =
/// `mask.len()` for each cache. Scores are scaled by 1/√key_dim; query head h reads key head h ·
/// (the layer's key heads) / heads.
///
/// # Panics
/// If shapes disagree or the caches differ in shape, the number of heads is not a multiple of a
/// cache's, rows lie beyond the cache, or a window is 0.
pub fn attention(
    pool: &Pool,
    caches: &[KvCache],
    layer: usize,
    queries: &[f32],
    mask: &TreeMask,
    options: &AttentionOptions<'_>,
    out: &mut [f32],
) {
    let m = mask.len();
    let Some(cache) = caches.first() else { return };
    if m == 0 {
        return;
    }
    assert!(layer < cache.layers(), "layer {layer} of {}", cache.layers());
    let shape = cache.layer(layer);
    let heads = shape.heads;
    let rows = m * caches.len();
    let keys = shape.keys();
    assert!(keys > 0, "layer {layer} has heads");
    assert!(queries.len().is_multiple_of(rows * keys), "{rows} rows of a multiple of {keys}");
    for each in caches {
        assert!(each.len() + mask.first() + m <= each.capacity(), "rows within the cache");
        assert!(each.is_like(cache), "caches of one shape");
    }
    let shared = queries.len() / (rows * keys);
    assert_eq!(out.len(), rows * shared * shape.values(), "a result for each query");
    assert!(options.window != Some(0), "a row sees itself");
    if let Some(sinks) = options.sinks {
        assert_eq!(sinks.len(), heads * shared, "a sink for each query head");
    }
    // A task that computes all queries of a head reads its keys and values from memory only once. A
    // head is split into several tasks only if there are too few heads for the threads.
    let parts = (pool.threads() * TASKS).div_ceil(heads * caches.len());
    let part = (m * shared).div_ceil(parts).next_multiple_of(GROUP);
    let parts = (m * shared).div_ceil(part);
    let size = queries.len() / caches.len();
    let out_size = out.len() / caches.len();
    let out = Shareable(out.as_mut_ptr());
    pool.run(caches.len() * heads * parts, |task| {
        let index = task / (heads * parts);
        let task = task % (heads * parts);
        let head = task / parts;
        let first = task % parts * part;
        let cache = &caches[index];
        let work = Attend {
            cache,
            shape,
            plane: cache.plane(layer, head),
            head,
            shared,
            queries: &queries[index * size..][..size],
            mask,
            options,
            first,
            count: part.min(m * shared - first),
            // SAFETY: each cache has `out_size` results.
            out: unsafe { out.get().add(index * out_size) },
        };
        SCRATCH.with_borrow_mut(|scratch| match cache.format() {
            KvFormat::F16 => lanes::run(pool.isa(), Group::<F16>(work, scratch, PhantomData)),
            KvFormat::F32 => lanes::run(pool.isa(), Group::<F32>(work, scratch, PhantomData)),
            KvFormat::Q8 => lanes::run(pool.isa(), Group::<I8>(work, scratch, PhantomData)),
        });
    });
}

/// Queries `first..first + count` of one key head; query i is row i / shared, and the
/// (i % shared)-th query head of this key head.
struct Attend<'a> {
    cache: &'a KvCache,
    shape: KvShape,
    plane: Plane<'a>,
    head: usize,
    shared: usize,
    queries: &'a [f32],
    mask: &'a TreeMask,
    options: &'a AttentionOptions<'a>,
    first: usize,
    count: usize,
    out: *mut f32,
}

struct Group<'a, E>(Attend<'a>, &'a mut Vec<f32>, PhantomData<E>);

impl<E: Element> Work for Group<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Self(work, scratch, _) = self;
        // Unlike a product, attention needs one register per vector of keys, so there is room for
        // the sums of more rows.
        let most = if const { L::BLOCKS > 1 || L::ROWS == 1 } { L::ROWS } else { 6 };
        let parts = work.count.div_ceil(most);
        let mut first = work.first;
        for part in 0..parts {
            let left = work.first + work.count - first;
            let n = left.div_ceil(parts - part);
            // Additions to one sum depend on each other. So the fewer queries there are, the more
            // tiles and dimensions are summed in parallel to hide the latency. SAFETY: `attention`
            // has checked the shapes, and these queries belong to this task.
            unsafe {
                if const { L::BLOCKS > 1 } {
                    match n {
                        1 => work.few::<L, E, 1, 8, 4>(first, n, scratch),
                        2 => work.few::<L, E, 2, 4, 4>(first, n, scratch),
                        3 | 4 => work.few::<L, E, 4, 4, 4>(first, n, scratch),
                        5 | 6 => work.few::<L, E, 6, 2, 2>(first, n, scratch),
                        _ => work.few::<L, E, 8, 2, 2>(first, n, scratch),
                    }
                } else if const { L::ROWS > 1 } {
                    match n {
                        1 => work.few::<L, E, 1, 4, 4>(first, n, scratch),
                        2 => work.few::<L, E, 2, 2, 2>(first, n, scratch),
                        3 | 4 => work.few::<L, E, 4, 1, 1>(first, n, scratch),
                        _ => work.few::<L, E, 6, 1, 1>(first, n, scratch),
                    }
                } else {
                    work.few::<L, E, 1, 1, 1>(first, n, scratch);
                }
            }
            first += n;
        }
    }
}

impl Attend<'_> {
    /// The path of query i.
    #[inline(always)]
    fn path(&self, i: usize) -> &[u32] {
        self.mask.visible(i / self.shared)
    }

    /// The first position in the window of query i.
    #[inline(always)]
    fn begin(&self, i: usize) -> usize {
        let end = self.cache.len() + self.mask.depth(i / self.shared) + 1;
        self.options.window.map_or(0, |window| end.saturating_sub(window))
    }

    /// The query head of query i.
    #[inline(always)]
    fn head(&self, i: usize) -> usize {
        self.head * self.shared + i % self.shared
    }

    /// How many heads of `queries` and of `out` come before query i.
    #[inline(always)]
    fn place(&self, i: usize) -> usize {
        i / self.shared * self.shape.heads * self.shared + self.head(i)
    }

    /// Computes `n` queries from `first` on, at most M together (the missing ones are zero), with T
    /// tiles of keys and V vectors of a value in parallel. The prefix and the path that all queries
    /// share are summed for all of them together; then each query adds the rest of its own path and
    /// is divided by its total.
    ///
    /// # Safety
    /// The plane belongs to `cache`, whose format is E; the shapes are as `attention` demands; no
    /// other task writes these queries' results.
    #[inline(always)]
    unsafe fn few<L: Lanes, E: Element, const M: usize, const T: usize, const V: usize>(
        &self,
        first: usize,
        n: usize,
        scratch: &mut Vec<f32>,
    ) {
        let KvShape { key_dim: dim, value_dim, .. } = self.shape;
        let width = value_dim.next_multiple_of(LANES);
        let len = self.cache.len();
        let rows = (first / self.shared)..=((first + n - 1) / self.shared);
        let whole = len / LANES;
        let last = rows.clone().filter_map(|row| self.mask.visible(row).last()).max();
        let slots = len + last.map_or(0, |&last| last as usize + 1);
        let tree_tiles = slots.div_ceil(LANES) - whole;
        let longest = rows.clone().map(|row| self.mask.visible(row).len()).max().unwrap_or(0);
        // An odd number of lines, so that the weights of different queries use different cache
        // sets.
        let stride = ((len + longest).div_ceil(LANES) | 1) * LANES;

        // Tiles before the window of every query are neither scored nor summed.
        let skip = (first..first + n).map(|i| self.begin(i)).min().unwrap_or(0);
        let skip = (skip / LANES).min(whole);

        let sizes = [M * dim, M * stride, M * tree_tiles * LANES, M * width];
        let total: usize = sizes.iter().sum();
        if scratch.len() < total {
            scratch.resize(total, 0.0);
        }
        // `[M][dim]`, scaled.
        let (query, rest) = scratch.split_at_mut(sizes[0]);
        // `[M][stride]`: scores, then weights, in logical order.
        let (weights, rest) = rest.split_at_mut(sizes[1]);
        // `[M][16 · tiles]`: scores of the slots, starting at the last whole tile of the prefix.
        let (tree, rest) = rest.split_at_mut(sizes[2]);
        // `[M][width]`.
        let sums = &mut rest[..sizes[3]];

        let scale = self.options.scale.unwrap_or(1.0 / (dim as f32).sqrt());
        for (i, to) in query.chunks_exact_mut(dim).enumerate() {
            if i < n {
                let from = &self.queries[self.place(first + i) * dim..][..dim];
                for (to, from) in to.iter_mut().zip(from) {
                    *to = from * scale;
                }
            } else {
                to.fill(0.0);
            }
        }

        // SAFETY: tiles up to the last row's slot lie within the cache (asserted by `attention`);
        // `weights` holds M × stride and `tree` M × tree_tiles × 16 floats.
        unsafe {
            let weights = weights.as_mut_ptr();
            let tree = tree.as_mut_ptr();
            let keys = Keys { plane: self.plane, dim };
            let from = weights.add(skip * LANES);
            keys.scores::<L, E, M, T>(query, skip..whole, from, stride);
            let tiles = whole..whole + tree_tiles;
            keys.scores::<L, E, M, T>(query, tiles, tree, tree_tiles * LANES);
        }
        let mut totals = [1.0; M];
        for (i, weights) in weights.chunks_exact_mut(stride).enumerate() {
            if i < n {
                let tree = &tree[i * tree_tiles * LANES..];
                let path = self.path(first + i);
                weights[whole * LANES..len].copy_from_slice(&tree[..len % LANES]);
                for (to, &node) in weights[len..].iter_mut().zip(path) {
                    *to = tree[len % LANES + node as usize];
                }
                let begin = self.begin(first + i);
                let end = len + path.len();
                // Start at a whole vector, so that a position's lane does not depend on the window.
                let vector = begin / LANES * LANES;
                let sink = self.options.sinks.map(|sinks| sinks[self.head(first + i)]);
                // What is missing from the scores, since keys are stored without the first one.
                let mut rest = 0.0;
                if sink.is_some() || self.options.softcap.is_some() {
                    let query = &query[i * dim..][..dim];
                    rest = query.iter().zip(self.plane.first_key()).map(|(q, k)| q * k).sum();
                }
                if let Some(cap) = self.options.softcap {
                    let scores = &mut weights[vector..end.next_multiple_of(LANES)];
                    for scores in scores.chunks_exact_mut(LANES) {
                        // SAFETY: chunks of 16.
                        unsafe {
                            let score = L::add(L::load(scores.as_ptr()), L::splat(rest));
                            L::store(scores.as_mut_ptr(), math::softcap::<L>(score, cap));
                        }
                    }
                    rest = 0.0;
                }
                weights[vector..begin].fill(f32::NEG_INFINITY);
                let sink = sink.map(|sink| sink - rest);
                totals[i] = steps::softmax::<L>(&mut weights[vector..], end - vector, sink);
                // Adding 0 · v to a sum that is still 0 leaves it 0, so it does not matter where
                // the group's sums begin.
                weights[skip * LANES..begin].fill(0.0);
                if E::HAS_SCALE {
                    // SAFETY: the slots lie in the cache.
                    unsafe {
                        steps::scale_weights::<L, E>(self.plane, weights, skip, len, path);
                    }
                }
            } else {
                weights.fill(0.0);
            }
        }

        sums.fill(0.0);
        let common = self.mask.common_prefix(rows.clone());
        let values = Values {
            plane: self.plane,
            len,
            weights: weights.as_ptr(),
            stride,
            sums: sums.as_mut_ptr(),
            width,
        };
        // SAFETY: the slots lie in the cache, `weights` holds M × stride and `sums` M × width
        // floats, and the results belong to this task.
        unsafe {
            values.add_tiles::<L, E, M, V>(skip..len.div_ceil(LANES));
            values.add_path::<L, E, M>(&self.path(first)[..common], 0);
            for (i, total) in totals.iter().enumerate().take(n) {
                let weights = values.weights.add(i * stride);
                let sums = values.sums.add(i * width);
                let own = Values { weights, sums, ..values };
                own.add_path::<L, E, 1>(self.path(first + i), common);
                for d in (0..width).step_by(LANES) {
                    let mut out = [0.0; LANES];
                    L::store(out.as_mut_ptr(), L::div(L::load(sums.add(d)), L::splat(*total)));
                    let to = self.out.add(self.place(first + i) * value_dim + d);
                    std::ptr::copy_nonoverlapping(out.as_ptr(), to, LANES.min(value_dim - d));
                }
            }
        }
    }
}
