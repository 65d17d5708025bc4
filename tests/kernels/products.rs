//! Products: sums of the exact weights, row-invariant.

use dovetail::kernels::*;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use super::{bits, numbers, product, random_matrix, repacked_matrix};

/// Widths that each format allows: one block, an odd number of blocks, several superblocks.
fn widths(format: Format) -> Vec<usize> {
    match format.block() {
        1 => vec![1, 63, 256, 300, 777],
        32 => vec![32, 96, 256, 288, 832],
        64 => vec![64, 192, 832],
        128 => vec![128, 384],
        _ => vec![256, 768],
    }
}

#[test]
fn a_product_is_the_dot_product_of_its_rows() {
    let pool = Pool::new(2);
    for format in Format::ALL {
        for inputs in widths(format) {
            let (m, outputs) = (3, 37);
            let matrix = random_matrix(format, outputs, inputs, 5, &pool);
            let x = numbers(m * inputs, 7);
            let y = product(&pool, &matrix, &x);
            let (mut error, mut size) = (0.0, 0.0);
            let mut weights = vec![0.0; inputs];
            for o in 0..outputs {
                matrix.row(o, &mut weights);
                for r in 0..m {
                    let row = &x[r * inputs..(r + 1) * inputs];
                    let exact: f64 =
                        row.iter().zip(&weights).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    error += (f64::from(y[r * outputs + o]) - exact).powi(2);
                    size += exact * exact;
                }
            }
            let relative = (error / size).sqrt();
            let limit = if format.block() == 1 { 1e-6 } else { 0.03 };
            assert!(relative < limit, "{format} × {inputs}: error {relative:.2e}");
        }
    }
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    for format in Format::ALL {
        for inputs in widths(format) {
            for m in [1, 2, 3, 5, 8, 9, 12, 17, 70] {
                let portable = Pool::with_isa(1, Isa::Portable);
                let matrix = random_matrix(format, 37, inputs, 11, &portable);
                let x = numbers(m * inputs, m as u64);
                let expected = product(&portable, &matrix, &x);
                for isa in Isa::ALL {
                    let y = product(&Pool::with_isa(3, isa), &matrix, &x);
                    assert_eq!(bits(&y), bits(&expected), "{format} × {inputs}, {m} rows, {isa:?}");
                }
            }
        }
    }
}

/// A task of many tiles writes their results together.
#[test]
fn tasks_of_many_tiles_give_what_each_tile_gives() {
    // Ten tiles for each of a thread's 24 tasks, and a part of one.
    let (inputs, tiles) = (256, 240);
    let outputs = tiles as usize * Matrix::GROUP - 3;
    for format in [Format::Q4K, Format::Q6K, Format::Q8_0] {
        for isa in Isa::ALL {
            let pool = Pool::with_isa(1, isa);
            let matrix = random_matrix(format, outputs, inputs, 13, &pool);
            for m in [1, 5, 8, 20, 33, 70] {
                let x = numbers(m * inputs, m as u64);
                let together = product(&pool, &matrix, &x);
                for tile in [0, 1, 9, 10, 119, 120, tiles - 1] {
                    let one = matrix.of_groups(&[tile]);
                    let alone = product(&pool, &one, &x);
                    let at = tile as usize * Matrix::GROUP;
                    for (r, alone) in alone.chunks(one.outputs()).enumerate() {
                        let row = &together[r * outputs + at..][..one.outputs()];
                        assert_eq!(
                            bits(row),
                            bits(alone),
                            "{format} {isa:?} {m} rows, tile {tile}"
                        );
                    }
                }
            }
        }
    }
}

/// A row with all bits set in every byte whose weights then remain finite.
fn greatest_row(format: Format, inputs: usize, pool: &Pool) -> Vec<u8> {
    let mut row = random_row(format, inputs, 1);
    let mut weights = vec![0.0; inputs];
    for at in 0..format.block_bytes() {
        let mut changed = row.clone();
        for byte in changed.iter_mut().skip(at).step_by(format.block_bytes()) {
            *byte = 0xff;
        }
        Matrix::pack(format, 1, inputs, &changed, pool).unwrap().row(0, &mut weights);
        if weights.iter().all(|w| w.is_finite() && w.abs() < 1e6) {
            row = changed;
        }
    }
    row
}

