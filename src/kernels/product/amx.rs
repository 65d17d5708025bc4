//! Products of several rows by AMX. The weights of a superblock are unpacked once, multiplied with
//! their integer scales and written as two planes of bytes, so that a few matrix instructions add
//! up the whole superblock for up to sixteen rows of activations: block = low + high · 2ⁿ. All of
//! this is exact in integers, so the sums have the bits of every other kernel.

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::{MaybeUninit, offset_of};
use std::ops::Range;

use super::steps::{Minima, Prefetch, add_block};
use super::{ProductSums, SWEEP, Tiles};
use crate::kernels::amx::{self, Shapes};
use crate::kernels::block::{BLOCK, LINE, LOW};
use crate::kernels::format::Format;
use crate::kernels::lanes::{Avx512, LANES, Lanes};
use crate::kernels::quantized_rows::RowCodes;
use crate::kernels::tile::{K_HEAD, K_SCALES, Q6K, WithMinima};

/// Groups of rows whose sums are in the registers.
const GROUPS: usize = SWEEP / amx::ROWS;

/// What multiplies a run of tiles with all rows.
pub(super) type Kernel = unsafe fn(&Tiles<'_>);

/// The kernel for so many rows, if AMX multiplies this format faster than the vectors do.
pub(super) fn kernel(format: Format, rows: usize) -> Option<Kernel> {
    let (kernel, least): (Kernel, _) = match format {
        Format::Q4K => (each::<WithMinima<0>>, 8),
        Format::Q5K => (each::<WithMinima<LINE>>, 8),
        Format::Q6K => (each::<Q6K>, 12),
        _ => return None,
    };
    (rows >= least).then_some(kernel)
}

/// The bytes of a superblock: four columns of sixteen weight rows per line. The gaps keep what is
/// read from having the same last twelve bits of its address as what was just written.
#[repr(C, align(64))]
struct BytePlanes {
    low: [[u8; LINE]; BLOCK / 4],
    _between: [u8; 256],
    high: [[u8; LINE]; BLOCK / 4],
    _after: [u8; 1792],
}

/// The sums of sixteen rows of activations over each plane.
#[repr(C, align(64))]
struct PlaneSums {
    low: [[i32; LANES]; amx::ROWS],
    high: [[i32; LANES]; amx::ROWS],
}

/// What a thread writes for itself. Most tasks are short, so nothing is cleared.
#[repr(C, align(64))]
struct Room {
    /// The superblock that is multiplied and the next one.
    planes: [MaybeUninit<BytePlanes>; 2],
    /// The sums of that superblock and of the one before it.
    dots: [MaybeUninit<[PlaneSums; GROUPS]>; 2],
}

/// Up to sixteen rows of activations.
struct RowGroup<'a> {
    dots: &'a PlaneSums,
    /// The cell of the first row.
    cell: usize,
    /// Those that no group before has.
    rows: Range<usize>,
}

impl RowGroup<'_> {
    /// The integer sums of a row: low + high · 2ⁿ.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn block<K: Planar>(&self, row: usize) -> __m512i {
        let [low, high] = [&self.dots.low[row], &self.dots.high[row]];
        // SAFETY: each has 64 bytes.
        let [low, high] = unsafe {
            [_mm512_load_si512(low.as_ptr().cast()), _mm512_load_si512(high.as_ptr().cast())]
        };
        _mm512_add_epi32(low, _mm512_sll_epi32(high, _mm_cvtsi32_si128(K::HIGH as i32)))
    }
}

/// How one format's superblock becomes planes, and what their sums are.
trait Planar {
    /// n: the high plane counts 2ⁿ times.
    const HIGH: u32;
    /// Whether the bytes of the high plane are signed.
    const SIGNED: bool;
    /// Bytes of a superblock.
    const BYTES: usize;

    /// Unpacks a quarter of a superblock.
    ///
    /// # Safety
    /// `weights` is a superblock of this format, `to` has room, and the machine has AVX-512.
    unsafe fn unpack(
        weights: *const u8,
        quarter: usize,
        to: *mut BytePlanes,
        prefetch: &mut Prefetch,
    );

    /// Adds what `group` holds to `sums`, `[row][16]`.
    ///
    /// # Safety
    /// As [`Planar::unpack`]; the group's rows are prepared and have sums.
    unsafe fn add(weights: *const u8, rows: &RowCodes, group: &RowGroup, sums: *mut f32);
}

/// A superblock of a tile.
#[derive(Clone, Copy)]
struct TileBlock {
    tile: usize,
    block: usize,
}

