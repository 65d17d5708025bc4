//! Numbers for the kernels, and pools that must agree on them.

use std::path::Path;

use dovetail::kernels::*;

/// The top of the checkout, even when the crate of `tests/cross` runs these tests.
pub fn top() -> &'static Path {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    above.find(|folder| folder.join("tests/golden").is_dir()).unwrap()
}

/// Deterministic numbers, roughly normally distributed, with a few outliers such as activations
/// have.
pub fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|i| {
            let mut sum = 0.0;
            for _ in 0..4 {
                s ^= s << 13;
                s ^= s >> 7;
                s ^= s << 17;
                sum += (s >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
            }
            if i % 97 == 13 { sum * 8.0 } else { sum }
        })
        .collect()
}

pub fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

/// Every pool that must agree, with one or several threads on each instruction set.
pub fn pools() -> Vec<Pool> {
    Isa::ALL.into_iter().flat_map(|isa| [1, 3].map(|n| Pool::with_isa(n, isa))).collect()
}

/// Rows drawn from `seed`, scaled so that activations keep their size.
fn random_rows(format: Format, outputs: usize, inputs: usize, seed: u64) -> Vec<Vec<u8>> {
    let row = |i| random_row(format, inputs, seed.wrapping_add(i));
    (0..outputs as u64).map(row).collect()
}

/// A matrix of [`random_rows`].
pub fn random_matrix(
    format: Format,
    outputs: usize,
    inputs: usize,
    seed: u64,
    pool: &Pool,
) -> Matrix {
    let rows = random_rows(format, outputs, inputs, seed);
    Matrix::pack(format, outputs, inputs, &rows.concat(), pool).unwrap()
}

/// The same weights, repacked if their format would be expanded.
pub fn repacked_matrix(
    format: Format,
    outputs: usize,
    inputs: usize,
    seed: u64,
    pool: &Pool,
) -> Matrix {
    let rows = random_rows(format, outputs, inputs, seed);
    Matrix::pack_rows(format, outputs, inputs, |i| &rows[i], true, pool).unwrap()
}

/// Attention over one cache, with the default options.
pub fn attend(
    pool: &Pool,
    cache: &KvCache,
    layer: usize,
    queries: &[f32],
    mask: &TreeMask,
    out: &mut [f32],
) {
    let options = AttentionOptions::default();
    attention(pool, std::slice::from_ref(cache), layer, queries, mask, &options, out);
}

/// x · Wᵀ for rows of activations.
pub fn product(pool: &Pool, matrix: &Matrix, x: &[f32]) -> Vec<f32> {
    let mut rows = QuantizedRows::new();
    rows.prepare(pool, x, matrix.inputs(), [matrix.format()]);
    let mut y = vec![f32::NAN; rows.count() * matrix.outputs()];
    multiply(pool, &rows, &mut [(matrix, &mut y)]);
    y
}
