//! Element-wise and row-wise operations: RMS norm, rotary position embedding (RoPE), gated
//! activations, sums. Each result depends only on its own row and is computed in a fixed order. It
//! must not depend on layers or models.

use super::lanes::{self, LANES, Lanes, Work};
use super::math;
use super::pool::Pool;

/// Elements per task: with fewer, the dispatch would take longer than the computation.
const WORTH: usize = 8192;

/// Root-mean-square norm of each row of `x`, `[m, n]`, times `weight`, `[n]`:
/// out = x / √(mean(x²) + eps) · weight.
///
/// # Panics
/// If the shapes disagree.
pub fn rms_norm(pool: &Pool, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let n = weight.len();
    assert!(n > 0 && x.len().is_multiple_of(n), "rows of {n}");
    assert_eq!(x.len(), out.len(), "a result for each element");
    rows(pool, out, n, |i, out| {
        lanes::run(pool.isa(), NormRows { x: &x[i * n..i * n + out.len()], weight, eps, out });
    });
}

/// Layer norm of each row of `x`, `[m, n]`: out = (x − mean) / √(variance + eps) · weight + bias,
/// with `bias` `[n]`. Row i takes row i mod k of `weight`, `[k, n]`. The sums are computed in f64,
/// in the order of the row.
///
/// # Panics
/// If the shapes disagree.
pub fn layer_norm(pool: &Pool, x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32]) {
    let n = bias.len();
    assert!(n > 0 && x.len().is_multiple_of(n), "rows of {n}");
    assert!(!weight.is_empty() && weight.len().is_multiple_of(n), "weights for rows of {n}");
    assert_eq!(x.len(), out.len(), "a result for each element");
    rows(pool, out, n, |i, out| {
        let weights = weight.chunks_exact(n).cycle().skip(i % (weight.len() / n));
        let rows = x[i * n..].chunks_exact(n).zip(out.chunks_exact_mut(n));
        for ((x, out), weight) in rows.zip(weights) {
            let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / n as f64;
            let squares = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>();
            let scale = 1.0 / (squares / n as f64 + f64::from(eps)).sqrt();
            for (((out, &x), &w), &b) in out.iter_mut().zip(x).zip(weight).zip(bias) {
                *out = ((f64::from(x) - mean) * scale) as f32 * w + b;
            }
        }
    });
}

/// Rotates the first `rotary_dim` dimensions of each head of each row of `x`, `[m, heads ·
/// head_dim]`, in place: dimensions d and d + rotary_dim/2 are rotated by the angle whose cosine
/// and sine are in `cos` and `sin`, `[m, rotary_dim/2]`.
///
/// # Panics
/// If the shapes disagree or `rotary_dim` is odd or above `head_dim`.
pub fn rope(
    pool: &Pool,
    x: &mut [f32],
    head_dim: usize,
    rotary_dim: usize,
    cos: &[f32],
    sin: &[f32],
) {
    let half = rotary_dim / 2;
    assert!(half > 0 && rotary_dim.is_multiple_of(2), "{rotary_dim} dimensions in pairs");
    assert!(rotary_dim <= head_dim, "{rotary_dim} of {head_dim} dimensions");
    assert!(cos.len() == sin.len() && cos.len().is_multiple_of(half), "angles of {half}");
    let m = cos.len() / half;
    if m == 0 {
        return;
    }
    assert!(x.len().is_multiple_of(m * head_dim), "{m} rows of whole heads");
    let row = x.len() / m;
    rows(pool, x, row, |i, x| {
        for (r, x) in x.chunks_exact_mut(row).enumerate() {
            let at = (i + r) * half;
            lanes::run(
                pool.isa(),
                Rotate { x, head_dim, cos: &cos[at..at + half], sin: &sin[at..at + half] },
            );
        }
    });
}

/// The activation function of a gated MLP.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Activation {
    /// silu(x) = x / (1 + e⁻ˣ) (SwiGLU).
    #[default]
    Silu,
    /// GELU in its tanh form, x / (1 + e⁻²ᵘ) with u = √(2/π) · (x + 0.044715 x³) (GeGLU).
    GeluTanh,
    /// max(x, 0)² (Nemotron-H).
    ReluSquared,
    /// gpt-oss's clamped SwiGLU: min(x, limit) · σ(alpha · min(x, limit)), times up clipped to
    /// ±limit, plus 1.
    ClampedSwiGlu {
        /// The factor inside σ.
        alpha: f32,
        /// The upper bound of the gate, and of the absolute value of up.
        limit: f32,
    },
}

