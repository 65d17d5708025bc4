//! Functions of sixteen lanes that no instruction computes, built from operations that every
//! instruction set rounds the same way. It does not depend on rows.

use super::lanes::{LANES, Lanes};

/// At this size neighbouring floats differ by 1, so adding it rounds to the nearest integer (ties
/// to even).
pub(super) const UNIT: f32 = 12_582_912.0;
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// eˣ within 2 units in the last place for x in −87..=88; x outside is clamped to these bounds.
#[inline(always)]
pub(super) fn exp<L: Lanes>(x: L::F) -> L::F {
    let x = L::min(L::max(x, L::splat(-87.0)), L::splat(88.0));
    let power = L::fma(x, L::splat(std::f32::consts::LOG2_E), L::splat(UNIT));
    let n = L::sub(power, L::splat(UNIT));
    let r = L::fma(n, L::splat(-LN_2_HIGH), x);
    let r = L::fma(n, L::splat(-LN_2_LOW), r);
    // e^r on −ln 2 / 2..ln 2 / 2: the minimax polynomial of the Cephes library's expf.
    let mut p = L::splat(1.987_569_1e-4);
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = L::fma(p, r, L::splat(c));
    }
    let y = L::add(L::fma(p, L::mul(r, r), r), L::splat(1.0));
    L::mul(y, L::power(power))
}

/// cap · tanh(x / cap), within 1e-7 · cap.
#[inline(always)]
pub(super) fn softcap<L: Lanes>(x: L::F, cap: f32) -> L::F {
    let one = L::splat(1.0);
    // tanh(x) = (e²ˣ − 1) / (e²ˣ + 1).
    let e = exp::<L>(L::mul(x, L::splat(2.0 / cap)));
    L::mul(L::div(L::sub(e, one), L::add(e, one)), L::splat(cap))
}

/// Up to sixteen numbers as a vector, padded with `rest`.
#[inline(always)]
pub(super) fn padded<L: Lanes>(x: &[f32], rest: f32) -> L::F {
    let mut all = [rest; LANES];
    all[..x.len()].copy_from_slice(x);
    // SAFETY: 16 floats.
    unsafe { L::load(all.as_ptr()) }
}

/// The sum of the lanes, in an order that does not depend on the instruction set.
#[inline(always)]
pub(super) fn sum<L: Lanes>(x: L::F) -> f32 {
    let x = spread::<L>(x);
    // Without a loop over 8, 4, 2 and 1, which the compiler does not unroll.
    let mut eight = [0.0; 8];
    for (i, sum) in eight.iter_mut().enumerate() {
        *sum = x[i] + x[i + 8];
    }
    let [a, b, c, d, e, f, g, h] = eight;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

#[inline(always)]
fn spread<L: Lanes>(x: L::F) -> [f32; LANES] {
    let mut out = [0.0; LANES];
    // SAFETY: room for 16 floats.
    unsafe { L::store(out.as_mut_ptr(), x) };
    out
}
