//! Lanes as AVX-512 registers, with VNNI's dot products. It does not depend on any kernel.

use std::arch::x86_64::*;

use super::{LANES, Lanes, Work};

/// One register per vector.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Avx512;

/// Does the work with AVX-512.
///
/// # Safety
/// The machine must have the named features.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn run<W: Work>(work: W) -> W::Output {
    work.run::<Avx512>()
}

/// Pairs of bytes shifted as in [`Lanes::bits`], so that bits also move between the bytes.
#[inline(always)]
fn shifted<const LEFT: i32>(x: __m512i) -> __m512i {
    // SAFETY: used only under `run`.
    unsafe {
        if LEFT < 0 {
            _mm512_srl_epi16(x, _mm_cvtsi32_si128(-LEFT))
        } else {
            _mm512_sll_epi16(x, _mm_cvtsi32_si128(LEFT))
        }
    }
}

/// [`Lanes::summed`]: no instruction, but one that is not moved across others of the kind.
#[target_feature(enable = "avx512f")]
#[inline]
fn summed(mut sum: __m512i) -> __m512i {
    // SAFETY: it does nothing.
    unsafe {
        std::arch::asm!("/* {0} */", inout(zmm_reg) sum, options(nostack, preserves_flags, nomem));
    }
    sum
}

// SAFETY of every block below: the type is used only under `run`, on a machine that has the
// instructions, and the caller vouches for pointers (see the trait).
impl Lanes for Avx512 {
    type F = __m512;
    type I = __m512i;
    type B = __m512i;

    const ROWS: usize = 8;
    const BLOCKS: usize = 2;