/// Multiplies every tile with all rows.
///
/// # Safety
/// As `Tiles::each`; the machine has AMX with bytes, and AVX-512.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn each<K: Planar>(tiles: &Tiles<'_>) {
    let mut room = MaybeUninit::<Room>::uninit();
    let room = room.as_mut_ptr();
    let mut sums = ProductSums::UNWRITTEN;
    let blocks = tiles.rows.blocks();
    let count = tiles.rows.count();
    let weights = |step: TileBlock| tiles.matrix.tile(step.tile)[step.block * K::BYTES..].as_ptr();
    for start in (0..count).step_by(SWEEP) {
        let part = SWEEP.min(count - start);
        let rows = part.min(amx::ROWS);
        let groups = part.div_ceil(rows);
        // A second group overlaps the first, so that both have as many rows.
        let first = [0, part - rows];
        let mut steps = tiles
            .tiles
            .clone()
            .flat_map(|tile| (0..blocks).map(move |block| TileBlock { tile, block }));
        let mut add = |step: TileBlock, dots: *const [PlaneSums; GROUPS]| {
            if step.block == 0 {
                sums.clear::<Avx512>(part);
            }
            for (group, first) in first.into_iter().take(groups).enumerate() {
                let cell = step.block * count + start + first;
                let done = group * rows - first;
                let sums = sums.lines[first..].as_mut_ptr().cast();
                // SAFETY: as below.
                unsafe {
                    let group = RowGroup { dots: &(*dots)[group], cell, rows: done..rows };
                    K::add(weights(step), &tiles.rows.coarse, &group, sums);
                }
            }
            if step.block + 1 == blocks {
                // SAFETY: as below.
                unsafe { tiles.store::<Avx512>(&mut sums, step.tile, start, part) };
            }
        };
        // SAFETY: the caller's promise: superblocks of this format, prepared rows, and no other
        // work has these tiles. Planes and sums are written before they are read.
        unsafe {
            let planes = (&raw mut (*room).planes).cast::<BytePlanes>();
            let dots = (&raw mut (*room).dots).cast::<[PlaneSums; GROUPS]>();
            Shapes::of(rows).load();
            let mut next = steps.next();
            if let Some(step) = next {
                let mut prefetch = Prefetch::after(weights(step));
                for quarter in 0..4 {
                    K::unpack(weights(step), quarter, planes, &mut prefetch);
                }
            }
            let mut turn = 0;
            let mut before = None;
            while let Some(step) = next {
                next = steps.next();
                let cell = step.block * count + start;
                let x =
                    first.map(|first| tiles.rows.coarse.codes.as_ptr().add((cell + first) * BLOCK));
                let from = weights(next.unwrap_or(step));
                let mut prefetch = Prefetch::after(from);
                clear();
                // The matrix unit multiplies while the vector units unpack the next superblock.
                for quarter in 0..4 {
                    multiply::<K>(
                        x.map(|x| x.add(64 * quarter)),
                        planes.add(turn),
                        groups,
                        quarter,
                    );
                    if next.is_some() {
                        K::unpack(from, quarter, planes.add(1 - turn), &mut prefetch);
                    }
                }
                store(dots.add(turn), groups);
                if let Some(before) = before.replace(step) {
                    add(before, dots.add(1 - turn));
                }
                turn = 1 - turn;
            }
            if let Some(before) = before {
                add(before, dots.add(1 - turn));
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { amx::release() };
}

/// Sets the sums in the registers to 0.
///
/// # Safety
/// The registers have shapes.
#[inline(always)]
unsafe fn clear() {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            options(nostack, preserves_flags),
        );
    }
}

/// Adds the products of 64 columns of one group of rows to its sums in two registers.
macro_rules! multiply_group {
    ($low:literal, $high:literal, $operation:literal, $x:expr, $lines:expr) => {
        asm!(
            "tileloadd tmm4, [{x} + {row} * 1]",
            "tileloadd tmm5, [{lines} + {line} * 1]",
            "tileloadd tmm6, [{lines} + {line} * 1 + {plane}]",
            concat!("tdpbsud ", $low, ", tmm4, tmm5"),
            concat!($operation, " ", $high, ", tmm4, tmm6"),
            x = in(reg) $x,
            lines = in(reg) $lines,
            row = in(reg) BLOCK,
            line = in(reg) LINE,
            plane = const offset_of!(BytePlanes, high),
            options(nostack, preserves_flags),
        )
    };
}

