//! What a recurrent layer computes of a row from what its parent left: the causal convolution, and
//! the matrix that each head carries from row to row. Every row's numbers depend on its own path
//! only, in one order of summation. It must not depend on which rows are kept or committed.

use super::aligned::AlignedFloats;
use super::lanes::{self, LANES, Lanes, Work};
use super::math;
use super::pool::{Pool, Shareable};
use super::rowwise::times_sigmoid;
use std::array::from_fn;
use std::cell::RefCell;

/// How many partial sums each product with a state has.
const SUMS: usize = 2;
/// How many blocks of 16 columns are computed at once at most.
const MOST_BLOCKS: usize = 2;

thread_local! {
    /// The states of some rows, some columns of a head at a time, and a number for each step.
    static SCRATCH: RefCell<(AlignedFloats, Vec<f32>)> = RefCell::default();
}

/// What the layers of a model carry from row to row: inputs of a convolution and, with heads, a
/// state M for each, `[value, key]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecurrentShape {
    /// How many rows the convolution spans, the current one included.
    pub taps: usize,
    /// The width of its rows, a multiple of 16.
    pub channels: usize,
    /// How the states of heads change.
    pub kind: StateKind,
    /// How many heads have a state; 0 if the convolution is all that there is.
    pub heads: usize,
    /// How many heads have queries and keys.
    pub key_heads: usize,
    /// The width of a key, a multiple of 16.
    pub key: usize,
    /// The width of a value.
    pub value: usize,
    /// Whether value head j reads key head j mod `key_heads`, not j div (heads / key heads).
    pub tiled: bool,
}

/// How the state of a head changes with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// Gated DeltaNet. The channels are the queries, the keys and the values of all heads. The norm
    /// of queries and keys is made 1, and queries are divided by the root of their width. M becomes
    /// decay · M + e kᵀ with e = factor · (v − decay · M k), and the output is M q.
    Delta,
    /// Mamba-2. The channels are the values x of all heads, and the keys B and the queries C of all
    /// groups. M becomes decay · M + factor · x Bᵀ, and the output is M C + skip · x.
    Mamba2,
}

impl RecurrentShape {
    /// The width of a kept row: the convolution's input, then decay and factor of every head.
    pub(super) fn row(&self) -> usize {
        self.channels + 2 * self.heads
    }

    /// How many numbers the states of a layer have.
    pub(super) fn state(&self) -> usize {
        self.heads * self.blocks() * self.key * LANES
    }

    /// How many blocks of 16 columns the state of a head has; the last one may have unused ones.
    pub(super) fn blocks(&self) -> usize {
        self.value.div_ceil(LANES)
    }

    /// The width of the results.
    pub fn outputs(&self) -> usize {
        if self.heads == 0 { self.channels } else { self.heads * self.value }
    }

    /// Where the query, the key and the value of a head begin in a row.
    fn places(&self, head: usize) -> [usize; 3] {
        let keys = self.key_heads * self.key;
        let key_head = match self.tiled {
            true => head % self.key_heads,
            false => head / (self.heads / self.key_heads),
        };
        let at = key_head * self.key;
        let values = self.heads * self.value;
        match self.kind {
            StateKind::Delta => [at, keys + at, 2 * keys + head * self.value],
            StateKind::Mamba2 => [values + keys + at, values + at, head * self.value],
        }
    }
}

/// The weights of a causal convolution and of what follows it.
#[derive(Clone, Debug)]
pub struct StateWeights {
    /// `[taps, channels]`; the last tap multiplies the current row.
    pub kernel: Vec<f32>,
    /// The bias of the convolution, `[channels]`, or empty.
    pub bias: Vec<f32>,
    /// The factors of a head's value in its result, `[heads]`, or empty.
    pub skip: Vec<f32>,
    /// The ε of the norms of queries and keys.
    pub eps: f32,
}

/// One row of a pass over a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateStep {
    /// The kept row.
    pub(super) row: usize,
    /// The result's row, if it has one.
    pub(super) output: Option<usize>,
    /// Which state it starts from: 0 is the layer's own.
    pub(super) from: usize,
    /// Where its state goes, if a later step starts from it or it is the layer's own.
    pub(super) to: Option<usize>,
}

/// The rows of a pass in an order in which every state is there when it is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StateSteps {
    pub(super) steps: Vec<StateStep>,
    /// The rows that the convolution of each step reads, `[steps, taps]`, the oldest first.
    pub(super) sources: Vec<usize>,
    /// How many states are needed in addition to the layer's own.
    pub(super) states: usize,
}

