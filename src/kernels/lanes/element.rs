//! Number formats as the lanes read them. It does not depend on the instruction set.

use super::Lanes;
use crate::kernels::math::UNIT;

/// The greatest 8-bit number.
const MOST: f32 = 127.0;

/// A number format in memory.
pub(in crate::kernels) trait Element: 'static {
    /// Bytes per number.
    const SIZE: usize;
    /// Whether the numbers are multiples of a scale that some of them share and that is stored
    /// after them.
    const HAS_SCALE: bool = false;

    /// 16 numbers at `p`, as f32.
    ///
    /// # Safety
    /// They must be readable.
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F;
}

/// A number format that is also written.
pub(in crate::kernels) trait Stored: Element {
    /// The scale that these numbers share; 1 in a format without scales.
    #[inline(always)]
    fn scale(_numbers: &[f32]) -> f32 {
        1.0
    }

    /// Writes 16 numbers, divided by their scale before, rounded to nearest.
    ///
    /// # Safety
    /// There must be room for them.
    unsafe fn store<L: Lanes>(p: *mut u8, x: L::F);
}

pub(in crate::kernels) struct F32;
pub(in crate::kernels) struct F16;
pub(in crate::kernels) struct BF16;
/// Multiples of a scale, −127 to 127.
pub(in crate::kernels) struct I8;

impl Element for F32 {
    const SIZE: usize = 4;

    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
        // SAFETY: the caller's promise.
        unsafe { L::load(p.cast()) }
    }
}

impl Stored for F32 {
    #[inline(always)]
    unsafe fn store<L: Lanes>(p: *mut u8, x: L::F) {
        // SAFETY: the caller's promise.
        unsafe { L::store(p.cast(), x) }
    }
}

impl Element for F16 {
    const SIZE: usize = 2;

    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
        // SAFETY: the caller's promise.
        unsafe { L::load_f16(p.cast()) }
    }
}

impl Stored for F16 {
    #[inline(always)]
    unsafe fn store<L: Lanes>(p: *mut u8, x: L::F) {
        // SAFETY: the caller's promise.
        unsafe { L::store_f16(p.cast(), x) }
    }
}

impl Element for BF16 {
    const SIZE: usize = 2;

    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
        // SAFETY: the caller's promise.
        unsafe { L::load_bf16(p.cast()) }
    }
}

impl Element for I8 {
    const SIZE: usize = 1;
    const HAS_SCALE: bool = true;

    #[inline(always)]
    unsafe fn load<L: Lanes>(p: *const u8) -> L::F {
        // SAFETY: the caller's promise.
        unsafe { L::load_i8(p.cast()) }
    }
}

impl Stored for I8 {
    #[inline(always)]
    fn scale(numbers: &[f32]) -> f32 {
        numbers.iter().fold(0f32, |most, x| most.max(x.abs())) / MOST
    }

    #[inline(always)]
    unsafe fn store<L: Lanes>(p: *mut u8, x: L::F) {
        let unit = L::splat(UNIT);
        let rounded = L::sub(L::add(x, unit), unit);
        // What is not a number becomes the same number on every machine.
        let bounded = L::min(L::max(rounded, L::splat(-MOST)), L::splat(MOST));
        // SAFETY: the caller's promise.
        unsafe { L::store_i8(p.cast(), bounded) }
    }
}
