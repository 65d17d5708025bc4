//! Element-wise and row-wise operations: RMS norm, rotary position embedding (RoPE), gated
//! activations, sums. Each result depends on its own row only and is computed in a fixed order.
//! Must never know layers or models.

use super::lanes::{self, LANES, Lanes, Work};
use super::math;
use super::pool::Pool;

/// Elements per task: fewer cost more to dispatch than to compute.
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
        lanes::run(pool.isa(), Norm { x: &x[i * n..i * n + out.len()], weight, eps, out });
    });
}

/// Rotates each head of each row of `x`, `[m, heads · head_dim]`, in place: dimensions d and
/// d + head_dim/2 by the angle whose cosine and sine are `cos` and `sin`, `[m, head_dim/2]`.
///
/// # Panics
/// If the shapes disagree or `head_dim` is odd.
pub fn rope(pool: &Pool, x: &mut [f32], head_dim: usize, cos: &[f32], sin: &[f32]) {
    let half = head_dim / 2;
    assert!(half > 0 && head_dim.is_multiple_of(2), "{head_dim} dimensions in pairs");
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
                Rotate { x, cos: &cos[at..at + half], sin: &sin[at..at + half] },
            );
        }
    });
}

/// gate = silu(gate) · up, element by element, with silu(x) = x / (1 + e⁻ˣ).
///
/// # Panics
/// If the lengths differ.
pub fn silu_mul(pool: &Pool, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "a factor for each element");
    pool.chunks(gate, WORTH, |i, gate| {
        let up = &up[i * WORTH..i * WORTH + gate.len()];
        lanes::run(pool.isa(), Gate { gate, up });
    });
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

struct Norm<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    out: &'a mut [f32],
}

impl Work for Norm<'_> {
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
    cos: &'a [f32],
    sin: &'a [f32],
}

impl Work for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let half = self.cos.len();
        for head in self.x.chunks_exact_mut(2 * half) {
            let (a, b) = head.split_at_mut(half);
            for (((a, b), c), s) in a.iter_mut().zip(b).zip(self.cos).zip(self.sin) {
                (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
            }
        }
    }
}

struct Gate<'a> {
    gate: &'a mut [f32],
    up: &'a [f32],
}

impl Work for Gate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let (gates, gate) = self.gate.as_chunks_mut::<LANES>();
        let (ups, up) = self.up.as_chunks::<LANES>();
        for (gate, up) in gates.iter_mut().zip(ups) {
            gated::<L>(gate, up);
        }
        let (mut last, mut factor) = ([0.0; LANES], [0.0; LANES]);
        last[..gate.len()].copy_from_slice(gate);
        factor[..up.len()].copy_from_slice(up);
        gated::<L>(&mut last, &factor);
        gate.copy_from_slice(&last[..gate.len()]);
    }
}

#[inline(always)]
fn gated<L: Lanes>(gate: &mut [f32; LANES], up: &[f32; LANES]) {
    // SAFETY: 16 floats each.
    unsafe {
        let (x, up) = (L::load(gate.as_ptr()), L::load(up.as_ptr()));
        let e = math::exp::<L>(L::sub(L::splat(0.0), x));
        let silu = L::div(x, L::add(L::splat(1.0), e));
        L::store(gate.as_mut_ptr(), L::mul(silu, up));
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
        let (x, a, b) = (L::load(gate.as_ptr()), L::load(a.as_ptr()), L::load(b.as_ptr()));
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