/// gate = activation(gate) · up, element by element.
///
/// # Panics
/// If the lengths differ.
pub fn gated(pool: &Pool, activation: Activation, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "a factor for each element");
    each(pool, activation, gate, [up, &[]]);
}

/// x = activation(x), element by element, for an MLP without a gate.
pub fn activate(pool: &Pool, activation: Activation, x: &mut [f32]) {
    each(pool, activation, x, [&[], &[]]);
}

/// x = cap · tanh(x / cap), element by element, within 1e-7 · cap.
pub fn softcap(pool: &Pool, x: &mut [f32], cap: f32) {
    each(pool, Cap(cap), x, [&[], &[]]);
}

/// gate = σ(gate) · a + (1 − σ(gate)) · b, element by element, with σ(x) = 1 / (1 + e⁻ˣ).
///
/// # Panics
/// If the lengths differ.
pub fn sigmoid_blend(pool: &Pool, gate: &mut [f32], a: &[f32], b: &[f32]) {
    assert!(gate.len() == a.len() && a.len() == b.len(), "two values for each gate");
    each(pool, Blend, gate, [a, b]);
}

/// x = x · σ(gate), element by element.
///
/// # Panics
/// If the lengths differ.
pub fn sigmoid_gate(pool: &Pool, x: &mut [f32], gate: &[f32]) {
    assert_eq!(x.len(), gate.len(), "a gate for each element");
    each(pool, SigmoidGate, x, [gate, &[]]);
}

/// x += y, element by element.
///
/// # Panics
/// If the lengths differ.
pub fn add(pool: &Pool, x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "a summand for each element");
    pool.chunks(x, 4 * WORTH, |i, x| {
        lanes::run(pool.isa(), Add { x, y: &y[i * 4 * WORTH..] });
    });
}

/// Calls `task(first row, rows)` for runs of whole rows of `n` elements, at least [`WORTH`] each.
fn rows(pool: &Pool, x: &mut [f32], n: usize, task: impl Fn(usize, &mut [f32]) + Sync) {
    let run = WORTH.div_ceil(n);
    pool.chunks(x, run * n, |i, chunk| task(i * run, chunk));
}

struct NormRows<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    out: &'a mut [f32],
}

impl Work for NormRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let n = self.weight.len();
        for (x, out) in self.x.chunks_exact(n).zip(self.out.chunks_exact_mut(n)) {
            let mut squares = L::splat(0.0);
            let mut whole = x.chunks_exact(LANES);
            for x in &mut whole {
                // SAFETY: chunks of 16.
                let x = unsafe { L::load(x.as_ptr()) };
                squares = L::fma(x, x, squares);
            }
            let last = math::padded::<L>(whole.remainder(), 0.0);
            let mean = math::sum::<L>(L::fma(last, last, squares)) / n as f32;
            let scale = 1.0 / (mean + self.eps).sqrt();
            for ((out, x), w) in out.iter_mut().zip(x).zip(self.weight) {
                *out = x * scale * w;
            }
        }
    }
}

struct Rotate<'a> {
    x: &'a mut [f32],
    head_dim: usize,
    cos: &'a [f32],
    sin: &'a [f32],
}

impl Work for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let half = self.cos.len();
        for head in self.x.chunks_exact_mut(self.head_dim) {
            let (a, b) = head[..2 * half].split_at_mut(half);
            for (((a, b), c), s) in a.iter_mut().zip(b).zip(self.cos).zip(self.sin) {
                (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
            }
        }
    }
}

/// A function of the numbers of a lane.
trait Elementwise: Copy + Sync {
    /// The new value of `x`. It is compiled for the instruction set of its caller only if it is
    /// inlined.
    fn apply<L: Lanes>(self, x: L::F, a: L::F, b: L::F) -> L::F;
}

