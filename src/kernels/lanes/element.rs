//! Float formats as the lanes read them.

use super::Lanes;

/// A float format in memory.
pub(in crate::kernels) trait Element: 'static {
    /// Bytes of a number.
    const SIZE: usize;

    /// 16 numbers at `p`, as f32.
    ///
    /// # Safety
    /// They must be readable.
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F;

    /// Writes one number, rounded to nearest.
    ///
    /// # Safety
    /// There must be room for it.
    unsafe fn store(p: *mut u8, x: f32);
}

pub(in crate::kernels) struct F32;
pub(in crate::kernels) struct F16;
pub(in crate::kernels) struct BF16;

impl Element for F32 {
    const SIZE: usize = 4;

    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
        // SAFETY: the caller's promise.
        unsafe { L::load(p.cast()) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut u8, x: f32) {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<f32>().write_unaligned(x) }
    }
}

impl Element for F16 {
    const SIZE: usize = 2;

    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
        // SAFETY: the caller's promise.
        unsafe { L::load_f16(p.cast()) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut u8, x: f32) {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<u16>().write_unaligned(half::f16::from_f32(x).to_bits()) }
    }
}

impl Element for BF16 {
    const SIZE: usize = 2;

    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
        // SAFETY: the caller's promise.
        unsafe { L::load_bf16(p.cast()) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut u8, x: f32) {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<u16>().write_unaligned(half::bf16::from_f32(x).to_bits()) }
    }
}
