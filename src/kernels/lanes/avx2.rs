//! Lanes as pairs of AVX2 registers, with FMA and F16C. It does not depend on any kernel.

use std::arch::x86_64::*;

use super::{LANES, Lanes, Work};

/// Two registers per vector: lanes 0 to 7, lanes 8 to 15.
#[derive(Clone, Copy)]
pub(super) struct Avx2;

/// Does the work with AVX2.
///
/// # Safety
/// The machine must have the named features.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn run<W: Work>(work: W) -> W::Output {
    work.run::<Avx2>()
}

/// The same four signed bytes in every lane.
#[inline(always)]
unsafe fn quad(x: *const i8) -> __m256i {
    // SAFETY: the caller gives four readable bytes and a machine with AVX2.
    unsafe { _mm256_set1_epi32(x.cast::<i32>().read_unaligned()) }
}

/// acc + the sums of four products per lane, with `a` unsigned, if no two of the products add up to
/// more than 2^15.
#[inline(always)]
unsafe fn dot8(acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller gives a machine with AVX2.
    unsafe {
        let pairs = _mm256_maddubs_epi16(a, b);
        _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
    }
}

/// As [`Lanes::dot_biased`]. Bytes up to 255 would saturate the pairs, so the bias is subtracted
/// first and the sign of each w is moved to x: |w| is at most 128, x at least -127.
#[inline(always)]
unsafe fn dot_signed(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
    // SAFETY: the caller gives a machine with AVX2.
    unsafe {
        let w = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
        dot8(acc, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
    }
}

/// As [`Lanes::power`].
#[inline(always)]
fn power(x: __m256) -> __m256 {
    // SAFETY: used only under `run`.
    unsafe {
        let one = _mm256_set1_epi32(1.0f32.to_bits() as i32);
        let shifted = _mm256_slli_epi32::<23>(_mm256_castps_si256(x));
        _mm256_castsi256_ps(_mm256_add_epi32(shifted, one))
    }
}

/// Pairs of bytes shifted as in [`Lanes::bits`], so that bits also move between the bytes.
#[inline(always)]
fn shifted<const LEFT: i32>(x: __m256i) -> __m256i {
    // SAFETY: used only under `run`.
    unsafe {
        if LEFT < 0 {
            _mm256_srl_epi16(x, _mm_cvtsi32_si128(-LEFT))
        } else {
            _mm256_sll_epi16(x, _mm_cvtsi32_si128(LEFT))
        }
    }
}

/// As [`Lanes::load_half_e8m0`]. Exponents below 2 give subnormal numbers.
#[inline(always)]
unsafe fn half_e8m0(p: *const u8) -> __m256 {
    // SAFETY: the caller gives eight readable bytes and a machine with AVX2.
    unsafe {
        let e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()));
        let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(e, _mm256_set1_epi32(1)));
        let small = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), e);
        let below = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
        _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, below))
    }
}

// SAFETY of every block below: the type is used only under `run`, on a machine that has the
// instructions, and the caller vouches for pointers (see the trait).
impl Lanes for Avx2 {
    type F = [__m256; 2];
    type I = [__m256i; 2];
    type B = [__m256i; 2];

    const ROWS: usize = 4;
    const BLOCKS: usize = 1;