/// Sums in 16 bits must hold the largest products.
#[test]
fn the_largest_codes_give_the_same_bits_on_every_instruction_set() {
    let portable = Pool::with_isa(1, Isa::Portable);
    for format in Format::ALL {
        let inputs = 512;
        let row = greatest_row(format, inputs, &portable);
        let matrix = Matrix::pack(format, 16, inputs, &row.repeat(16), &portable).unwrap();
        let ones = vec![1.0; inputs];
        let signs: Vec<f32> = (0..inputs).map(|i| [1.0, -1.0, -1.0, 1.0][i % 4]).collect();
        let x = [&ones[..], &signs, &ones.iter().map(|x| -x).collect::<Vec<_>>()];
        // Some kernels begin at twelve rows.
        let x = x.concat().repeat(4);
        let expected = product(&portable, &matrix, &x);
        assert!(expected.iter().all(|y| y.is_finite()), "{format}");
        for isa in Isa::ALL {
            let y = product(&Pool::with_isa(1, isa), &matrix, &x);
            assert_eq!(bits(&y), bits(&expected), "{format}, {isa:?}");
        }
    }
}

/// The formats that are expanded in every product unless they are repacked.
fn expanded() -> impl Iterator<Item = Format> {
    Format::ALL.into_iter().filter(|format| format.storage() == Storage::Expanded)
}

#[test]
fn repacked_weights_give_the_bits_of_expanded_ones() {
    let portable = Pool::with_isa(1, Isa::Portable);
    for format in expanded() {
        for inputs in widths(format) {
            let matrix = random_matrix(format, 37, inputs, 11, &portable);
            let repacked = repacked_matrix(format, 37, inputs, 11, &portable);
            let (mut a, mut b) = (vec![0.0; inputs], vec![0.0; inputs]);
            for i in 0..37 {
                matrix.row(i, &mut a);
                repacked.row(i, &mut b);
                assert_eq!(bits(&a), bits(&b), "{format} × {inputs}, row {i}");
            }
            for m in [1, 2, 3, 4, 5, 7, 8, 9, 70] {
                let x = numbers(m * inputs, m as u64);
                let expected = product(&portable, &matrix, &x);
                for isa in Isa::ALL {
                    let y = product(&Pool::with_isa(3, isa), &repacked, &x);
                    assert_eq!(bits(&y), bits(&expected), "{format} × {inputs}, {m} rows, {isa:?}");
                }
            }
        }
    }
}

/// With the largest activations, every sum of a run is as large as it can be.
#[test]
fn the_largest_sums_of_repacked_weights_do_not_overflow() {
    let portable = Pool::with_isa(1, Isa::Portable);
    for format in expanded() {
        let repacked = repacked_matrix(format, 64, 512, 23, &portable);
        let mut weights = vec![0.0; 512];
        for row in 0..64 {
            repacked.row(row, &mut weights);
            let x: Vec<f32> = weights.iter().map(|w| if *w < 0.0 { -1.0 } else { 1.0 }).collect();
            let expected = product(&portable, &repacked, &x);
            let exact: f32 = weights.iter().map(|&w| f32::abs(w)).sum();
            assert!((expected[row] - exact).abs() <= exact * 1e-4, "{format}: {}", expected[row]);
            for isa in Isa::ALL {
                let y = product(&Pool::with_isa(1, isa), &repacked, &x);
                assert_eq!(bits(&y), bits(&expected), "{format}, {isa:?}");
            }
        }
    }
}

#[test]
fn repacked_weights_take_the_memory_that_is_planned_for_them() {
    let pool = Pool::new(1);
    for format in Format::ALL {
        let file = format.row_bytes(512).unwrap() * 32;
        let repacked = repacked_matrix(format, 32, 512, 3, &pool).bytes();
        let planned = file as u64 + Matrix::growth(format, file as u64);
        assert!((repacked as f64 / planned as f64 - 1.0).abs() < 0.05, "{format}: {repacked}");
    }
}

#[test]
fn a_row_gives_the_same_bits_alone_and_in_a_batch() {
    let pool = Pool::new(2);
    for format in Format::ALL {
        let inputs = *widths(format).last().unwrap();
        let matrix = random_matrix(format, 50, inputs, 3, &pool);
        let x = numbers(64 * inputs, 1);
        let alone: Vec<Vec<f32>> =
            x.chunks_exact(inputs).map(|row| product(&pool, &matrix, row)).collect();
        for m in 1..=64 {
            // The rows of a batch of m end where the batch of 64 ends, which is a different place
            // each time.
            let first = 64 - m;
            let y = product(&pool, &matrix, &x[first * inputs..]);
            for (r, y) in y.chunks_exact(50).enumerate() {
                assert_eq!(bits(y), bits(&alone[first + r]), "{format}: row {r} of {m}");
            }
        }
    }
}