/// Adds the products of a quarter of a superblock to the sums in the registers.
///
/// # Safety
/// The registers have shapes, and `x` has that many rows of 256 codes.
#[inline(always)]
unsafe fn multiply<K: Planar>(
    x: [*const i8; GROUPS],
    planes: *const BytePlanes,
    groups: usize,
    quarter: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let lines = &raw const (*planes).low[16 * quarter];
        if K::SIGNED {
            multiply_group!("tmm0", "tmm1", "tdpbssd", x[0], lines);
        } else {
            multiply_group!("tmm0", "tmm1", "tdpbsud", x[0], lines);
        }
        if groups > 1 && K::SIGNED {
            multiply_group!("tmm2", "tmm3", "tdpbssd", x[1], lines);
        } else if groups > 1 {
            multiply_group!("tmm2", "tmm3", "tdpbsud", x[1], lines);
        }
    }
}

/// Writes the sums of one group from two registers.
macro_rules! store_group {
    ($low:literal, $high:literal, $dots:expr) => {
        asm!(
            concat!("tilestored [{dots} + {line} * 1], ", $low),
            concat!("tilestored [{dots} + {line} * 1 + {plane}], ", $high),
            dots = in(reg) $dots,
            line = in(reg) LINE,
            plane = const offset_of!(PlaneSums, high),
            options(nostack, preserves_flags),
        )
    };
}

/// Writes the sums in the registers.
///
/// # Safety
/// The registers have shapes, and `dots` has room.
#[inline(always)]
unsafe fn store(dots: *mut [PlaneSums; GROUPS], groups: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let dots = dots.cast::<PlaneSums>();
        store_group!("tmm0", "tmm1", dots);
        if groups > 1 {
            store_group!("tmm2", "tmm3", dots.add(1));
        }
    }
}

/// For each weight row's lane, the byte of `scales` in every other byte, from `first` (0 or 1) on.
///
/// # Safety
/// There are 16 scales, and the machine has AVX-512.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn spread(scales: *const u8, first: usize) -> __m512i {
    const NONE: i8 = -128;
    const LANES_OF: [[i8; 64]; 2] = {
        let mut lanes = [[NONE; 64]; 2];
        let mut at = 0;
        while at < 64 {
            lanes[at % 2][at] = (at / 4) as i8;
            at += 1;
        }
        lanes
    };
    // SAFETY: the caller's promise. Each quarter has all sixteen scales.
    unsafe {
        let all = _mm512_broadcast_i32x4(_mm_loadu_si128(scales.cast()));
        _mm512_shuffle_epi8(all, _mm512_loadu_si512(LANES_OF[first].as_ptr().cast()))
    }
}

/// A scale of 6 bits is cut in two halves of three, each of which, times a code of up to 31, is a
/// byte. So one product of 16 bits multiplies two codes.
impl<const PLANE: usize> Planar for WithMinima<PLANE> {
    const HIGH: u32 = 3;
    const SIGNED: bool = false;
    const BYTES: usize = K_HEAD + 8 * (PLANE + LOW);

    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    #[inline]
    unsafe fn unpack(
        weights: *const u8,
        quarter: usize,
        to: *mut BytePlanes,
        prefetch: &mut Prefetch,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            for j in 2 * quarter..2 * quarter + 2 {
                let scale = spread(weights.add(K_SCALES + LANES * j), 0);
                let low = _mm512_and_si512(scale, _mm512_set1_epi16(7));
                let high = _mm512_srli_epi16::<3>(scale);
                let lines = weights.add(K_HEAD + j * (PLANE + LOW));
                let put = |at: usize, w: __m512i| {
                    let at = 8 * j + at;
                    let product = _mm512_mullo_epi16(w, low);
                    _mm512_store_si512((&raw mut (*to).low[at]).cast(), product);
                    let product = _mm512_mullo_epi16(w, high);
                    _mm512_store_si512((&raw mut (*to).high[at]).cast(), product);
                };
                let nibbles =
                    |i: usize| Avx512::nibbles(Avx512::load_b(lines.add(PLANE + i * LINE)));
                let [(a, b), (c, d), (e, f), (g, h)] = std::array::from_fn(nibbles);
                let codes = if PLANE > 0 {
                    let plane = Avx512::load_b(lines);
                    [
                        Avx512::with_bits::<4>(a, plane, 0x10),
                        Avx512::with_bits::<3>(b, plane, 0x10),
                        Avx512::with_bits::<2>(c, plane, 0x10),
                        Avx512::with_bits::<1>(d, plane, 0x10),
                        Avx512::with_bits::<0>(e, plane, 0x10),
                        Avx512::with_bits::<-1>(f, plane, 0x10),
                        Avx512::with_bits::<-2>(g, plane, 0x10),
                        Avx512::with_bits::<-3>(h, plane, 0x10),
                    ]
                } else {
                    [a, b, c, d, e, f, g, h]
                };
                for (at, w) in codes.into_iter().enumerate() {
                    if match at {
                        0 => j < K_HEAD / LINE,
                        2 => PLANE > 0,
                        _ => at % 2 == 1,
                    } {
                        prefetch.next::<Avx512>();
                    }
                    put(at, w);
                }
            }
        }
    }

    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    #[inline]
    unsafe fn add(weights: *const u8, rows: &RowCodes, group: &RowGroup, sums: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe {
            let (d, minima) = Self::scales::<Avx512>(weights, rows.sums.as_ptr());
            for r in group.rows.clone() {
                let x_sums = rows.sums.as_ptr().add((group.cell + r) * 8);
                let minima = Some(Minima { x_sums, ..minima });
                let scale = rows.scales.as_ptr().add(group.cell + r);
                add_block::<Avx512, 1, 4>(
                    scale,
                    sums.add(r * LANES),
                    [group.block::<Self>(r)],
                    d,
                    minima,
                );
            }
        }
    }
}

