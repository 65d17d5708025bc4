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
/// with `weight` and `bias` `[n]`. The sums are computed in f64, in the order of the row.
///
/// # Panics
/// If the shapes disagree.
pub fn layer_norm(pool: &Pool, x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32]) {
    let n = weight.len();
    assert!(n > 0 && x.len().is_multiple_of(n) && bias.len() == n, "rows of {n}");
    assert_eq!(x.len(), out.len(), "a result for each element");
    rows(pool, out, n, |i, out| {
        for (x, out) in x[i * n..].chunks_exact(n).zip(out.chunks_exact_mut(n)) {
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
    pool.chunks(gate, WORTH, |i, gate| {
        let up = &up[i * WORTH..i * WORTH + gate.len()];
        lanes::run(pool.isa(), Gate { activation, gate, up: Some(up) });
    });
}

/// gate = silu(gate) · up, element by element: [`gated`] with [`Activation::Silu`].
///
/// # Panics
/// If the lengths differ.
pub fn silu_mul(pool: &Pool, gate: &mut [f32], up: &[f32]) {
    gated(pool, Activation::Silu, gate, up);
}

/// x = activation(x), element by element, for an MLP without a gate.
pub fn activate(pool: &Pool, activation: Activation, x: &mut [f32]) {
    pool.chunks(x, WORTH, |_, x| {
        lanes::run(pool.isa(), Gate { activation, gate: x, up: None });
    });
}

/// x = cap · tanh(x / cap), element by element, within 1e-7 · cap.
pub fn softcap(pool: &Pool, x: &mut [f32], cap: f32) {
    pool.chunks(x, WORTH, |_, x| lanes::run(pool.isa(), Cap { x, cap }));
}

/// gate = σ(gate) · a + (1 − σ(gate)) · b, element by element, with σ(x) = 1 / (1 + e⁻ˣ).
///
/// # Panics
/// If the lengths differ.
pub fn sigmoid_blend(pool: &Pool, gate: &mut [f32], a: &[f32], b: &[f32]) {
    assert!(gate.len() == a.len() && a.len() == b.len(), "two values for each gate");
    pool.chunks(gate, WORTH, |i, gate| {
        let at = i * WORTH..i * WORTH + gate.len();
        lanes::run(pool.isa(), Blend { gate, a: &a[at.clone()], b: &b[at] });
    });
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
            let mut last = [0.0; LANES];
            last[..whole.remainder().len()].copy_from_slice(whole.remainder());
            // SAFETY: 16 floats.
            let last = unsafe { L::load(last.as_ptr()) };
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

struct Gate<'a> {
    activation: Activation,
    gate: &'a mut [f32],
    up: Option<&'a [f32]>,
}

impl Work for Gate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let (gates, gate) = self.gate.as_chunks_mut::<LANES>();
        let one = [1.0; LANES];
        let ups = self.up.map_or(&[][..], |up| up.as_chunks::<LANES>().0);
        for (i, gate) in gates.iter_mut().enumerate() {
            apply::<L>(self.activation, gate, ups.get(i).unwrap_or(&one));
        }
        let mut last = [0.0; LANES];
        let mut factor = one;
        last[..gate.len()].copy_from_slice(gate);
        if let Some(up) = self.up {
            factor[..gate.len()].copy_from_slice(&up[up.len() - gate.len()..]);
        }
        apply::<L>(self.activation, &mut last, &factor);
        gate.copy_from_slice(&last[..gate.len()]);
    }
}

/// The choice is made inside the loop. A function passed as an argument would be compiled on its
/// own, without the instruction set of its caller, and every operation of a lane would become a
/// call.
#[inline(always)]
fn apply<L: Lanes>(activation: Activation, gate: &mut [f32; LANES], up: &[f32; LANES]) {
    // SAFETY: 16 floats each.
    unsafe {
        let x = L::load(gate.as_ptr());
        let up = L::load(up.as_ptr());
        let out = match activation {
            Activation::Silu => silu_gate::<L>(x, up),
            Activation::GeluTanh => gelu_gate::<L>(x, up),
            Activation::ClampedSwiGlu { alpha, limit } => clamped_gate::<L>(x, up, alpha, limit),
        };
        L::store(gate.as_mut_ptr(), out);
    }
}

/// x / (1 + e^(−t)): x · σ(t).
#[inline(always)]
fn times_sigmoid<L: Lanes>(x: L::F, t: L::F) -> L::F {
    let e = math::exp::<L>(L::sub(L::splat(0.0), t));
    L::div(x, L::add(L::splat(1.0), e))
}

#[inline(always)]
fn silu_gate<L: Lanes>(x: L::F, up: L::F) -> L::F {
    L::mul(times_sigmoid::<L>(x, x), up)
}

#[inline(always)]
fn gelu_gate<L: Lanes>(x: L::F, up: L::F) -> L::F {
    /// √(2/π).
    const ROOT: f32 = 0.797_884_6;
    let cube = L::mul(L::mul(x, x), x);
    let u = L::fma(cube, L::splat(0.044_715), x);
    L::mul(times_sigmoid::<L>(x, L::mul(u, L::splat(2.0 * ROOT))), up)
}

#[inline(always)]
fn clamped_gate<L: Lanes>(x: L::F, up: L::F, alpha: f32, limit: f32) -> L::F {
    let x = L::min(x, L::splat(limit));
    let up = L::max(L::min(up, L::splat(limit)), L::splat(-limit));
    let gate = times_sigmoid::<L>(x, L::mul(x, L::splat(alpha)));
    L::mul(gate, L::add(up, L::splat(1.0)))
}

struct Cap<'a> {
    x: &'a mut [f32],
    cap: f32,
}

impl Work for Cap<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let (whole, rest) = self.x.as_chunks_mut::<LANES>();
        math::softcap::<L>(whole.as_flattened_mut(), self.cap);
        let mut last = [0.0; LANES];
        last[..rest.len()].copy_from_slice(rest);
        math::softcap::<L>(&mut last, self.cap);
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

struct Blend<'a> {
    gate: &'a mut [f32],
    a: &'a [f32],
    b: &'a [f32],
}

impl Work for Blend<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let (gates, gate) = self.gate.as_chunks_mut::<LANES>();
        let (firsts, a) = self.a.as_chunks::<LANES>();
        let (seconds, b) = self.b.as_chunks::<LANES>();
        for ((gate, a), b) in gates.iter_mut().zip(firsts).zip(seconds) {
            blended::<L>(gate, a, b);
        }
        let mut last = [[0.0; LANES]; 3];
        for (last, rest) in last.iter_mut().zip([&*gate, a, b]) {
            last[..rest.len()].copy_from_slice(rest);
        }
        let [mut end, a, b] = last;
        blended::<L>(&mut end, &a, &b);
        gate.copy_from_slice(&end[..gate.len()]);
    }
}

#[inline(always)]
fn blended<L: Lanes>(gate: &mut [f32; LANES], a: &[f32; LANES], b: &[f32; LANES]) {
    // SAFETY: 16 floats each.
    unsafe {
        let x = L::load(gate.as_ptr());
        let a = L::load(a.as_ptr());
        let b = L::load(b.as_ptr());
        let e = math::exp::<L>(L::sub(L::splat(0.0), x));
        let share = L::div(L::splat(1.0), L::add(L::splat(1.0), e));
        L::store(gate.as_mut_ptr(), L::fma(share, L::sub(a, b), b));
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
