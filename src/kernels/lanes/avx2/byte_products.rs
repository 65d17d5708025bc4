//! How the AVX2 lanes multiply four bytes at once: in pairs of 16 bits, which all processors can
//! do, or by VNNI's dot products. It does not depend on any kernel.

use std::arch::asm;
use std::arch::x86_64::*;

/// Products of four bytes per lane, in one register of a vector; see the functions of
/// [`Lanes`](super::super::Lanes).
///
/// # Safety
/// Everything must run on a machine with the instructions.
pub(super) trait ByteProducts: Copy + 'static {
    const ROWS: usize;
    const NARROW: bool = false;

    unsafe fn dot(acc: __m256i, w: __m256i, x: __m256i) -> __m256i;
    fn biased(minus_128_sums: i32) -> i32;
    unsafe fn dot_biased(acc: __m256i, w: __m256i, x: __m256i) -> __m256i;
    unsafe fn dot_narrow(acc: __m256i, w: __m256i, x: __m256i) -> __m256i;
    unsafe fn narrow(w: __m256i, x: __m256i) -> __m256i;
    unsafe fn widened(narrow: __m256i) -> __m256i;
    /// Eight integers as scales of narrow sums.
    unsafe fn scales(x: __m256i) -> __m256i;
    unsafe fn add_scaled(acc: __m256i, narrow: __m256i, scale: __m256i) -> __m256i;
}

/// Products of 8 bits, added in pairs of 16 bits: every processor with AVX2. A narrow sum is such a
/// pair, and its scale is a pair of twice the same number.
#[derive(Clone, Copy)]
pub(super) struct Maddubs;

/// `vpdpbusd`, as AVX-VNNI has it or, if not `VEX`, as AVX-512 does.
#[derive(Clone, Copy)]
pub(super) struct Vnni<const VEX: bool>;

/// acc + the sums of pairs of products, in 16 bits. Assembly, because the compiler would add the
/// pairs of several steps first, for which there are not enough registers.
#[inline]
#[target_feature(enable = "avx2")]
fn add_maddubs(mut acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
    // SAFETY: the instructions only work on these registers.
    unsafe {
        asm!(
            "vpmaddubsw {pairs}, {w}, {x}",
            "vpaddw {acc}, {acc}, {pairs}",
            acc = inout(ymm_reg) acc,
            w = in(ymm_reg) w,
            x = in(ymm_reg) x,
            pairs = out(ymm_reg) _,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    acc
}

// SAFETY of every block in the two impls: the caller gives a machine with the instructions.
impl ByteProducts for Maddubs {
    const ROWS: usize = 4;
    const NARROW: bool = true;

    #[inline(always)]
    unsafe fn dot(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        // SAFETY: see above. No two of the products add up to more than 2^15.
        unsafe { _mm256_add_epi32(acc, Self::widened(_mm256_maddubs_epi16(w, x))) }
    }

    #[inline(always)]
    fn biased(_: i32) -> i32 {
        0
    }

    /// Bytes up to 255 would saturate the pairs, so the bias is subtracted first and the sign of
    /// each w is moved to x: |w| is at most 128, x at least −127.
    #[inline(always)]
    unsafe fn dot_biased(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe {
            let w = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
            Self::dot(acc, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
        }
    }

    #[inline(always)]
    unsafe fn dot_narrow(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { add_maddubs(acc, w, x) }
    }

    #[inline(always)]
    unsafe fn narrow(w: __m256i, x: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_maddubs_epi16(w, x) }
    }

    #[inline(always)]
    unsafe fn widened(narrow: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_madd_epi16(narrow, _mm256_set1_epi16(1)) }
    }

    #[inline(always)]
    unsafe fn scales(x: __m256i) -> __m256i {
        // SAFETY: see above. Blending takes the lower half of a lane from x.
        unsafe { _mm256_blend_epi16::<0b1010_1010>(x, _mm256_slli_epi32::<16>(x)) }
    }

    #[inline(always)]
    unsafe fn add_scaled(acc: __m256i, narrow: __m256i, scale: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_add_epi32(acc, _mm256_madd_epi16(narrow, scale)) }
    }
}

impl<const VEX: bool> ByteProducts for Vnni<VEX> {
    // A product takes four cycles, and two begin in each, so eight sums are barely enough.
    const ROWS: usize = 6;

    #[inline(always)]
    unsafe fn dot(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe {
            if const { VEX } {
                _mm256_dpbusd_avx_epi32(acc, w, x)
            } else {
                _mm256_dpbusd_epi32(acc, w, x)
            }
        }
    }

    #[inline(always)]
    fn biased(minus_128_sums: i32) -> i32 {
        minus_128_sums
    }

    #[inline(always)]
    unsafe fn dot_biased(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        // SAFETY: see above. The instruction needs no bound on w.
        unsafe { Self::dot(acc, w, x) }
    }

    #[inline(always)]
    unsafe fn dot_narrow(acc: __m256i, w: __m256i, x: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { Self::dot(acc, w, x) }
    }

    #[inline(always)]
    unsafe fn narrow(w: __m256i, x: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { Self::dot(_mm256_setzero_si256(), w, x) }
    }

    #[inline(always)]
    unsafe fn widened(narrow: __m256i) -> __m256i {
        narrow
    }

    #[inline(always)]
    unsafe fn scales(x: __m256i) -> __m256i {
        x
    }

    #[inline(always)]
    unsafe fn add_scaled(acc: __m256i, narrow: __m256i, scale: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_add_epi32(acc, _mm256_mullo_epi32(narrow, scale)) }
    }
}