/// Convolves the rows of all steps, `[steps, channels]`. In a layer with states SiLU follows, and
/// in DeltaNet the norms of queries and keys.
pub(super) fn convolve(
    pool: &Pool,
    shape: &RecurrentShape,
    weights: &StateWeights,
    steps: &StateSteps,
    rows: &[f32],
    out: &mut Vec<f32>,
) {
    assert_eq!(weights.kernel.len(), shape.taps * shape.channels, "a weight for each channel");
    out.resize(steps.steps.len() * shape.channels, 0.0);
    pool.chunks(out, shape.channels, |step, out| {
        let sources = &steps.sources[step * shape.taps..][..shape.taps];
        lanes::run(pool.isa(), Convolve { shape, weights, sources, rows, out });
    });
}

struct Convolve<'a> {
    shape: &'a RecurrentShape,
    weights: &'a StateWeights,
    sources: &'a [usize],
    rows: &'a [f32],
    out: &'a mut [f32],
}

impl Work for Convolve<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Self { shape, weights, sources, rows, out } = self;
        let row = shape.row();
        for (block, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let at = block * LANES;
            let mut sum = math::padded::<L>(weights.bias.get(at..at + LANES).unwrap_or(&[]), 0.0);
            for (tap, &source) in sources.iter().enumerate() {
                let x = &rows[source * row + at..][..LANES];
                let weight = &weights.kernel[tap * shape.channels + at..][..LANES];
                // SAFETY: 16 floats each.
                sum = unsafe { L::fma(L::load(x.as_ptr()), L::load(weight.as_ptr()), sum) };
            }
            if shape.heads > 0 {
                sum = times_sigmoid::<L>(sum, sum);
            }
            // SAFETY: room for 16 floats.
            unsafe { L::store(out.as_mut_ptr(), sum) };
        }
        if shape.heads > 0 && shape.kind == StateKind::Delta {
            let keys = shape.key_heads * shape.key;
            let (queries, rest) = out.split_at_mut(keys);
            let root = 1.0 / (shape.key as f32).sqrt();
            for (heads, factor) in [(queries, root), (&mut rest[..keys], 1.0)] {
                for head in heads.chunks_exact_mut(shape.key) {
                    make_unit::<L>(head, weights.eps, factor);
                }
            }
        }
    }
}

/// x = factor · x / √(Σx² + eps).
#[inline(always)]
fn make_unit<L: Lanes>(x: &mut [f32], eps: f32, factor: f32) {
    let scale = factor / (product::<L>(x, x) + eps).sqrt();
    for x in x.iter_mut() {
        *x *= scale;
    }
}

/// Runs the states of all heads through the steps. `states` are the layer's own, `[heads, blocks,
/// key, 16]`; steps with the same state before and after change it in place. `convolved` is
/// `[steps, channels]`, `rows` the kept rows, and `out` `[rows, heads · value]`.
pub(super) fn advance(
    pool: &Pool,
    shape: &RecurrentShape,
    weights: &StateWeights,
    steps: &StateSteps,
    [rows, convolved]: [&[f32]; 2],
    states: &mut [f32],
    out: &mut [f32],
) {
    let last = steps.steps.iter().filter_map(|step| step.output).max();
    assert!(last.is_none_or(|last| (last + 1) * shape.outputs() <= out.len()), "room for results");
    assert_eq!(states.len(), shape.state(), "a state for each head");
    assert_eq!(convolved.len(), steps.steps.len() * shape.channels, "a row for each step");
    let states = Shareable(states.as_mut_ptr());
    let out = Shareable(out.as_mut_ptr());
    pool.run(shape.heads, |head| {
        SCRATCH.with_borrow_mut(|(others, dots)| {
            others.resize(steps.states * MOST_BLOCKS * shape.key * LANES);
            dots.resize(steps.steps.len(), 0.0);
            // SAFETY: the states and the columns of results of a head belong to one task.
            let states = unsafe { states.get().add(head * shape.state() / shape.heads) };
            let (others, out) = (others.as_mut_ptr(), out.get());
            let skip = weights.skip.get(head).copied();
            let work =
                Advance { shape, skip, steps, rows, convolved, head, dots, states, others, out };
            lanes::run(pool.isa(), work);
        });
    });
}

/// One head. `dots` is room for a number per step, `states` are the head's own, and `others` is
/// room for [`MOST_BLOCKS`] · 16 columns of the others.
struct Advance<'a> {
    shape: &'a RecurrentShape,
    skip: Option<f32>,
    steps: &'a StateSteps,
    rows: &'a [f32],
    convolved: &'a [f32],
    head: usize,
    dots: &'a mut [f32],
    states: *mut f32,
    others: *mut f32,
    out: *mut f32,
}

impl Work for Advance<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Self { shape, convolved, .. } = self;
        let [q, k, _] = shape.places(self.head);
        for (dot, convolved) in self.dots.iter_mut().zip(convolved.chunks_exact(shape.channels)) {
            *dot = product::<L>(&convolved[q..q + shape.key], &convolved[k..k + shape.key]);
        }
        let mut block = 0;
        while block < shape.blocks() {
            if L::BLOCKS > 1 && block + 1 < shape.blocks() {
                self.advance::<L, 2>(block);
                block += 2;
            } else {
                self.advance::<L, 1>(block);
                block += 1;
            }
        }
    }
}