/// The product of a code and its signed scale has 16 bits: its low byte and its high one.
impl Planar for Q6K {
    const HIGH: u32 = 8;
    const SIGNED: bool = true;
    const BYTES: usize = K_HEAD + 8 * (2 * LINE + LOW);

    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    #[inline]
    unsafe fn unpack(
        weights: *const u8,
        quarter: usize,
        to: *mut BytePlanes,
        prefetch: &mut Prefetch,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let upper = _mm512_set1_epi16(0xff00u16 as i16);
            for j in 4 * quarter..4 * quarter + 4 {
                let sub = weights.add(K_HEAD + j / 2 * (2 * LINE + LOW));
                let lines = sub.add(2 * LINE + j % 2 * 2 * LINE);
                let scales = weights.add(K_SCALES + LANES * j);
                let [even, odd] = [spread(scales, 0), spread(scales, 1)];
                for (at, w) in
                    Q6K::codes::<Avx512>(sub.add(j % 2 * LINE), lines).into_iter().enumerate()
                {
                    if Self::is_prefetched(j, at) {
                        prefetch.next::<Avx512>();
                    }
                    let even = _mm512_maddubs_epi16(w, even);
                    let odd = _mm512_maddubs_epi16(w, odd);
                    // 0xca chooses between the others by the first operand.
                    let low =
                        _mm512_ternarylogic_epi32::<0xca>(upper, _mm512_slli_epi16::<8>(odd), even);
                    let high =
                        _mm512_ternarylogic_epi32::<0xca>(upper, odd, _mm512_srli_epi16::<8>(even));
                    _mm512_store_si512((&raw mut (*to).low[4 * j + at]).cast(), low);
                    _mm512_store_si512((&raw mut (*to).high[4 * j + at]).cast(), high);
                }
            }
        }
    }

    /// 32 is subtracted from all codes by way of the sums of x.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    #[inline]
    unsafe fn add(weights: *const u8, rows: &RowCodes, group: &RowGroup, sums: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe {
            let d = Avx512::load(weights.cast());
            let pairs = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| {
                let [a, b] = [0, 1]
                    .map(|j| _mm_loadu_si128(weights.add(K_SCALES + LANES * (2 * i + j)).cast()));
                let pairs = _mm256_set_m128i(_mm_unpackhi_epi8(a, b), _mm_unpacklo_epi8(a, b));
                _mm512_cvtepi8_epi16(pairs)
            });
            for r in group.rows.clone() {
                let x_sums = rows.run_sums.as_ptr().add((group.cell + r) * 16);
                let mut below = _mm512_setzero_si512();
                for (i, pairs) in pairs.into_iter().enumerate() {
                    below = Avx512::dot_pairs(below, pairs, x_sums.add(2 * i));
                }
                let block = _mm512_sub_epi32(group.block::<Self>(r), _mm512_slli_epi32::<5>(below));
                let scale = rows.scales.as_ptr().add(group.cell + r);
                add_block::<Avx512, 1, 0>(scale, sums.add(r * LANES), [block], d, None);
            }
        }
    }
}