    #[inline(always)]
    fn splat(x: f32) -> Self::F {
        // SAFETY: see the impl.
        unsafe { [_mm256_set1_ps(x); 2] }
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::F {
        // SAFETY: see the impl.
        unsafe { [_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))] }
    }

    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self::F {
        // SAFETY: see the impl.
        unsafe {
            let low = _mm_loadu_si128(p.cast());
            let high = _mm_loadu_si128(p.add(8).cast());
            [_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)]
        }
    }

    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self::F {
        // SAFETY: see the impl.
        unsafe {
            let low = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            let high = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.add(8).cast()));
            let low = _mm256_slli_epi32::<16>(low);
            let high = _mm256_slli_epi32::<16>(high);
            [_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)]
        }
    }

    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> Self::F {
        // SAFETY: see the impl.
        unsafe {
            let low = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()));
            let high = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.add(8).cast()));
            [_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)]
        }
    }

    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> Self::F {
        // SAFETY: see the impl.
        unsafe {
            let low = _mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast()));
            let high = _mm256_cvtepi8_epi32(_mm_loadl_epi64(p.add(8).cast()));
            [_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)]
        }
    }

    #[inline(always)]
    unsafe fn load_half_e8m0(p: *const u8) -> Self::F {
        // SAFETY: see the impl.
        unsafe { [half_e8m0(p), half_e8m0(p.add(8))] }
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, x: Self::F) {
        // SAFETY: see the impl.
        unsafe {
            _mm256_storeu_ps(p, x[0]);
            _mm256_storeu_ps(p.add(8), x[1]);
        }
    }

    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, x: Self::F) {
        // SAFETY: see the impl.
        unsafe {
            _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x[0]));
            _mm_storeu_si128(p.add(8).cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x[1]));
        }
    }

    #[inline(always)]
    unsafe fn store_i8(p: *mut i8, x: Self::F) {
        // SAFETY: see the impl. Packing works within each half of a register, so the quarters are
        // reordered between the two steps.
        unsafe {
            let wide = _mm256_packs_epi32(_mm256_cvtps_epi32(x[0]), _mm256_cvtps_epi32(x[1]));
            let wide = _mm256_permute4x64_epi64::<0b11_01_10_00>(wide);
            let low = _mm256_castsi256_si128(wide);
            let high = _mm256_extracti128_si256::<1>(wide);
            _mm_storeu_si128(p.cast(), _mm_packs_epi16(low, high));
        }
    }

    #[inline(always)]
    fn add(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: see the impl.
        unsafe { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
    }

    #[inline(always)]
    fn sub(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: see the impl.
        unsafe { [_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])] }
    }

    #[inline(always)]
    fn mul(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: see the impl.
        unsafe { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
    }

    #[inline(always)]
    fn div(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: see the impl.
        unsafe { [_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])] }
    }

    #[inline(always)]
    fn max(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: see the impl. If a or b is NaN, the instruction returns b.
        unsafe { [_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])] }
    }

    #[inline(always)]
    fn min(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: see the impl.
        unsafe { [_mm256_min_ps(a[0], b[0]), _mm256_min_ps(a[1], b[1])] }
    }

    #[inline(always)]
    fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // SAFETY: see the impl.
        unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
    }

    #[inline(always)]
    fn power(x: Self::F) -> Self::F {
        [power(x[0]), power(x[1])]
    }

    #[inline(always)]
    fn greatest(x: Self::F) -> f32 {
        // SAFETY: see the impl.
        unsafe {
            let x = _mm256_max_ps(x[0], x[1]);
            let x = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)))
        }
    }

    #[inline(always)]
    unsafe fn run_sums(p: *const i8) -> [i32; LANES] {
        // SAFETY: see the impl.
        unsafe {
            // Two runs per register, one in each half, as four sums of four bytes.
            let fours = |i: usize| {
                let bytes = _mm256_loadu_si256(p.add(32 * i).cast());
                let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
                _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
            };
            // Eight runs: each half has those of four registers, which the permutation puts in
            // order.
            let eight = |i: usize| {
                let a = _mm256_hadd_epi32(fours(i), fours(i + 1));
                let b = _mm256_hadd_epi32(fours(i + 2), fours(i + 3));
                let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
                _mm256_permutevar8x32_epi32(_mm256_hadd_epi32(a, b), order)
            };
            let mut sums = [0; LANES];
            _mm256_storeu_si256(sums.as_mut_ptr().cast(), eight(0));
            _mm256_storeu_si256(sums.as_mut_ptr().add(8).cast(), eight(4));
            sums
        }
    }

    #[inline(always)]
    fn splat_i(x: i32) -> Self::I {
        // SAFETY: see the impl.
        unsafe { [_mm256_set1_epi32(x); 2] }
    }

    #[inline(always)]
    fn float(x: Self::I) -> Self::F {
        // SAFETY: see the impl.
        unsafe { [_mm256_cvtepi32_ps(x[0]), _mm256_cvtepi32_ps(x[1])] }
    }

    #[inline(always)]
    unsafe fn load_b(p: *const u8) -> Self::B {
        // SAFETY: see the impl.
        unsafe { [_mm256_loadu_si256(p.cast()), _mm256_loadu_si256(p.add(32).cast())] }
    }

    #[inline(always)]
    unsafe fn store_b(p: *mut u8, x: Self::B) {
        // SAFETY: see the impl.
        unsafe {
            _mm256_storeu_si256(p.cast(), x[0]);
            _mm256_storeu_si256(p.add(32).cast(), x[1]);
        }
    }

    #[inline(always)]
    fn bits<const LEFT: i32>(x: Self::B, mask: u8) -> Self::B {
        // SAFETY: see the impl.
        unsafe {
            let mask = _mm256_set1_epi8(mask as i8);
            [
                _mm256_and_si256(shifted::<LEFT>(x[0]), mask),
                _mm256_and_si256(shifted::<LEFT>(x[1]), mask),
            ]
        }
    }

    #[inline(always)]
    fn with_bits<const LEFT: i32>(low: Self::B, plane: Self::B, mask: u8) -> Self::B {
        let bits = Self::bits::<LEFT>(plane, mask);
        // SAFETY: see the impl.
        unsafe { [_mm256_or_si256(low[0], bits[0]), _mm256_or_si256(low[1], bits[1])] }
    }

    #[inline(always)]
    fn lookup(table: Self::B, index: Self::B) -> Self::B {
        // SAFETY: see the impl.
        unsafe {
            [_mm256_shuffle_epi8(table[0], index[0]), _mm256_shuffle_epi8(table[1], index[1])]
        }
    }

    #[inline(always)]
    unsafe fn dot(acc: Self::I, w: Self::B, x: *const i8) -> Self::I {
        // SAFETY: see the impl. With w at most 127, the sum of a pair stays below 2^15.
        unsafe {
            let x = quad(x);
            [dot8(acc[0], w[0], x), dot8(acc[1], w[1], x)]
        }
    }

    #[inline(always)]
    fn biased(_: i32) -> Self::I {
        Self::splat_i(0)
    }

    #[inline(always)]
    unsafe fn dot_biased(acc: Self::I, w: Self::B, x: *const i8) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            let x = quad(x);
            [dot_signed(acc[0], w[0], x), dot_signed(acc[1], w[1], x)]
        }
    }

    #[inline(always)]
    unsafe fn load_pairs(p: *const u8) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            let low = _mm_loadu_si128(p.cast());
            let high = _mm_loadu_si128(p.add(16).cast());
            [_mm256_cvtepu8_epi16(low), _mm256_cvtepu8_epi16(high)]
        }
    }

    #[inline(always)]
    unsafe fn dot_pairs(acc: Self::I, w: Self::I, x: *const i16) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            let x = _mm256_set1_epi32(x.cast::<i32>().read_unaligned());
            [
                _mm256_add_epi32(acc[0], _mm256_madd_epi16(w[0], x)),
                _mm256_add_epi32(acc[1], _mm256_madd_epi16(w[1], x)),
            ]
        }
    }

    #[inline(always)]
    fn pairs_less(w: Self::I, x: i16) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            let x = _mm256_set1_epi16(x);
            [_mm256_sub_epi16(w[0], x), _mm256_sub_epi16(w[1], x)]
        }
    }

    #[inline(always)]
    fn halves(w: Self::I) -> (Self::I, Self::I) {
        // SAFETY: see the impl. The upper half of a lane is zero, so `add_half` adds one product.
        unsafe {
            let low = _mm256_set1_epi32(0xffff);
            (
                [_mm256_and_si256(w[0], low), _mm256_and_si256(w[1], low)],
                [_mm256_srli_epi32::<16>(w[0]), _mm256_srli_epi32::<16>(w[1])],
            )
        }
    }

    #[inline(always)]
    fn add_half(acc: Self::I, x: Self::I, half: Self::I) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            [
                _mm256_add_epi32(acc[0], _mm256_madd_epi16(x[0], half[0])),
                _mm256_add_epi32(acc[1], _mm256_madd_epi16(x[1], half[1])),
            ]
        }
    }

    #[inline(always)]
    fn prefetch(p: *const u8) {
        // Assembly, because the compiler spills registers around the intrinsic. SAFETY: a prefetch
        // never faults and changes nothing.
        unsafe {
            std::arch::asm!(
                "prefetcht0 [{0}]",
                in(reg) p,
                options(nostack, preserves_flags, readonly)
            );
        }
    }
}
