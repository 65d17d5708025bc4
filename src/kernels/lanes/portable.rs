//! Lanes in plain Rust, which every other implementation must equal bit for bit. It does not depend
//! on the machine.

use super::{LANES, Lanes};

/// Arrays of sixteen, which compilers turn into vectors where they can.
#[derive(Clone, Copy)]
pub(super) struct Portable;

#[inline(always)]
fn each<T: Copy + Default>(f: impl Fn(usize) -> T) -> [T; LANES] {
    let mut out = [T::default(); LANES];
    for (i, o) in out.iter_mut().enumerate() {
        *o = f(i);
    }
    out
}

/// `a · b + c`, rounded once.
#[inline(always)]
fn fma(a: f32, b: f32, c: f32) -> f32 {
    // MinGW's `fmaf`, which `mul_add` calls, rounds twice.
    if cfg!(all(windows, target_env = "gnu")) { libm::fmaf(a, b, c) } else { a.mul_add(b, c) }
}

impl Lanes for Portable {
    type F = [f32; LANES];
    type I = [i32; LANES];
    type B = [[u8; 4]; LANES];

    const ROWS: usize = 1;
    const BLOCKS: usize = 1;

    #[inline(always)]
    fn splat(x: f32) -> Self::F {
        [x; LANES]
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::F {
        // SAFETY: the caller gives 16 readable floats.
        unsafe { p.cast::<Self::F>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self::F {
        // SAFETY: the caller gives 16 readable numbers.
        let bits = unsafe { p.cast::<[u16; LANES]>().read_unaligned() };
        each(|i| half::f16::from_bits(bits[i]).to_f32())
    }

    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self::F {
        // SAFETY: the caller gives 16 readable numbers.
        let bits = unsafe { p.cast::<[u16; LANES]>().read_unaligned() };
        each(|i| f32::from_bits(u32::from(bits[i]) << 16))
    }

    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> Self::F {
        // SAFETY: the caller gives 16 readable bytes.
        let bytes = unsafe { p.cast::<[i8; LANES]>().read_unaligned() };
        each(|i| f32::from(bytes[i]))
    }

    #[inline(always)]
    unsafe fn load_half_e8m0(p: *const u8) -> Self::F {
        // SAFETY: the caller gives 16 readable bytes.
        let bytes = unsafe { p.cast::<[u8; LANES]>().read_unaligned() };
        each(|i| match u32::from(bytes[i]) {
            // Subnormal numbers.
            e @ 0..2 => f32::from_bits(0x0020_0000 << e),
            e => f32::from_bits((e - 1) << 23),
        })
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, x: Self::F) {
        // SAFETY: the caller gives room for 16 floats.
        unsafe { p.cast::<Self::F>().write_unaligned(x) }
    }

    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, x: Self::F) {
        let bits = each(|i| half::f16::from_f32(x[i]).to_bits());
        // SAFETY: the caller gives room for 16 numbers.
        unsafe { p.cast::<[u16; LANES]>().write_unaligned(bits) }
    }

    #[inline(always)]
    unsafe fn store_i8(p: *mut i8, x: Self::F) {
        // SAFETY: the caller gives room for 16 bytes.
        unsafe { p.cast::<[i8; LANES]>().write_unaligned(each(|i| x[i] as i8)) }
    }

    #[inline(always)]
    fn add(a: Self::F, b: Self::F) -> Self::F {
        each(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn sub(a: Self::F, b: Self::F) -> Self::F {
        each(|i| a[i] - b[i])
    }

    #[inline(always)]
    fn mul(a: Self::F, b: Self::F) -> Self::F {
        each(|i| a[i] * b[i])
    }

    #[inline(always)]
    fn div(a: Self::F, b: Self::F) -> Self::F {
        each(|i| a[i] / b[i])
    }

    #[inline(always)]
    fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        each(|i| fma(a[i], b[i], c[i]))
    }

    #[inline(always)]
    fn max(a: Self::F, b: Self::F) -> Self::F {
        each(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn min(a: Self::F, b: Self::F) -> Self::F {
        each(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn power(x: Self::F) -> Self::F {
        each(|i| f32::from_bits((x[i].to_bits() << 23).wrapping_add(1.0f32.to_bits())))
    }

    #[inline(always)]
    fn greatest(x: Self::F) -> f32 {
        x.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a })
    }

    #[inline(always)]
    unsafe fn run_sums(p: *const i8) -> [i32; LANES] {
        // SAFETY: see the trait.
        let of = |run: usize| unsafe { p.add(run * LANES).cast::<[i8; LANES]>().read_unaligned() };
        std::array::from_fn(|run| of(run).into_iter().map(i32::from).sum())
    }

    #[inline(always)]
    fn splat_i(x: i32) -> Self::I {
        [x; LANES]
    }

    #[inline(always)]
    fn float(x: Self::I) -> Self::F {
        each(|i| x[i] as f32)
    }

    #[inline(always)]
    unsafe fn load_b(p: *const u8) -> Self::B {
        // SAFETY: the caller gives 64 readable bytes.
        unsafe { p.cast::<Self::B>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store_b(p: *mut u8, x: Self::B) {
        // SAFETY: the caller gives room for 64 bytes.
        unsafe { p.cast::<Self::B>().write_unaligned(x) }
    }

    #[inline(always)]
    fn bits<const LEFT: i32>(x: Self::B, mask: u8) -> Self::B {
        Self::with_bits::<LEFT>([[0; 4]; LANES], x, mask)
    }

    #[inline(always)]
    fn with_bits<const LEFT: i32>(low: Self::B, plane: Self::B, mask: u8) -> Self::B {
        let shifted = |byte: u8| if LEFT < 0 { byte >> -LEFT } else { byte << LEFT };
        each(|i| std::array::from_fn(|c| low[i][c] | shifted(plane[i][c]) & mask))
    }

    #[inline(always)]
    fn lookup(table: Self::B, index: Self::B) -> Self::B {
        each(|i| index[i].map(|b| table[usize::from(b >> 2 & 3)][usize::from(b & 3)]))
    }

    #[inline(always)]
    unsafe fn dot(acc: Self::I, w: Self::B, x: *const i8) -> Self::I {
        // SAFETY: the caller gives four readable bytes.
        let x = unsafe { x.cast::<[i8; 4]>().read_unaligned() }.map(i32::from);
        each(|i| {
            let w = w[i].map(i32::from);
            acc[i] + w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3]
        })
    }

    #[inline(always)]
    unsafe fn load_scales(p: *const u8) -> Self::I {
        // SAFETY: the caller gives 16 readable bytes.
        unsafe { p.cast::<[u8; LANES]>().read_unaligned() }.map(i32::from)
    }

    #[inline(always)]
    unsafe fn load_signed_scales(p: *const i8) -> Self::I {
        // SAFETY: the caller gives 16 readable bytes.
        unsafe { p.cast::<[i8; LANES]>().read_unaligned() }.map(i32::from)
    }

    #[inline(always)]
    fn add_scaled(acc: Self::I, narrow: Self::I, scale: Self::I) -> Self::I {
        each(|i| acc[i] + narrow[i] * scale[i])
    }

    #[inline(always)]
    unsafe fn load_pairs(p: *const u8) -> Self::I {
        // SAFETY: the caller gives 32 readable bytes.
        let bytes = unsafe { p.cast::<[[u8; 2]; LANES]>().read_unaligned() };
        each(|i| i32::from(bytes[i][0]) | i32::from(bytes[i][1]) << 16)
    }

    #[inline(always)]
    unsafe fn dot_pairs(acc: Self::I, w: Self::I, x: *const i16) -> Self::I {
        // SAFETY: the caller gives two readable i16.
        let x = unsafe { x.cast::<[i16; 2]>().read_unaligned() }.map(i32::from);
        each(|i| acc[i] + i32::from(w[i] as i16) * x[0] + (w[i] >> 16) * x[1])
    }

    #[inline(always)]
    fn pairs_less(w: Self::I, x: i16) -> Self::I {
        each(|i| {
            let low = i32::from((w[i] as i16).wrapping_sub(x));
            let high = i32::from(((w[i] >> 16) as i16).wrapping_sub(x));
            low & 0xffff | high << 16
        })
    }

    #[inline(always)]
    fn halves(w: Self::I) -> (Self::I, Self::I) {
        (w.map(|w| i32::from(w as i16)), w.map(|w| w >> 16))
    }

    #[inline(always)]
    fn add_half(acc: Self::I, narrow: Self::I, half: Self::I) -> Self::I {
        Self::add_scaled(acc, narrow, half)
    }

    #[inline(always)]
    fn prefetch(_: *const u8) {}
}