/// x = op(x, a, b), element by element; missing values of `a` and `b` count as 1.
fn each(pool: &Pool, op: impl Elementwise, x: &mut [f32], others: [&[f32]; 2]) {
    pool.chunks(x, WORTH, |i, x| {
        let at = i * WORTH..i * WORTH + x.len();
        let others = others.map(|other| other.get(at.clone()).unwrap_or(&[]));
        lanes::run(pool.isa(), Each { op, x, others });
    });
}

struct Each<'a, O> {
    op: O,
    x: &'a mut [f32],
    others: [&'a [f32]; 2],
}

impl<O: Elementwise> Work for Each<'_, O> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let one = [1.0; LANES];
        let [(a, last_a), (b, last_b)] = self.others.map(|other| other.as_chunks::<LANES>());
        let (whole, rest) = self.x.as_chunks_mut::<LANES>();
        for (i, x) in whole.iter_mut().enumerate() {
            replace::<L, O>(self.op, x, a.get(i).unwrap_or(&one), b.get(i).unwrap_or(&one));
        }
        let mut last = [one; 3];
        for (to, from) in last.iter_mut().zip([&*rest, last_a, last_b]) {
            to[..from.len()].copy_from_slice(from);
        }
        let [mut x, a, b] = last;
        replace::<L, O>(self.op, &mut x, &a, &b);
        rest.copy_from_slice(&x[..rest.len()]);
    }
}

#[inline(always)]
fn replace<L: Lanes, O: Elementwise>(
    op: O,
    x: &mut [f32; LANES],
    a: &[f32; LANES],
    b: &[f32; LANES],
) {
    // SAFETY: 16 floats each.
    unsafe {
        let new = op.apply::<L>(L::load(x.as_ptr()), L::load(a.as_ptr()), L::load(b.as_ptr()));
        L::store(x.as_mut_ptr(), new);
    }
}

impl Elementwise for Activation {
    #[inline(always)]
    fn apply<L: Lanes>(self, x: L::F, up: L::F, _: L::F) -> L::F {
        match self {
            Activation::Silu => L::mul(times_sigmoid::<L>(x, x), up),
            Activation::GeluTanh => {
                /// √(2/π).
                const ROOT: f32 = 0.797_884_6;
                let cube = L::mul(L::mul(x, x), x);
                let u = L::fma(cube, L::splat(0.044_715), x);
                L::mul(times_sigmoid::<L>(x, L::mul(u, L::splat(2.0 * ROOT))), up)
            }
            Activation::ReluSquared => {
                let x = L::max(x, L::splat(0.0));
                L::mul(L::mul(x, x), up)
            }
            Activation::ClampedSwiGlu { alpha, limit } => {
                let x = L::min(x, L::splat(limit));
                let up = L::max(L::min(up, L::splat(limit)), L::splat(-limit));
                let gate = times_sigmoid::<L>(x, L::mul(x, L::splat(alpha)));
                L::mul(gate, L::add(up, L::splat(1.0)))
            }
        }
    }
}

/// x / (1 + e^(−t)): x · σ(t).
#[inline(always)]
pub(super) fn times_sigmoid<L: Lanes>(x: L::F, t: L::F) -> L::F {
    let e = math::exp::<L>(L::sub(L::splat(0.0), t));
    L::div(x, L::add(L::splat(1.0), e))
}

#[derive(Clone, Copy)]
struct Cap(f32);

impl Elementwise for Cap {
    #[inline(always)]
    fn apply<L: Lanes>(self, x: L::F, _: L::F, _: L::F) -> L::F {
        math::softcap::<L>(x, self.0)
    }
}

#[derive(Clone, Copy)]
struct Blend;

impl Elementwise for Blend {
    #[inline(always)]
    fn apply<L: Lanes>(self, x: L::F, a: L::F, b: L::F) -> L::F {
        let share = times_sigmoid::<L>(L::splat(1.0), x);
        L::fma(share, L::sub(a, b), b)
    }
}

#[derive(Clone, Copy)]
struct SigmoidGate;

impl Elementwise for SigmoidGate {
    #[inline(always)]
    fn apply<L: Lanes>(self, x: L::F, gate: L::F, _: L::F) -> L::F {
        times_sigmoid::<L>(x, gate)
    }
}

struct Add<'a> {
    x: &'a mut [f32],
    y: &'a [f32],
}

impl Work for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        for (x, y) in self.x.iter_mut().zip(self.y) {
            *x += y;
        }
    }
}
