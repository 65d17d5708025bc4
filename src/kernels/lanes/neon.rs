//! Lanes as four NEON registers, for every 64-bit ARM processor. The processors differ in how they
//! multiply four bytes at once ([`Dot`]): any of them can use widening products, ARMv8.2 has dot
//! instructions, ARMv8.6 mixed-sign ones. It does not depend on any kernel.
//!
//! Assembly is used where the intrinsics are not stable yet (half floats, dot products) or compile
//! to more instructions.

use std::arch::aarch64::*;
use std::arch::asm;
use std::marker::PhantomData;

use super::{LANES, Lanes, Work};

/// Four registers per vector: lanes 0 to 3, 4 to 7 and so on. A lane holds four bytes.
#[derive(Clone, Copy)]
pub(super) struct Neon<D>(PhantomData<D>);

/// Products of four bytes per lane.
pub(super) trait Dot: Copy + 'static {
    /// The start of a sum of [`Dot::biased`]; see [`Lanes::biased`].
    #[inline(always)]
    fn start(_: i32) -> i32 {
        0
    }
    /// acc + the sums of four products per lane; w is at most 127, x signed and at least −127.
    ///
    /// # Safety
    /// The machine must have the instructions.
    unsafe fn dot(acc: int32x4_t, w: uint8x16_t, x: int8x16_t) -> int32x4_t;
    /// One step of the sum of (w − 128) · x, where w is any bytes; see [`Lanes::dot_biased`].
    ///
    /// # Safety
    /// The machine must have the instructions.
    #[inline(always)]
    unsafe fn biased(acc: int32x4_t, w: uint8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: the caller's promise.
        unsafe { Self::dot(acc, less_128(w), x) }
    }
}

/// Widening products: any ARMv8.
#[derive(Clone, Copy)]
pub(super) struct Widening;

/// `sdot`: ARMv8.2 with dot products.
#[derive(Clone, Copy)]
pub(super) struct DotProduct;

/// `usdot` as well: ARMv8.6, or ARMv8.2 with i8mm.
#[derive(Clone, Copy)]
pub(super) struct MixedSign;

/// Does the work with the named way to multiply bytes.
///
/// # Safety
/// The machine must have its instructions.
pub(super) unsafe fn run<D: Dot, W: Work>(work: W) -> W::Output {
    work.run::<Neon<D>>()
}

/// w − 128 as signed bytes.
#[inline(always)]
fn less_128(w: uint8x16_t) -> uint8x16_t {
    // SAFETY: every 64-bit ARM processor has NEON.
    unsafe { veorq_u8(w, vdupq_n_u8(0x80)) }
}

// SAFETY of every block in the three impls: NEON is part of 64-bit ARM, and the caller promises
// that the machine has the dot instructions.
impl Dot for Widening {
    #[inline(always)]
    unsafe fn dot(acc: int32x4_t, w: uint8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: see above. A byte of w is from −128 to 127 and one of x at least −127, so the sum
        // of two products stays below 2^15.
        unsafe {
            let w = vreinterpretq_s8_u8(w);
            let low = vmull_s8(vget_low_s8(w), vget_low_s8(x));
            let high = vmull_high_s8(w, x);
            vpadalq_s16(acc, vpaddq_s16(low, high))
        }
    }
}