impl Advance<'_> {
    /// Runs `B` blocks of 16 columns through all steps.
    #[inline(always)]
    fn advance<L: Lanes, const B: usize>(&self, block: usize) {
        let Self { shape, steps, head, .. } = *self;
        let (key, columns) = (shape.key, shape.key * LANES);
        let [q_at, k_at, v_at] = shape.places(head);
        let corrects = shape.kind == StateKind::Delta;
        let widths = from_fn::<_, B, _>(|i| LANES.min(shape.value - (block + i) * LANES));
        let all = steps.steps.iter().zip(self.convolved.chunks_exact(shape.channels));
        for ((step, convolved), &dot) in all.zip(&*self.dots) {
            let gates = &self.rows[step.row * shape.row() + shape.channels..][..2 * shape.heads];
            let (decay, factor) = (L::splat(gates[head]), L::splat(gates[shape.heads + head]));
            let q = &convolved[q_at..q_at + key];
            let k = &convolved[k_at..k_at + key];
            let v: [L::F; B] = from_fn(|i| {
                let v = &convolved[v_at + (block + i) * LANES..][..widths[i]];
                math::padded::<L>(v, 0.0)
            });
            // SAFETY: the head has as many blocks of its own, and `StateSteps` counts the other
            // states.
            let of = |state: usize| unsafe {
                match state.checked_sub(1) {
                    None => self.states.add(block * columns),
                    Some(other) => self.others.add(other * B * columns),
                }
            };
            let from = of(step.from);
            // SAFETY: a block is `key` · 16 floats, and `q`, `k` and `v` are as long as they
            // are cut; `advance` has checked the row of the result.
            unsafe {
                let mut by_k = [[L::splat(0.0); SUMS]; B];
                let mut by_q = [[L::splat(0.0); SUMS]; B];
                for at in (0..key).step_by(SUMS) {
                    for i in 0..SUMS {
                        let k = L::splat(*k.as_ptr().add(at + i));
                        let q = L::splat(*q.as_ptr().add(at + i));
                        for b in 0..B {
                            let state = L::load(from.add(b * columns + (at + i) * LANES));
                            if corrects {
                                by_k[b][i] = L::fma(state, k, by_k[b][i]);
                            }
                            by_q[b][i] = L::fma(state, q, by_q[b][i]);
                        }
                    }
                }
                let mut added = v;
                for (b, added) in added.iter_mut().enumerate() {
                    if corrects {
                        *added = L::sub(*added, L::mul(decay, total::<L>(by_k[b])));
                    }
                    *added = L::mul(*added, factor);
                }
                if let Some(row) = step.output {
                    let at = row * shape.outputs() + head * shape.value + block * LANES;
                    for b in 0..B {
                        // The new state times q, without the new state.
                        let decayed = L::mul(decay, total::<L>(by_q[b]));
                        let result = L::fma(added[b], L::splat(dot), decayed);
                        let result =
                            self.skip.map_or(result, |d| L::fma(L::splat(d), v[b], result));
                        let out = self.out.add(at + b * LANES);
                        if widths[b] == LANES {
                            L::store(out, result);
                        } else {
                            let mut numbers = [0.0; LANES];
                            L::store(numbers.as_mut_ptr(), result);
                            out.copy_from_nonoverlapping(numbers.as_ptr(), widths[b]);
                        }
                    }
                }
                if let Some(to) = step.to.map(of) {
                    for (at, &k) in k.iter().enumerate() {
                        let at = from_fn::<_, B, _>(|b| b * columns + at * LANES);
                        // All are loaded before any is stored: the addresses differ by multiples
                        // of 4 KiB, and a load waits for a store that may be to its own address.
                        let old = at.map(|at| L::mul(decay, L::load(from.add(at))));
                        for b in 0..B {
                            L::store(to.add(at[b]), L::fma(added[b], L::splat(k), old[b]));
                        }
                    }
                }
            }
        }
    }
}

/// The sum of the products of two rows, whose width is a multiple of 16.
#[inline(always)]
fn product<L: Lanes>(x: &[f32], y: &[f32]) -> f32 {
    let mut sums = L::splat(0.0);
    for (x, y) in x.as_chunks::<LANES>().0.iter().zip(y.as_chunks::<LANES>().0) {
        // SAFETY: 16 floats each.
        sums = unsafe { L::fma(L::load(x.as_ptr()), L::load(y.as_ptr()), sums) };
    }
    math::sum::<L>(sums)
}

#[inline(always)]
fn total<L: Lanes>(sums: [L::F; SUMS]) -> L::F {
    let [a, b] = sums;
    L::add(a, b)
}
