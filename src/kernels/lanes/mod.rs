//! Vectors of sixteen lanes: the few operations with which every kernel is written, once, and their
//! implementations. A lane is a weight row, a cache position or a dimension. Lanes are never added
//! up in an order that an implementation could choose. It does not depend on any kernel.
//!
//! Every operation is exact (integers) or rounded once as IEEE prescribes (floats), so the
//! implementations agree in every bit. The portable one defines the result.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(super) mod element;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

use super::isa::Isa;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) use avx512::Avx512;
pub(super) use element::Element;

/// How many lanes a vector has, and how many rows a weight tile has.
pub(super) const LANES: usize = 16;

/// One instruction set. Pointers need no alignment beyond that of their type.
///
/// # Safety
/// The pointer operations read or write the stated number of elements at `p`, which must be valid
/// for that. Everything must run on a machine that has the instructions; only [`run`] makes that
/// choice.
pub(super) trait Lanes: Copy + 'static {
    /// 16 × f32.
    type F: Copy;
    /// 16 × i32.
    type I: Copy;
    /// 16 × 4 bytes: four columns of sixteen weight rows.
    type B: Copy;

    /// How many activation rows a kernel holds in registers at once.
    const ROWS: usize;
    /// For how many blocks of 32 columns, 1 or 2, it holds the integer sums of all these rows
    /// there. Of a recurrent layer's state it holds the sums of as many blocks of 16 columns, and
    /// attention reads several tiles in parallel if there is room for 2.
    const BLOCKS: usize;
    /// Whether a narrow sum is a pair of 16-bit numbers per lane rather than one of 32 bits; see
    /// [`Lanes::dot_narrow`].
    const NARROW: bool = false;

    /// The same float in every lane.
    fn splat(x: f32) -> Self::F;
    /// 16 floats.
    unsafe fn load(p: *const f32) -> Self::F;
    /// 16 half floats, widened.
    unsafe fn load_f16(p: *const u16) -> Self::F;
    /// 16 bfloat16, widened.
    unsafe fn load_bf16(p: *const u16) -> Self::F;
    /// 16 signed bytes as floats.
    unsafe fn load_i8(p: *const i8) -> Self::F;
    /// 16 bytes read as exponents: half of 2^(byte − 127).
    unsafe fn load_half_e8m0(p: *const u8) -> Self::F;
    /// 16 floats.
    unsafe fn store(p: *mut f32, x: Self::F);
    /// 16 floats, rounded to the nearest half floats.
    unsafe fn store_f16(p: *mut u16, x: Self::F);
    /// 16 integers within −128..=127, as bytes.
    unsafe fn store_i8(p: *mut i8, x: Self::F);
    /// a + b.
    fn add(a: Self::F, b: Self::F) -> Self::F;
    /// a − b.
    fn sub(a: Self::F, b: Self::F) -> Self::F;
    /// a · b.
    fn mul(a: Self::F, b: Self::F) -> Self::F;
    /// a / b.
    fn div(a: Self::F, b: Self::F) -> Self::F;
    /// a · b + c, rounded once.
    fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// a where a > b, else b (so b if either is NaN).
    fn max(a: Self::F, b: Self::F) -> Self::F;
    /// a where a < b, else b.
    fn min(a: Self::F, b: Self::F) -> Self::F;
    /// 2ⁿ for a float x = 1.5·2²³ + n, n in −126..=127: the exponent is made from its low bits.
    fn power(x: Self::F) -> Self::F;

    /// The greatest lane; no lane is NaN.
    fn greatest(x: Self::F) -> f32;

    /// The sums of each 16 of the 256 signed bytes at `p`.
    unsafe fn run_sums(p: *const i8) -> [i32; LANES];
    /// −`zero` · these sums, as starts of narrow sums; `zero` is at most 32.
    #[inline(always)]
    unsafe fn narrow_starts(p: *const i8, zero: i32) -> [i32; LANES] {
        // SAFETY: the caller's promise.
        unsafe { Self::run_sums(p) }.map(|sum| -zero * sum)
    }
    /// The start for two runs, given the start for each.
    #[inline(always)]
    fn joined_starts(a: i32, b: i32) -> i32 {
        a + b
    }

    /// The same integer in every lane.
    fn splat_i(x: i32) -> Self::I;
    /// Converts to the nearest float.
    fn float(x: Self::I) -> Self::F;
    /// 64 bytes.
    unsafe fn load_b(p: *const u8) -> Self::B;
    /// Writes 64 bytes.
    unsafe fn store_b(p: *mut u8, x: Self::B);
    /// Every byte shifted left by `LEFT` bits (right if it is negative; −6 to 4), with `mask`,
    /// which drops what would come from a neighbouring byte.
    fn bits<const LEFT: i32>(x: Self::B, mask: u8) -> Self::B;
    /// `low`, which has none of the bits of `mask`, with these bits of `plane` in addition.
    fn with_bits<const LEFT: i32>(low: Self::B, plane: Self::B, mask: u8) -> Self::B;
    /// The low and the high four bits of every byte.
    #[inline(always)]
    fn nibbles(x: Self::B) -> (Self::B, Self::B) {
        (Self::bits::<0>(x, 15), Self::bits::<-4>(x, 15))
    }
    /// For every byte of `index`, all below 16, that byte of `table`, which holds the same 16 bytes
    /// four times.
    fn lookup(table: Self::B, index: Self::B) -> Self::B;
    /// acc + w · x over four columns; w is unsigned and at most 127, x is four signed bytes, each
    /// at least −127.
    unsafe fn dot(acc: Self::I, w: Self::B, x: *const i8) -> Self::I;
    /// The start of a sum of [`Lanes::dot_biased`], given −128 · the sum of x over all its columns.
    /// The two only make sense together: they give the sum of (w − 128) · x.
    #[inline(always)]
    fn biased(minus_128_sums: i32) -> Self::I {
        Self::splat_i(minus_128_sums)
    }
    /// One step of that sum over four columns; w is any bytes, x signed bytes of at least −127.
    #[inline(always)]
    unsafe fn dot_biased(acc: Self::I, w: Self::B, x: *const i8) -> Self::I {
        // SAFETY: the caller's promise. This is for instructions that need no bound on w.
        unsafe { Self::dot(acc, w, x) }
    }
    /// acc + w · x over four columns, as a narrow sum: where [`Lanes::NARROW`] is set, the first
    /// two columns are added to the lower half of a lane and the others to its upper half. Each
    /// half must end within i16; w is unsigned and at most 127, x signed bytes of at least −127.
    #[inline(always)]
    unsafe fn dot_narrow(acc: Self::I, w: Self::B, x: *const i8) -> Self::I {
        // SAFETY: the caller's promise.
        unsafe { Self::dot(acc, w, x) }
    }
    /// The first step of a narrow sum that starts with 0.
    #[inline(always)]
    unsafe fn narrow(w: Self::B, x: *const i8) -> Self::I {
        // SAFETY: the caller's promise.
        unsafe { Self::dot_narrow(Self::splat_i(0), w, x) }
    }
    /// A narrow sum as one number per lane.
    #[inline(always)]
    fn widened(narrow: Self::I) -> Self::I {
        narrow
    }
    /// 16 unsigned bytes as scales of narrow sums.
    unsafe fn load_scales(p: *const u8) -> Self::I;
    /// 16 signed bytes as scales of narrow sums.
    unsafe fn load_signed_scales(p: *const i8) -> Self::I;
    /// acc + narrow · scale.
    fn add_scaled(acc: Self::I, narrow: Self::I, scale: Self::I) -> Self::I;
    /// 32 unsigned bytes, two per lane, as pairs of i16.
    unsafe fn load_pairs(p: *const u8) -> Self::I;
    /// acc + the two products of a lane's pair of i16 with the pair at `x`.
    unsafe fn dot_pairs(acc: Self::I, w: Self::I, x: *const i16) -> Self::I;
    /// Pairs of i16 with x subtracted from each.
    fn pairs_less(w: Self::I, x: i16) -> Self::I;
    /// The two numbers of each lane's pair of i16, for use with [`Lanes::add_half`] only.
    fn halves(w: Self::I) -> (Self::I, Self::I);
    /// acc + narrow · half, where the narrow sum is within i16.
    fn add_half(acc: Self::I, narrow: Self::I, half: Self::I) -> Self::I;
    /// Prefetches the cache line at `p`, which need not be readable.
    fn prefetch(p: *const u8);
    /// A sum that comes before the next prefetch. The compiler would put all prefetches first, and
    /// so many at once keep loads waiting; or the loads of all rows, for which there are not enough
    /// registers.
    #[inline(always)]
    unsafe fn summed(sum: Self::I) -> Self::I {
        sum
    }
}

/// A piece of work written for any lanes. `run` and everything it calls must be inlined, so that
/// the code is compiled for the instruction set of the caller in [`run`].
pub(super) trait Work {
    type Output;
    fn run<L: Lanes>(self) -> Self::Output;
}

/// Does the work with an instruction set that the machine has ([`Isa::available`]).
pub(super) fn run<W: Work>(isa: Isa, work: W) -> W::Output {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a pool's instruction set is one that the machine has.
        Isa::Avx512 | Isa::Amx => unsafe { avx512::run(work) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::AvxVnni => unsafe { avx2::run_vnni(work) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 => unsafe { avx2::run(work) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        Isa::NeonI8mm => unsafe { neon::run::<neon::MixedSign, W>(work) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        Isa::NeonDot => unsafe { neon::run::<neon::DotProduct, W>(work) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        Isa::Neon => unsafe { neon::run::<neon::Widening, W>(work) },
        _ => work.run::<portable::Portable>(),
    }
}
