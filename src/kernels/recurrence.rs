//! What a recurrent layer computes of a row from what its parent left: the causal convolution, and
//! the matrix that each head carries from row to row. Every row's numbers depend on its own path
//! only, in one order of summation. It must not depend on which rows are kept or committed.

use super::lanes::{self, LANES, Lanes, Work};
use super::math;
use super::pool::{Pool, Shareable};
use super::rowwise::times_sigmoid;
use std::cell::RefCell;

/// How many partial sums each product with a state has.
const SUMS: usize = 2;

thread_local! {
    /// The states of some rows, 16 columns of a head at a time.
    static STATES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
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
        STATES.with_borrow_mut(|others| {
            let room = steps.states * shape.key * LANES;
            others.resize(room + steps.steps.len(), 0.0);
            let (others, dots) = others.split_at_mut(room);
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
/// room for 16 columns of the others.
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
        let Self { shape, skip, steps, rows, convolved, head, dots, states, others, out } = self;
        let (key, columns) = (shape.key, shape.key * LANES);
        let [q_at, k_at, v_at] = shape.places(head);
        let corrects = shape.kind == StateKind::Delta;
        let all = || steps.steps.iter().zip(convolved.chunks_exact(shape.channels));
        for (dot, (_, convolved)) in dots.iter_mut().zip(all()) {
            *dot = product::<L>(&convolved[q_at..q_at + key], &convolved[k_at..k_at + key]);
        }
        for block in 0..shape.blocks() {
            let width = LANES.min(shape.value - block * LANES);
            for ((step, convolved), &dot) in all().zip(&*dots) {
                let gates = &rows[step.row * shape.row() + shape.channels..][..2 * shape.heads];
                let (decay, factor) = (L::splat(gates[head]), L::splat(gates[shape.heads + head]));
                let q = &convolved[q_at..q_at + key];
                let k = &convolved[k_at..k_at + key];
                let v = &convolved[v_at + block * LANES..][..width];
                // SAFETY: the head has as many blocks of its own, and `StateSteps` counts the other
                // states.
                let of = |state: usize| unsafe {
                    match state.checked_sub(1) {
                        None => states.add(block * columns),
                        Some(other) => others.add(other * columns),
                    }
                };
                let from = of(step.from);
                // SAFETY: a block is `key` · 16 floats, and `q`, `k` and `v` are as long as they
                // are cut; `advance` has checked the row of the result.
                unsafe {
                    let v = math::padded::<L>(v, 0.0);
                    let mut by_k = [L::splat(0.0); SUMS];
                    let mut by_q = [L::splat(0.0); SUMS];
                    for at in (0..key).step_by(SUMS) {
                        for i in 0..SUMS {
                            let state = L::load(from.add((at + i) * LANES));
                            if corrects {
                                by_k[i] = L::fma(state, L::splat(*k.as_ptr().add(at + i)), by_k[i]);
                            }
                            by_q[i] = L::fma(state, L::splat(*q.as_ptr().add(at + i)), by_q[i]);
                        }
                    }
                    let error = match shape.kind {
                        StateKind::Delta => L::sub(v, L::mul(decay, total::<L>(by_k))),
                        StateKind::Mamba2 => v,
                    };
                    let added = L::mul(error, factor);
                    if let Some(row) = step.output {
                        // The new state times q, without the new state.
                        let result = L::fma(added, L::splat(dot), L::mul(decay, total::<L>(by_q)));
                        let at = row * shape.outputs() + head * shape.value + block * LANES;
                        let result = skip.map_or(result, |d| L::fma(L::splat(d), v, result));
                        let mut numbers = [0.0; LANES];
                        L::store(numbers.as_mut_ptr(), result);
                        out.add(at).copy_from_nonoverlapping(numbers.as_ptr(), width);
                    }
                    if let Some(to) = step.to.map(of) {
                        for at in 0..key {
                            let old = L::mul(decay, L::load(from.add(at * LANES)));
                            let new = L::fma(added, L::splat(*k.as_ptr().add(at)), old);
                            L::store(to.add(at * LANES), new);
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
