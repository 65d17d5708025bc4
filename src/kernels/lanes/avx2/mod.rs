//! Lanes as pairs of AVX2 registers, with FMA and F16C. Processors differ in how they multiply four
//! bytes at once ([`ByteProducts`]): all can use 16-bit pairs, newer ones have VNNI's dot products.
//! It does not depend on any kernel.

mod byte_products;

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::{LANES, Lanes, Work};
use byte_products::{ByteProducts, Maddubs, Vnni};

/// Two registers per vector: lanes 0 to 7, lanes 8 to 15.
#[derive(Clone, Copy)]
pub(super) struct Avx2<P>(PhantomData<P>);

/// Does the work with AVX2 alone.
///
/// # Safety
/// The machine must have the named features.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn run<W: Work>(work: W) -> W::Output {
    work.run::<Avx2<Maddubs>>()
}

/// Does the work with AVX2 and the VNNI that the machine has.
///
/// # Safety
/// The machine must have the features of one of the two functions below.
pub(super) unsafe fn run_vnni<W: Work>(work: W) -> W::Output {
    // SAFETY: the caller's promise.
    unsafe { if is_x86_feature_detected!("avxvnni") { run_vex(work) } else { run_evex(work) } }
}

#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
unsafe fn run_vex<W: Work>(work: W) -> W::Output {
    work.run::<Avx2<Vnni<true>>>()
}

/// For processors with AVX-512, on which this is compared with the other instruction sets.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512vl,avx512vnni")]
unsafe fn run_evex<W: Work>(work: W) -> W::Output {
    work.run::<Avx2<Vnni<false>>>()
}

/// The same four signed bytes in every lane.
#[inline(always)]
unsafe fn quad(x: *const i8) -> __m256i {
    // SAFETY: the caller gives four readable bytes and a machine with AVX2.
    unsafe { _mm256_set1_epi32(x.cast::<i32>().read_unaligned()) }
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
impl<P: ByteProducts> Lanes for Avx2<P> {
    type F = [__m256; 2];
    type I = [__m256i; 2];
    type B = [__m256i; 2];

    const ROWS: usize = P::ROWS;
    const BLOCKS: usize = 1;
    const NARROW: bool = P::NARROW;

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
            let mut sums = [0; LANES];
            for (i, eight) in sums.chunks_exact_mut(8).enumerate() {
                // Two runs per register, one in each half, as four sums of four bytes. Not by a
                // closure, which would be compiled without the caller's instruction set.
                let mut fours = [_mm256_setzero_si256(); 4];
                for (j, fours) in fours.iter_mut().enumerate() {
                    let bytes = _mm256_loadu_si256(p.add(128 * i + 32 * j).cast());
                    let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
                    *fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                }
                // Each half has the runs of four registers, which the permutation puts in order.
                let a = _mm256_hadd_epi32(fours[0], fours[1]);
                let b = _mm256_hadd_epi32(fours[2], fours[3]);
                let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
                let runs = _mm256_permutevar8x32_epi32(_mm256_hadd_epi32(a, b), order);
                _mm256_storeu_si256(eight.as_mut_ptr().cast(), runs);
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn narrow_starts(p: *const i8, zero: i32) -> [i32; LANES] {
        // SAFETY: see the impl.
        unsafe {
            if !P::NARROW {
                return Self::run_sums(p).map(|sum| -zero * sum);
            }
            // The sums of pairs of columns of two runs, one in each half; two rotations add up
            // those that are summed in the same half of a lane.
            let minus_zero = _mm256_set1_epi16(-zero as i16);
            let mut starts = [0; LANES];
            for (i, two) in starts.chunks_exact_mut(2).enumerate() {
                let bytes = _mm256_loadu_si256(p.add(32 * i).cast());
                let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
                let twice = _mm256_add_epi16(pairs, _mm256_shuffle_epi32::<0b01_00_11_10>(pairs));
                let sums = _mm256_add_epi16(twice, _mm256_shuffle_epi32::<0b10_11_00_01>(twice));
                let sums = _mm256_mullo_epi16(sums, minus_zero);
                two[0] = _mm256_extract_epi32::<0>(sums);
                two[1] = _mm256_extract_epi32::<4>(sums);
            }
            starts
        }
    }

    #[inline(always)]
    fn joined_starts(a: i32, b: i32) -> i32 {
        if P::NARROW {
            let low = a.wrapping_add(b) & 0xffff;
            return low | (a >> 16).wrapping_add(b >> 16) << 16;
        }
        a + b
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
        // SAFETY: see the impl.
        unsafe {
            let x = quad(x);
            [P::dot(acc[0], w[0], x), P::dot(acc[1], w[1], x)]
        }
    }

    #[inline(always)]
    fn biased(minus_128_sums: i32) -> Self::I {
        Self::splat_i(P::biased(minus_128_sums))
    }

    #[inline(always)]
    unsafe fn dot_biased(acc: Self::I, w: Self::B, x: *const i8) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            let x = quad(x);
            [P::dot_biased(acc[0], w[0], x), P::dot_biased(acc[1], w[1], x)]
        }
    }

    #[inline(always)]
    unsafe fn dot_narrow(acc: Self::I, w: Self::B, x: *const i8) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            let x = quad(x);
            [P::dot_narrow(acc[0], w[0], x), P::dot_narrow(acc[1], w[1], x)]
        }
    }

    #[inline(always)]
    unsafe fn narrow(w: Self::B, x: *const i8) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            let x = quad(x);
            [P::narrow(w[0], x), P::narrow(w[1], x)]
        }
    }

    #[inline(always)]
    fn widened(narrow: Self::I) -> Self::I {
        // SAFETY: see the impl.
        unsafe { [P::widened(narrow[0]), P::widened(narrow[1])] }
    }

    #[inline(always)]
    unsafe fn load_scales(p: *const u8) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            let low = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()));
            let high = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.add(8).cast()));
            [P::scales(low), P::scales(high)]
        }
    }

    #[inline(always)]
    unsafe fn load_signed_scales(p: *const i8) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            let low = _mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast()));
            let high = _mm256_cvtepi8_epi32(_mm_loadl_epi64(p.add(8).cast()));
            [P::scales(low), P::scales(high)]
        }
    }

    #[inline(always)]
    fn add_scaled(acc: Self::I, narrow: Self::I, scale: Self::I) -> Self::I {
        // SAFETY: see the impl.
        unsafe {
            [P::add_scaled(acc[0], narrow[0], scale[0]), P::add_scaled(acc[1], narrow[1], scale[1])]
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
        // SAFETY: see the impl.
        unsafe {
            let low = |w| P::scales(_mm256_srai_epi32::<16>(_mm256_slli_epi32::<16>(w)));
            let high = |w| P::scales(_mm256_srai_epi32::<16>(w));
            ([low(w[0]), low(w[1])], [high(w[0]), high(w[1])])
        }
    }

    #[inline(always)]
    fn add_half(acc: Self::I, narrow: Self::I, half: Self::I) -> Self::I {
        Self::add_scaled(acc, narrow, half)
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
