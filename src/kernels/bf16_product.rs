//! Products of f32 matrices whose factors are rounded to bf16 and whose sums are f32, by the
//! instructions that some x86 processors have for that (AMX, or AVX-512 BF16): for training. It
//! must not depend on tensors.

/// A matrix in memory, whose rows and columns are any distances apart.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// Its numbers, from the first on.
    pub data: &'a [f32],
    /// How many rows and columns it has.
    pub size: [usize; 2],
    /// The distances between neighbouring rows and columns.
    pub strides: [usize; 2],
}

/// Whether this processor has such instructions and the system lets this process use them.
pub fn multiplies_bf16() -> bool {
    x86::unit().is_some()
}

/// `out` = a · b, row by row, on rayon's threads. Returns whether it could be computed: not without
/// the instructions ([`multiplies_bf16`]).
///
/// # Panics
/// If sizes and lengths do not match.
pub fn bf16_product(a: Strided<'_>, b: Strided<'_>, out: &mut [f32]) -> bool {
    for Strided { data, size: [rows, columns], strides } in [a, b] {
        let last = rows.saturating_sub(1) * strides[0] + columns.saturating_sub(1) * strides[1];
        assert!(rows * columns == 0 || last < data.len());
    }
    assert_eq!(a.size[1], b.size[0]);
    assert_eq!(out.len(), a.size[0] * b.size[1]);
    let Some(unit) = x86::unit() else { return false };
    x86::product(unit, a, b, out);
    true
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod x86 {
    use std::convert::Infallible;

    use super::Strided;

    pub(super) fn unit() -> Option<Infallible> {
        None
    }

    pub(super) fn product(unit: Infallible, _: Strided<'_>, _: Strided<'_>, _: &mut [f32]) {
        match unit {}
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_loadu_ps, _mm512_loadu_si512,
        _mm512_set1_epi32, _mm512_setzero_ps, _mm512_storeu_ps,
    };
    use std::mem::transmute;
    use std::sync::OnceLock;

    use rayon::prelude::*;

    use super::Strided;
    use crate::kernels::amx::{self, Shapes};

    /// Rows and columns of a block of the result: two tiles each way.
    const SIDE: usize = 32;
    /// Terms of the sums that one instruction adds up.
    const DEPTH: usize = 32;
    /// Pairs of bf16 in the factors of a block at this depth: two tiles.
    const PACKED: usize = SIDE * DEPTH / 2;
    /// How many depths are multiplied at a time.
    const AT_ONCE: usize = 32;
    /// At most how many neighbouring blocks of columns a task computes together. Their panels and a
    /// block of the other factor fit in the second cache at these depths.
    const MOST_TOGETHER: usize = 4;

    static SHAPES: Shapes = Shapes::of(amx::ROWS);

    /// Rows of a block whose sums [`add_by_vectors`] holds in registers.
    const ROWS: usize = 8;

    /// The instructions that multiply.
    #[derive(Clone, Copy, Debug)]
    pub(super) enum Unit {
        /// AMX-BF16.
        Tiles,
        /// AVX-512 BF16.
        Vectors,
    }

    /// The instructions of this processor that the system permits.
    pub(super) fn unit() -> Option<Unit> {
        static UNIT: OnceLock<Option<Unit>> = OnceLock::new();
        *UNIT.get_or_init(|| {
            if !is_x86_feature_detected!("avx512bw") {
                return None;
            }
            if amx::multiplies(amx::Factor::Bf16) {
                return Some(Unit::Tiles);
            }
            is_x86_feature_detected!("avx512bf16").then_some(Unit::Vectors)
        })
    }

    /// Where tasks write their columns of the result.
    struct Shared(*mut f32);

    // SAFETY: every task writes other elements.
    unsafe impl Sync for Shared {}

    pub(super) fn product(unit: Unit, a: Strided<'_>, b: Strided<'_>, out: &mut [f32]) {
        // The factor with fewer rows is packed once, the other one block by block.
        let width = b.size[1];
        let (a, b, [down, right]) = if a.size[0] <= width {
            (a, b, [width, 1])
        } else {
            (transposed(b), transposed(a), [1, width])
        };
        let ([rows, deep], columns) = (a.size, b.size[1]);
        let depths = deep.div_ceil(DEPTH);
        let mut packed = vec![0u32; rows.div_ceil(SIDE) * depths * PACKED];
        let blocks = packed.par_chunks_mut((depths * PACKED).max(1)).enumerate();
        blocks.for_each(|(block, packed)| {
            for (depth, packed) in packed.chunks_exact_mut(PACKED).enumerate() {
                // SAFETY: `unit` found AVX-512 BW.
                unsafe { pack::<false>(a, block * SIDE, depth * DEPTH, packed) };
            }
        });
        let b = transposed(b);
        let to = &Shared(out.as_mut_ptr());
        let blocks = columns.div_ceil(SIDE);
        // Several blocks share what is read of `packed`, unless threads would be left without work.
        let together = (blocks / rayon::current_num_threads()).clamp(1, MOST_TOGETHER);
        let panel = AT_ONCE.min(depths) * PACKED;
        let buffers = || {
            let sums = vec![0f32; rows.div_ceil(SIDE) * together * SIDE * SIDE];
            (vec![0u32; together * panel], sums)
        };
        let tasks = (0..blocks.div_ceil(together)).into_par_iter();
        tasks.for_each_init(buffers, |(panels, sums), task| {
            let blocks = task * together..((task + 1) * together).min(blocks);
            for first in (0..depths).step_by(AT_ONCE) {
                let some = AT_ONCE.min(depths - first);
                for (block, panel) in blocks.clone().zip(panels.chunks_exact_mut(panel.max(1))) {
                    for (depth, panel) in panel.chunks_exact_mut(PACKED).take(some).enumerate() {
                        // SAFETY: as above.
                        unsafe { pack::<true>(b, block * SIDE, (first + depth) * DEPTH, panel) };
                    }
                }
                let packed = packed.chunks_exact((depths * PACKED).max(1));
                for (a, sums) in packed.zip(sums.chunks_exact_mut(together * SIDE * SIDE)) {
                    let a = &a[first * PACKED..(first + some) * PACKED];
                    let panels = panels.chunks_exact(panel.max(1)).take(blocks.len());
                    for (panel, sums) in panels.zip(sums.chunks_exact_mut(SIDE * SIDE)) {
                        add_block(unit, a, &panel[..some * PACKED], sums, first == 0);
                    }
                }
            }
            for (number, block) in blocks.enumerate() {
                let first = block * SIDE;
                let width = SIDE.min(columns - first);
                for row in 0..rows {
                    let at = (row / SIDE * together + number) * SIDE + row % SIDE;
                    // SAFETY: these elements lie in `out`, and no other task writes to these
                    // columns.
                    let to = unsafe { to.0.add(row * down + first * right) };
                    for (column, sum) in sums[at * SIDE..][..width].iter().enumerate() {
                        // SAFETY: as above.
                        unsafe { *to.add(column * right) = *sum };
                    }
                }
            }
        });
    }

    fn transposed(x: Strided<'_>) -> Strided<'_> {
        let ([rows, columns], [down, right]) = (x.size, x.strides);
        Strided { size: [columns, rows], strides: [right, down], ..x }
    }

    /// Packs two tiles: 32 rows of `x` from `row` on and 32 columns from `column` on, rounded and
    /// filled up with zeros. Pairs of neighbouring columns lie next to each other, then rows
    /// (`ACROSS`) or pairs.
    #[target_feature(enable = "avx512f,avx512bw")]
    fn pack<const ACROSS: bool>(x: Strided<'_>, row: usize, column: usize, to: &mut [u32]) {
        let ([rows, columns], [down, right]) = (x.size, x.strides);
        let whole = row + SIDE <= rows && column + DEPTH <= columns;
        if !whole || (down != 1 && right != 1) {
            let mut copy = [0.0; SIDE * DEPTH];
            for (r, copy) in (row..rows).zip(copy.chunks_exact_mut(DEPTH)) {
                for (c, copy) in (column..columns).zip(copy) {
                    *copy = x.data[r * down + c * right];
                }
            }
            let copy = Strided { data: &copy, size: [SIDE, DEPTH], strides: [DEPTH, 1] };
            return pack::<ACROSS>(copy, 0, 0, to);
        }
        let place = |r: usize, pair: usize| if ACROSS { pair * 16 + r } else { r * 16 + pair };
        for (tile, to) in to.chunks_exact_mut(PACKED / 2).enumerate() {
            let from = &x.data[(row + 16 * tile) * down + column * right..];
            // In the order of the memory that is read.
            if right == 1 {
                for r in 0..16 {
                    let line = &from[r * down..][..DEPTH];
                    for pair in 0..16 {
                        to[place(r, pair)] = both(line[2 * pair], line[2 * pair + 1]);
                    }
                }
            } else {
                for pair in 0..16 {
                    let even = &from[2 * pair * right..][..16];
                    let odd = &from[(2 * pair + 1) * right..][..16];
                    for r in 0..16 {
                        to[place(r, pair)] = both(even[r], odd[r]);
                    }
                }
            }
        }
    }

    /// Adds the product of packed factors to a block of the result, or sets it.
    fn add_block(unit: Unit, a: &[u32], b: &[u32], sums: &mut [f32], set: bool) {
        assert!(a.len() == b.len() && a.len().is_multiple_of(PACKED) && sums.len() == SIDE * SIDE);
        if set {
            sums.fill(0.0);
        }
        match unit {
            Unit::Tiles => add_by_tiles(a, b, sums),
            // SAFETY: `unit` found AVX-512 BF16.
            Unit::Vectors => unsafe { add_by_vectors(a, b, sums) },
        }
    }

    /// [`add_block`] for [`Unit::Vectors`].
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn add_by_vectors(a: &[u32], b: &[u32], sums: &mut [f32]) {
        const PAIRS: usize = DEPTH / 2;
        for (group, sums) in sums.chunks_exact_mut(ROWS * SIDE).enumerate() {
            let (rows, _) = sums.as_chunks_mut::<16>();
            let mut held = [[_mm512_setzero_ps(); 2]; ROWS];
            for (held, from) in held.as_flattened_mut().iter_mut().zip(&mut *rows) {
                // SAFETY: a vector has 16 numbers.
                *held = unsafe { _mm512_loadu_ps(from.as_ptr()) };
            }
            for (a, b) in a.chunks_exact(PACKED).zip(b.chunks_exact(PACKED)) {
                let a = &a[group * ROWS * PAIRS..][..ROWS * PAIRS];
                let (b, _) = b.as_chunks::<16>();
                for pair in 0..PAIRS {
                    let columns = [&b[pair], &b[PAIRS + pair]].map(|pairs| {
                        // SAFETY: as above.
                        as_bf16(unsafe { _mm512_loadu_si512(pairs.as_ptr().cast()) })
                    });
                    for (row, held) in held.iter_mut().enumerate() {
                        let both = a[row * PAIRS + pair].cast_signed();
                        let both = as_bf16(_mm512_set1_epi32(both));
                        held[0] = _mm512_dpbf16_ps(held[0], both, columns[0]);
                        held[1] = _mm512_dpbf16_ps(held[1], both, columns[1]);
                    }
                }
            }
            for (held, to) in held.as_flattened().iter().zip(rows) {
                // SAFETY: as above.
                unsafe { _mm512_storeu_ps(to.as_mut_ptr(), *held) };
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    fn as_bf16(pairs: __m512i) -> __m512bh {
        // SAFETY: both are 512 bits, of which every pattern is a value.
        unsafe { transmute(pairs) }
    }

    /// [`add_block`] for [`Unit::Tiles`].
    fn add_by_tiles(a: &[u32], b: &[u32], sums: &mut [f32]) {
        // SAFETY: the processor has these instructions and the system permits them, or `unit` had
        // not found them. Tiles are read from `a` and `b`, each of which has PACKED pairs for every
        // depth, and from the four quarters of `sums`, which are written again.
        unsafe {
            asm!(
                "ldtilecfg [{shapes}]",
                "tileloadd tmm0, [{sums} + {row} * 1]",
                "tileloadd tmm1, [{sums} + {row} * 1 + 64]",
                "tileloadd tmm2, [{sums} + {row} * 1 + 2048]",
                "tileloadd tmm3, [{sums} + {row} * 1 + 2112]",
                "2:",
                "tileloadd tmm4, [{a} + {line} * 1]",
                "tileloadd tmm6, [{b} + {line} * 1]",
                "tileloadd tmm5, [{a} + {line} * 1 + 1024]",
                "tileloadd tmm7, [{b} + {line} * 1 + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, 2048",
                "add {b}, 2048",
                "dec {depths}",
                "jnz 2b",
                "tilestored [{sums} + {row} * 1], tmm0",
                "tilestored [{sums} + {row} * 1 + 64], tmm1",
                "tilestored [{sums} + {row} * 1 + 2048], tmm2",
                "tilestored [{sums} + {row} * 1 + 2112], tmm3",
                "tilerelease",
                shapes = in(reg) SHAPES.as_ptr(),
                sums = in(reg) sums.as_mut_ptr(),
                row = in(reg) 4 * SIDE,
                line = in(reg) 64usize,
                a = inout(reg) a.as_ptr() => _,
                b = inout(reg) b.as_ptr() => _,
                depths = inout(reg) a.len() / PACKED => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }

    /// Two numbers as neighbouring bf16.
    fn both(even: f32, odd: f32) -> u32 {
        rounded(even) | rounded(odd) << 16
    }

    /// The bits of the nearest bf16.
    fn rounded(x: f32) -> u32 {
        let bits = x.to_bits();
        let nearest = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
        if x.is_nan() { 0x7fc0 } else { nearest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(count: usize, phase: f64) -> Vec<f32> {
        (0..count).map(|i| (i as f64 * 0.7 + phase).sin() as f32).collect()
    }

    fn bf16(x: f32) -> f64 {
        f64::from(half::bf16::from_f32(x).to_f32())
    }

    #[test]
    fn sums_are_those_of_the_rounded_factors_in_every_layout() {
        if !multiplies_bf16() {
            println!("left out: this processor does not multiply bf16");
            return;
        }
        for [rows, deep, columns] in
            [[5, 7, 9], [33, 70, 140], [40, 2100, 35], [1, 1, 1], [3, 0, 4]]
        {
            for layout in 0..4 {
                let [a, b] = [wave(rows * deep, 0.1), wave(deep * columns, 0.5)];
                let strided = |data, size: [usize; 2], down: bool| {
                    let strides = if down { [1, size[0]] } else { [size[1], 1] };
                    Strided { data, size, strides }
                };
                let a = strided(&a, [rows, deep], layout & 1 == 1);
                let b = strided(&b, [deep, columns], layout & 2 == 2);
                let at = |x: &Strided<'_>, row: usize, column: usize| {
                    bf16(x.data[row * x.strides[0] + column * x.strides[1]])
                };
                let mut out = vec![f32::NAN; rows * columns];
                assert!(bf16_product(a, b, &mut out));
                for (i, &found) in out.iter().enumerate() {
                    let (row, column) = (i / columns, i % columns);
                    let terms = (0..deep).map(|k| at(&a, row, k) * at(&b, k, column));
                    let expected: f64 = terms.sum();
                    let off = (f64::from(found) - expected).abs();
                    assert!(
                        off < 1e-3 + 4e-6 * expected.abs(),
                        "{rows} {deep} {columns} {layout}: {found} {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        let (nan, one) = ([f32::NAN], [1.0]);
        let single = |data| Strided { data, size: [1, 1], strides: [1, 1] };
        let mut out = [0.0];
        if bf16_product(single(&nan), single(&one), &mut out) {
            assert!(out[0].is_nan());
        }
    }
}