    #[inline(always)]
    fn splat(x: f32) -> __m512 {
        // SAFETY: see the impl.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m512 {
        // SAFETY: see the impl.
        unsafe { _mm512_loadu_ps(p) }
    }

    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> __m512 {
        // SAFETY: see the impl.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }

    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> __m512 {
        // SAFETY: see the impl.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }

    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> __m512 {
        // SAFETY: see the impl.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast()))) }
    }

    #[inline(always)]
    unsafe fn load_half_e8m0(p: *const u8) -> __m512 {
        // SAFETY: see the impl. Exponents below 2 give subnormal numbers.
        unsafe {
            let e = _mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()));
            let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(e, _mm512_set1_epi32(1)));
            let small = _mm512_sllv_epi32(_mm512_set1_epi32(0x0020_0000), e);
            let below = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
            _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, below, small))
        }
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, x: __m512) {
        // SAFETY: see the impl.
        unsafe { _mm512_storeu_ps(p, x) }
    }

    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, x: __m512) {
        // SAFETY: see the impl.
        unsafe { _mm256_storeu_si256(p.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x)) }
    }

    #[inline(always)]
    unsafe fn store_i8(p: *mut i8, x: __m512) {
        // SAFETY: see the impl.
        unsafe { _mm_storeu_si128(p.cast(), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x))) }
    }

    #[inline(always)]
    fn add(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see the impl.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see the impl.
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see the impl.
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see the impl.
        unsafe { _mm512_div_ps(a, b) }
    }

    #[inline(always)]
    fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: see the impl.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn max(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see the impl. If a or b is NaN, the instruction returns b.
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    fn min(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see the impl.
        unsafe { _mm512_min_ps(a, b) }
    }

    #[inline(always)]
    fn power(x: __m512) -> __m512 {
        // SAFETY: see the impl.
        unsafe {
            let one = _mm512_set1_epi32(1.0f32.to_bits() as i32);
            let shifted = _mm512_slli_epi32::<23>(_mm512_castps_si512(x));
            _mm512_castsi512_ps(_mm512_add_epi32(shifted, one))
        }
    }

    #[inline(always)]
    fn greatest(x: __m512) -> f32 {
        // SAFETY: see the impl.
        unsafe { _mm512_reduce_max_ps(x) }
    }

    #[inline(always)]
    unsafe fn run_sums(p: *const i8) -> [i32; LANES] {
        // SAFETY: see the impl.
        unsafe {
            // Four runs per register, one in each quarter, as four sums of four bytes.
            let fours = |i: usize| {
                let bytes = _mm512_loadu_si512(p.add(64 * i).cast());
                _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), bytes)
            };
            // Each quarter gets the halves of the runs of two registers.
            let halves =
                |a, b| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let a = halves(fours(0), fours(1));
            let b = halves(fours(2), fours(3));
            let runs = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
            // A quarter holds one run of each register.
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let mut sums = [0; LANES];
            _mm512_storeu_si512(sums.as_mut_ptr().cast(), _mm512_permutexvar_epi32(order, runs));
            sums
        }
    }

    #[inline(always)]
    fn splat_i(x: i32) -> __m512i {
        // SAFETY: see the impl.
        unsafe { _mm512_set1_epi32(x) }
    }

    #[inline(always)]
    fn float(x: __m512i) -> __m512 {
        // SAFETY: see the impl.
        unsafe { _mm512_cvtepi32_ps(x) }
    }

    #[inline(always)]
    unsafe fn load_b(p: *const u8) -> __m512i {
        // SAFETY: see the impl.
        unsafe { _mm512_loadu_si512(p.cast()) }
    }

    #[inline(always)]
    unsafe fn store_b(p: *mut u8, x: __m512i) {
        // SAFETY: see the impl.
        unsafe { _mm512_storeu_si512(p.cast(), x) }
    }

    #[inline(always)]
    fn bits<const LEFT: i32>(x: __m512i, mask: u8) -> __m512i {
        // SAFETY: see the impl.
        unsafe { _mm512_and_si512(shifted::<LEFT>(x), _mm512_set1_epi8(mask as i8)) }
    }

    #[inline(always)]
    fn with_bits<const LEFT: i32>(low: __m512i, plane: __m512i, mask: u8) -> __m512i {
        // SAFETY: see the impl. 0xea is (bits & mask) | low.
        unsafe {
            let mask = _mm512_set1_epi8(mask as i8);
            _mm512_ternarylogic_epi32::<0xea>(shifted::<LEFT>(plane), mask, low)
        }
    }

    #[inline(always)]
    fn lookup(table: __m512i, index: __m512i) -> __m512i {
        // SAFETY: see the impl.
        unsafe { _mm512_shuffle_epi8(table, index) }
    }

    #[inline(always)]
    unsafe fn dot(acc: __m512i, w: __m512i, x: *const i8) -> __m512i {
        // SAFETY: see the impl.
        unsafe { _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(x.cast::<i32>().read_unaligned())) }
    }

    #[inline(always)]
    unsafe fn load_scales(p: *const u8) -> __m512i {
        // SAFETY: see the impl.
        unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast())) }
    }

    #[inline(always)]
    unsafe fn load_signed_scales(p: *const i8) -> __m512i {
        // SAFETY: see the impl.
        unsafe { _mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast())) }
    }

    #[inline(always)]
    fn add_scaled(acc: __m512i, narrow: __m512i, scale: __m512i) -> __m512i {
        // SAFETY: see the impl.
        unsafe { _mm512_add_epi32(acc, _mm512_mullo_epi32(narrow, scale)) }
    }

    #[inline(always)]
    unsafe fn load_pairs(p: *const u8) -> __m512i {
        // SAFETY: see the impl.
        unsafe { _mm512_cvtepu8_epi16(_mm256_loadu_si256(p.cast())) }
    }

    #[inline(always)]
    unsafe fn dot_pairs(acc: __m512i, w: __m512i, x: *const i16) -> __m512i {
        // SAFETY: see the impl.
        unsafe { _mm512_dpwssd_epi32(acc, w, _mm512_set1_epi32(x.cast::<i32>().read_unaligned())) }
    }

    #[inline(always)]
    fn pairs_less(w: __m512i, x: i16) -> __m512i {
        // SAFETY: see the impl.
        unsafe { _mm512_sub_epi16(w, _mm512_set1_epi16(x)) }
    }

    #[inline(always)]
    fn halves(w: __m512i) -> (__m512i, __m512i) {
        // SAFETY: see the impl. The upper half of a lane is zero, so `add_half` adds one product.
        unsafe { (_mm512_and_si512(w, _mm512_set1_epi32(0xffff)), _mm512_srli_epi32::<16>(w)) }
    }

    #[inline(always)]
    fn add_half(acc: __m512i, narrow: __m512i, half: __m512i) -> __m512i {
        // SAFETY: see the impl.
        unsafe { _mm512_dpwssd_epi32(acc, narrow, half) }
    }

    #[inline(always)]
    fn prefetch(p: *const u8) {
        // Assembly, because the compiler spills registers around the intrinsic and the loop takes
        // twice as long. The prefetch goes to the second-level cache, which can wait for more lines
        // at a time. SAFETY: a prefetch never faults and changes nothing.
        unsafe {
            std::arch::asm!(
                "prefetcht1 [{0}]",
                in(reg) p,
                options(nostack, preserves_flags, readonly)
            );
        }
    }

    #[inline(always)]
    unsafe fn summed(sum: __m512i) -> __m512i {
        // SAFETY: see the impl.
        unsafe { summed(sum) }
    }
}