impl Dot for DotProduct {
    #[inline(always)]
    unsafe fn dot(mut acc: int32x4_t, w: uint8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: see above.
        unsafe {
            asm!(
                ".arch_extension dotprod",
                "sdot {acc:v}.4s, {w:v}.16b, {x:v}.16b",
                acc = inout(vreg) acc,
                w = in(vreg) w,
                x = in(vreg) x,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        acc
    }
}

impl Dot for MixedSign {
    #[inline(always)]
    fn start(minus_128_sums: i32) -> i32 {
        minus_128_sums
    }

    #[inline(always)]
    unsafe fn dot(mut acc: int32x4_t, w: uint8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: see above.
        unsafe {
            asm!(
                ".arch_extension i8mm",
                "usdot {acc:v}.4s, {w:v}.16b, {x:v}.16b",
                acc = inout(vreg) acc,
                w = in(vreg) w,
                x = in(vreg) x,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        acc
    }

    #[inline(always)]
    unsafe fn biased(acc: int32x4_t, w: uint8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: see above.
        unsafe { Self::dot(acc, w, x) }
    }
}

/// Applies `f` to each of the four registers.
#[inline(always)]
fn each<T: Copy, U>(x: [T; 4], f: impl Fn(T) -> U) -> [U; 4] {
    [f(x[0]), f(x[1]), f(x[2]), f(x[3])]
}

/// Applies `f` to each pair of registers of two vectors.
#[inline(always)]
fn both<A: Copy, B: Copy, C>(a: [A; 4], b: [B; 4], f: impl Fn(A, B) -> C) -> [C; 4] {
    [f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])]
}

/// Bytes shifted left by `by` bits (right if it is negative).
#[inline(always)]
fn shifted(x: uint8x16_t, by: i8) -> uint8x16_t {
    // SAFETY: see `impl Lanes`.
    unsafe { vshlq_u8(x, vdupq_n_s8(by)) }
}

/// Sixteen bytes as 16-bit unsigned numbers, four per register.
#[inline(always)]
fn widened(x: uint8x16_t) -> [uint16x4_t; 4] {
    // SAFETY: see `impl Lanes`.
    unsafe {
        let low = vmovl_u8(vget_low_u8(x));
        let high = vmovl_high_u8(x);
        [vget_low_u16(low), vget_high_u16(low), vget_low_u16(high), vget_high_u16(high)]
    }
}

/// Four half floats as floats: exact.
#[inline(always)]
fn from_half(x: uint16x4_t) -> float32x4_t {
    let out: float32x4_t;
    // SAFETY: an instruction of every 64-bit ARM processor.
    unsafe {
        asm!(
            "fcvtl {out:v}.4s, {x:v}.4h",
            out = out(vreg) out,
            x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    out
}

/// Four floats as the nearest half floats.
#[inline(always)]
fn to_half(x: float32x4_t) -> uint16x4_t {
    let out: uint16x4_t;
    // SAFETY: an instruction of every 64-bit ARM processor.
    unsafe {
        asm!(
            "fcvtn {out:v}.4h, {x:v}.4s",
            out = out(vreg) out,
            x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    out
}

/// Pairs of 16-bit numbers: the first of each lane are in two registers, the second in two others.
#[inline(always)]
fn pairs(w: [int32x4_t; 4]) -> [int16x8_t; 4] {
    // SAFETY: see `impl Lanes`.
    each(w, |w| unsafe { vreinterpretq_s16_s32(w) })
}

/// acc + w · the I-th number of x.
// By intrinsics, the compiler would widen w once for all rows, into twice as many registers.
#[inline(always)]
fn add_products<const I: usize>(acc: [int32x4_t; 2], w: int16x8_t, x: int16x8_t) -> [int32x4_t; 2] {
    let [mut low, mut high] = acc;
    // SAFETY: instructions of every 64-bit ARM processor.
    unsafe {
        asm!(
            "smlal {low:v}.4s, {w:v}.4h, {x:v}.h[{i}]",
            "smlal2 {high:v}.4s, {w:v}.8h, {x:v}.h[{i}]",
            low = inout(vreg) low,
            high = inout(vreg) high,
            w = in(vreg) w,
            x = in(vreg_low16) x,
            i = const I,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    [low, high]
}

/// The numbers of two such registers as 32 bits.
#[inline(always)]
fn longs(low: int16x8_t, high: int16x8_t) -> [int32x4_t; 4] {
    // SAFETY: see `impl Lanes`.
    unsafe {
        [
            vmovl_s16(vget_low_s16(low)),
            vmovl_high_s16(low),
            vmovl_s16(vget_low_s16(high)),
            vmovl_high_s16(high),
        ]
    }
}

// SAFETY of every block below: NEON is part of 64-bit ARM; the type is used only under `run`, whose
// caller promises what `D` needs; and the caller vouches for pointers (see the trait).
impl<D: Dot> Lanes for Neon<D> {
    type F = [float32x4_t; 4];
    type I = [int32x4_t; 4];
    type B = [uint8x16_t; 4];

    const ROWS: usize = 4;
    const BLOCKS: usize = 1;

    #[inline(always)]
    fn splat(x: f32) -> Self::F {
        // SAFETY: see the impl.
        unsafe { [vdupq_n_f32(x); 4] }
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::F {
        // SAFETY: see the impl.
        unsafe { [vld1q_f32(p), vld1q_f32(p.add(4)), vld1q_f32(p.add(8)), vld1q_f32(p.add(12))] }
    }

    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self::F {
        // SAFETY: see the impl.
        unsafe {
            let low = vld1q_u16(p);
            let high = vld1q_u16(p.add(8));
            let quarters =
                [vget_low_u16(low), vget_high_u16(low), vget_low_u16(high), vget_high_u16(high)];
            each(quarters, from_half)
        }
    }

    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self::F {
        // SAFETY: see the impl.
        unsafe {
            let low = vld1q_u16(p);
            let high = vld1q_u16(p.add(8));
            let quarters =
                [vget_low_u16(low), vget_high_u16(low), vget_low_u16(high), vget_high_u16(high)];
            each(quarters, |x| vreinterpretq_f32_u32(vshll_n_u16::<16>(x)))
        }
    }

    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> Self::F {
        // SAFETY: the caller's promise.
        Self::float(unsafe { Self::load_signed_scales(p) })
    }

    #[inline(always)]
    unsafe fn load_half_e8m0(p: *const u8) -> Self::F {
        // SAFETY: see the impl. Exponents below 2 give subnormal numbers.
        unsafe {
            each(widened(vld1q_u8(p)), |x| {
                let e = vmovl_u16(x);
                let normal = vshlq_n_u32::<23>(vsubq_u32(e, vdupq_n_u32(1)));
                let small = vshlq_u32(vdupq_n_u32(0x0020_0000), vreinterpretq_s32_u32(e));
                let below = vcltq_u32(e, vdupq_n_u32(2));
                vreinterpretq_f32_u32(vbslq_u32(below, small, normal))
            })
        }
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, x: Self::F) {
        // SAFETY: see the impl.
        unsafe {
            vst1q_f32(p, x[0]);
            vst1q_f32(p.add(4), x[1]);
            vst1q_f32(p.add(8), x[2]);
            vst1q_f32(p.add(12), x[3]);
        }
    }

    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, x: Self::F) {
        // SAFETY: see the impl.
        unsafe {
            let x = each(x, to_half);
            vst1q_u16(p, vcombine_u16(x[0], x[1]));
            vst1q_u16(p.add(8), vcombine_u16(x[2], x[3]));
        }
    }

    #[inline(always)]
    unsafe fn store_i8(p: *mut i8, x: Self::F) {
        // SAFETY: see the impl.
        unsafe {
            let x = each(x, |x| vqmovn_s32(vcvtnq_s32_f32(x)));
            let low = vcombine_s16(x[0], x[1]);
            let high = vcombine_s16(x[2], x[3]);
            vst1q_s8(p, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
        }
    }

    #[inline(always)]
    fn add(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: see the impl.
        both(a, b, |a, b| unsafe { vaddq_f32(a, b) })
    }

    #[inline(always)]
    fn sub(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: see the impl.
        both(a, b, |a, b| unsafe { vsubq_f32(a, b) })
    }

    #[inline(always)]
    fn mul(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: see the impl.
        both(a, b, |a, b| unsafe { vmulq_f32(a, b) })
    }

    #[inline(always)]
    fn div(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: see the impl.
        both(a, b, |a, b| unsafe { vdivq_f32(a, b) })
    }

    #[inline(always)]
    fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // SAFETY: see the impl.
        unsafe {
            [
                vfmaq_f32(c[0], a[0], b[0]),
                vfmaq_f32(c[1], a[1], b[1]),
                vfmaq_f32(c[2], a[2], b[2]),
                vfmaq_f32(c[3], a[3], b[3]),
            ]
        }
    }

    #[inline(always)]
    fn max(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: see the impl. The dedicated instruction would prefer NaN, so it is not used.
        both(a, b, |a, b| unsafe { vbslq_f32(vcgtq_f32(a, b), a, b) })
    }

    #[inline(always)]
    fn min(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: see the impl.
        both(a, b, |a, b| unsafe { vbslq_f32(vcltq_f32(a, b), a, b) })
    }

    #[inline(always)]
    fn power(x: Self::F) -> Self::F {
        // SAFETY: see the impl.
        each(x, |x| unsafe {
            let shifted = vshlq_n_u32::<23>(vreinterpretq_u32_f32(x));
            vreinterpretq_f32_u32(vaddq_u32(shifted, vdupq_n_u32(1.0f32.to_bits())))
        })
    }

    #[inline(always)]
    fn greatest(x: Self::F) -> f32 {
        // SAFETY: see the impl.
        unsafe { vmaxvq_f32(vmaxq_f32(vmaxq_f32(x[0], x[1]), vmaxq_f32(x[2], x[3]))) }
    }

    #[inline(always)]
    unsafe fn run_sums(p: *const i8) -> [i32; LANES] {
        // SAFETY: see the impl.
        std::array::from_fn(|run| unsafe { vaddlvq_s8(vld1q_s8(p.add(run * LANES))).into() })
    }

    #[inline(always)]
    fn splat_i(x: i32) -> Self::I {
        // SAFETY: see the impl.
        unsafe { [vdupq_n_s32(x); 4] }
    }

    #[inline(always)]
    fn float(x: Self::I) -> Self::F {
        // SAFETY: see the impl.
        each(x, |x| unsafe { vcvtq_f32_s32(x) })
    }

    #[inline(always)]
    unsafe fn load_b(p: *const u8) -> Self::B {
        // SAFETY: see the impl.
        unsafe { [vld1q_u8(p), vld1q_u8(p.add(16)), vld1q_u8(p.add(32)), vld1q_u8(p.add(48))] }
    }

    #[inline(always)]
    unsafe fn store_b(p: *mut u8, x: Self::B) {
        // SAFETY: see the impl.
        unsafe {
            vst1q_u8(p, x[0]);
            vst1q_u8(p.add(16), x[1]);
            vst1q_u8(p.add(32), x[2]);
            vst1q_u8(p.add(48), x[3]);
        }
    }

    #[inline(always)]
    fn nibbles(x: Self::B) -> (Self::B, Self::B) {
        // SAFETY: see the impl.
        let low = each(x, |x| unsafe { vandq_u8(x, vdupq_n_u8(15)) });
        // SAFETY: see the impl.
        (low, each(x, |x| unsafe { vshrq_n_u8::<4>(x) }))
    }

    #[inline(always)]
    fn bits<const LEFT: i32>(x: Self::B, mask: u8) -> Self::B {
        // SAFETY: see the impl.
        each(x, |x| unsafe { vandq_u8(shifted(x, LEFT as i8), vdupq_n_u8(mask)) })
    }

    #[inline(always)]
    fn with_bits<const LEFT: i32>(low: Self::B, plane: Self::B, mask: u8) -> Self::B {
        // SAFETY: see the impl.
        both(low, plane, |low, plane| unsafe {
            vbslq_u8(vdupq_n_u8(mask), shifted(plane, LEFT as i8), low)
        })
    }

    #[inline(always)]
    fn lookup(table: Self::B, index: Self::B) -> Self::B {
        // SAFETY: see the impl.
        both(table, index, |table, index| unsafe { vqtbl1q_u8(table, index) })
    }

    #[inline(always)]
    unsafe fn dot(acc: Self::I, w: Self::B, x: *const i8) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            let x = vreinterpretq_s8_s32(vdupq_n_s32(x.cast::<i32>().read_unaligned()));
            both(acc, w, |acc, w| D::dot(acc, w, x))
        }
    }

    #[inline(always)]
    fn biased(minus_128_sums: i32) -> Self::I {
        Self::splat_i(D::start(minus_128_sums))
    }

    #[inline(always)]
    unsafe fn dot_biased(acc: Self::I, w: Self::B, x: *const i8) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            let x = vreinterpretq_s8_s32(vdupq_n_s32(x.cast::<i32>().read_unaligned()));
            both(acc, w, |acc, w| D::biased(acc, w, x))
        }
    }

    #[inline(always)]
    unsafe fn load_scales(p: *const u8) -> Self::I {
        // SAFETY: see the impl.
        each(widened(unsafe { vld1q_u8(p) }), |x| unsafe { vreinterpretq_s32_u32(vmovl_u16(x)) })
    }

    #[inline(always)]
    unsafe fn load_signed_scales(p: *const i8) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            let x = vld1q_s8(p);
            longs(vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x))
        }
    }

    #[inline(always)]
    fn add_scaled(acc: Self::I, narrow: Self::I, scale: Self::I) -> Self::I {
        // SAFETY: see the impl.
        let add = |i: usize| unsafe { vmlaq_s32(acc[i], narrow[i], scale[i]) };
        [add(0), add(1), add(2), add(3)]
    }

    #[inline(always)]
    unsafe fn load_pairs(p: *const u8) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            let uint8x16x2_t(first, second) = vld2q_u8(p);
            let eighths = [
                vmovl_u8(vget_low_u8(first)),
                vmovl_high_u8(first),
                vmovl_u8(vget_low_u8(second)),
                vmovl_high_u8(second),
            ];
            each(eighths, |x| vreinterpretq_s32_u16(x))
        }
    }

    #[inline(always)]
    unsafe fn dot_pairs(acc: Self::I, w: Self::I, x: *const i16) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            let x = vreinterpretq_s16_s32(vdupq_n_s32(x.cast::<i32>().read_unaligned()));
            let [a, b, c, d] = pairs(w);
            let low = add_products::<1>(add_products::<0>([acc[0], acc[1]], a, x), c, x);
            let high = add_products::<1>(add_products::<0>([acc[2], acc[3]], b, x), d, x);
            [low[0], low[1], high[0], high[1]]
        }
    }

    #[inline(always)]
    fn pairs_less(w: Self::I, x: i16) -> Self::I {
        // SAFETY: see the impl.
        each(w, |w| unsafe {
            vreinterpretq_s32_s16(vsubq_s16(vreinterpretq_s16_s32(w), vdupq_n_s16(x)))
        })
    }

    #[inline(always)]
    fn halves(w: Self::I) -> (Self::I, Self::I) {
        let [a, b, c, d] = pairs(w);
        (longs(a, b), longs(c, d))
    }

    #[inline(always)]
    fn add_half(acc: Self::I, narrow: Self::I, half: Self::I) -> Self::I {
        Self::add_scaled(acc, narrow, half)
    }

    #[inline(always)]
    fn prefetch(p: *const u8) {
        // SAFETY: a prefetch never faults and changes nothing.
        unsafe {
            asm!("prfm pldl1keep, [{0}]", in(reg) p, options(nostack, preserves_flags, readonly));
        }
    }
}
