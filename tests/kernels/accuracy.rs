//! The kernels compared with candle's: the same weights from the same bytes, and products no
//! further from the exact ones than candle's own.

use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{Device, Module, Tensor};
use dovetail::kernels::*;

const INPUTS: usize = 1024;
const OUTPUTS: usize = 500;
const ROWS: usize = 24;

/// Normally distributed numbers; activations have channels that are much larger, as a transformer's
/// do.
fn normal(n: usize, seed: u64, deviation: f32, outliers: bool) -> Vec<f32> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        ((s >> 40) as f32 + 0.5) / (1u64 << 24) as f32
    };
    (0..n)
        .map(|i| {
            let x = (-2.0 * uniform().ln()).sqrt() * (std::f32::consts::TAU * uniform()).cos();
            x * deviation * if outliers && i % INPUTS % 131 == 7 { 12.0 } else { 1.0 }
        })
        .collect()
}

fn formats() -> [(Format, GgmlDType); 12] {
    [
        (Format::F16, GgmlDType::F16),
        (Format::BF16, GgmlDType::BF16),
        (Format::Q8_0, GgmlDType::Q8_0),
        (Format::Q4_0, GgmlDType::Q4_0),
        (Format::Q4_1, GgmlDType::Q4_1),
        (Format::Q5_0, GgmlDType::Q5_0),
        (Format::Q5_1, GgmlDType::Q5_1),
        (Format::Q2K, GgmlDType::Q2K),
        (Format::Q3K, GgmlDType::Q3K),
        (Format::Q4K, GgmlDType::Q4K),
        (Format::Q5K, GgmlDType::Q5K),
        (Format::Q6K, GgmlDType::Q6K),
    ]
}

/// The root mean square error relative to that of the exact results.
fn relative(y: &[f32], exact: &[f64]) -> f64 {
    let error: f64 = y.iter().zip(exact).map(|(y, e)| (f64::from(*y) - e).powi(2)).sum();
    (error / exact.iter().map(|e| e * e).sum::<f64>()).sqrt()
}

/// How many rows have their greatest result where the exact one is.
fn top(y: &[f32], exact: &[f64]) -> usize {
    let best = |row: &[f64]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
    let wide: Vec<f64> = y.iter().copied().map(f64::from).collect();
    let rows = wide.chunks_exact(OUTPUTS).zip(exact.chunks_exact(OUTPUTS));
    rows.filter(|(y, exact)| best(y) == best(exact)).count()
}

#[test]
fn weights_are_candles_and_products_no_worse() {
    let pool = Pool::new(2);
    let weights = normal(OUTPUTS * INPUTS, 1, 1.0 / (INPUTS as f32).sqrt(), false);
    let weights = Tensor::from_vec(weights, (OUTPUTS, INPUTS), &Device::Cpu).unwrap();
    let x = normal(ROWS * INPUTS, 2, 1.0, true);
    for (format, dtype) in formats() {
        let packed = QTensor::quantize(&weights, dtype).unwrap();
        let bytes = packed.data().unwrap();
        let matrix = Matrix::pack(format, OUTPUTS, INPUTS, &bytes, &pool).unwrap();
        let plain = packed.dequantize(&Device::Cpu).unwrap();
        let plain = plain.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let mut row = vec![0.0; INPUTS];
        for (i, expected) in plain.chunks_exact(INPUTS).enumerate() {
            matrix.row(i, &mut row);
            assert_eq!(row, expected, "{format}, row {i}");
        }

        let mut exact = Vec::new();
        for x in x.chunks_exact(INPUTS) {
            for w in plain.chunks_exact(INPUTS) {
                exact.push(x.iter().zip(w).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum());
            }
        }
        let mut rows = QuantizedRows::new();
        rows.prepare(&pool, &x, INPUTS, [format]);
        let mut ours = vec![0.0; ROWS * OUTPUTS];
        multiply(&pool, &rows, &mut [(&matrix, &mut ours)]);
        let theirs = QMatMul::from_qtensor(packed).unwrap();
        let theirs = theirs
            .forward(&Tensor::from_slice(&x, (ROWS, INPUTS), &Device::Cpu).unwrap())
            .and_then(|y| y.flatten_all()?.to_vec1::<f32>())
            .unwrap();

        let (mine, other) = (relative(&ours, &exact), relative(&theirs, &exact));
        let (same, others) = (top(&ours, &exact), top(&theirs, &exact));
        println!(
            "{format}: error {mine:.2e}, candle {other:.2e}; top-1 {same}, {others} of {ROWS}"
        );
        assert!(mine <= 1.02 * other + 1e-6, "{format}: error {mine:.3e}, candle {other:.3e}");
        assert!(same + 1 >= others, "{format}: top-1 of {same} rows, candle {others}");
        // 1 − cos ≈ error² / 2.
        assert!(mine * mine / 2.0 < 5e-4, "{format}: cosine {}", 1.0 - mine * mine / 2.0);
    }
}