#[test]
fn several_matrices_in_one_dispatch_are_the_same_as_one_by_one() {
    let pool = Pool::new(3);
    let x = numbers(6 * 512, 4);
    let matrices: Vec<Matrix> = Format::ALL
        .into_iter()
        .enumerate()
        .map(|(i, format)| random_matrix(format, 16 + 30 * i, 512, 2, &pool))
        .collect();
    let mut rows = QuantizedRows::new();
    rows.prepare(&pool, &x, 512, Format::ALL);
    let mut y: Vec<Vec<f32>> = matrices.iter().map(|w| vec![0.0; 6 * w.outputs()]).collect();
    let mut all: Vec<(&Matrix, &mut [f32])> =
        matrices.iter().zip(&mut y).map(|(w, y)| (w, y.as_mut_slice())).collect();
    multiply(&pool, &rows, &mut all);
    for (matrix, y) in matrices.iter().zip(&y) {
        assert_eq!(bits(y), bits(&product(&pool, matrix, &x)), "{matrix:?}");
    }
}

#[test]
fn damaged_shapes_are_refused_with_their_figures() {
    let pool = Pool::new(1);
    let error = Matrix::pack(Format::Q4K, 2, 100, &[0; 10], &pool).unwrap_err().to_string();
    assert_eq!(error, "rows of 100 weights cannot be Q4_K, which stores blocks of 256");
    let error = Matrix::pack(Format::Q8_0, 2, 64, &[0; 10], &pool).unwrap_err().to_string();
    assert!(error.starts_with("a Q8_0 matrix of 2 × 64 has 10 bytes instead of 136"), "{error}");
}

#[test]
fn rows_are_packed_in_any_order_at_the_size_of_the_file() {
    let pool = Pool::new(2);
    for format in Format::ALL {
        let row = format.row_bytes(512).unwrap();
        let bytes: Vec<u8> = (0..40).flat_map(|i| vec![i as u8 ^ 0x15; row]).collect();
        let plain = Matrix::pack(format, 40, 512, &bytes, &pool).unwrap();
        let turned =
            Matrix::pack_rows(format, 40, 512, |i| &bytes[(39 - i) * row..][..row], false, &pool)
                .unwrap();
        let (mut a, mut b) = (vec![0.0; 512], vec![0.0; 512]);
        for i in 0..40 {
            plain.row(i, &mut a);
            turned.row(39 - i, &mut b);
            assert_eq!(bits(&a), bits(&b), "{format}");
        }
        // 48 rows in whole tiles.
        assert!(plain.bytes() as f64 <= 1.05 * (48 * row) as f64, "{format}: {}", plain.bytes());
    }
}

/// NaN and infinities in a row of activations must not become finite results.
#[test]
fn nan_and_infinity_in_a_row_are_kept() {
    let pool = Pool::new(2);
    for format in Format::ALL {
        let inputs = 512;
        let matrix = random_matrix(format, 20, inputs, 3, &pool);
        for bad in [f32::NAN, f32::INFINITY] {
            let mut x = numbers(2 * inputs, 5);
            x[300] = bad;
            let y = product(&pool, &matrix, &x);
            assert!(y[..20].iter().all(|v| !v.is_finite()), "{format} of {bad}");
            assert!(y[20..].iter().all(|v| v.is_finite()), "{format}: another row");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    /// Any shape, any part of any batch, any number of threads on any instruction set: the result
    /// has the bits of the portable product of the row alone.
    #[test]
    fn a_product_is_row_invariant(
        format in prop::sample::select(Format::ALL.to_vec()),
        blocks in 1usize..6,
        odd in 0usize..40,
        outputs in 1usize..70,
        batch in 1usize..=64,
        row in 0usize..64,
        threads in 1usize..4,
        isa in prop::sample::select(Isa::ALL.to_vec()),
        seed in any::<u64>(),
    ) {
        let inputs = if format.block() == 1 { blocks * 60 + odd } else { blocks * format.block() };
        let pool = Pool::with_isa(threads, isa);
        let matrix = random_matrix(format, outputs, inputs, seed, &pool);
        let x = numbers(batch * inputs, seed ^ 1);
        let row = row % batch;
        let y = product(&pool, &matrix, &x);
        let portable = Pool::with_isa(1, Isa::Portable);
        let alone = product(&portable, &matrix, &x[row * inputs..(row + 1) * inputs]);
        prop_assert_eq!(bits(&y[row * outputs..(row + 1) * outputs]), bits(&alone));
    }
}
