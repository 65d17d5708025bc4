//! The kernels against plain arithmetic, against each other on every instruction set, and alone
//! against in company: the same bits.

use dovetail::kernels::*;

/// Deterministic numbers, about normal, with a few outliers such as activations have.
fn numbers(n: usize, seed: u64) -> Vec<f32> {
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

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

fn product(pool: &Pool, matrix: &Matrix, x: &[f32]) -> Vec<f32> {
    let mut rows = Rows::new();
    rows.prepare(pool, x, matrix.inputs(), [matrix.format()]);
    let mut y = vec![f32::NAN; rows.count() * matrix.outputs()];
    multiply(pool, &rows, &mut [(matrix, &mut y)]);
    y
}

/// Widths that each format allows: one block, an odd number of blocks, several superblocks.
fn widths(format: Format) -> Vec<usize> {
    match format.block() {
        1 => vec![1, 63, 256, 300, 777],
        32 => vec![32, 96, 256, 288, 832],
        _ => vec![256, 768],
    }
}

#[test]
fn a_product_is_the_dot_product_of_its_rows() {
    let pool = Pool::new(2);
    for format in Format::ALL {
        for inputs in widths(format) {
            let (m, outputs) = (3, 37);
            let matrix = Matrix::random(format, outputs, inputs, 5, &pool).unwrap();
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
            for m in [1, 2, 3, 5, 8, 9, 70] {
                let portable = Pool::with_isa(1, Isa::Portable);
                let matrix = Matrix::random(format, 37, inputs, 11, &portable).unwrap();
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
