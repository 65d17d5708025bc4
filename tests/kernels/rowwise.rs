//! Norms, rotary positions, gates and sums.

use dovetail::kernels::*;

use super::{bits, numbers, pools};

#[test]
fn row_by_row_functions_do_what_they_say_everywhere_alike() {
    let (m, n) = (5, 200);
    let (x, y, weight) = (numbers(m * n, 1), numbers(m * n, 2), numbers(n, 3));
    let angles = numbers(m * 10, 4);
    let (cos, sin): (Vec<f32>, Vec<f32>) = angles.iter().map(|a| (a.cos(), a.sin())).unzip();
    let mut first: Option<Vec<Vec<u32>>> = None;
    for pool in pools() {
        let mut normed = vec![0.0; m * n];
        rms_norm(&pool, &x, &weight, 1e-5, &mut normed);
        let mut turned = x.clone();
        rope(&pool, &mut turned, 20, 20, &cos, &sin);
        let mut gated = x.clone();
        dovetail::kernels::gated(&pool, Activation::Silu, &mut gated, &y);
        let mut sum = x.clone();
        add(&pool, &mut sum, &y);
        let close = |a: f32, b: f64| (f64::from(a) - b).abs() <= 4e-6 * (1.0 + b.abs());
        for r in 0..m {
            let row = &x[r * n..][..n];
            let mean = row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / n as f64;
            for i in 0..n {
                let (at, v) = (r * n + i, f64::from(row[i]));
                assert!(close(normed[at], v / (mean + 1e-5).sqrt() * f64::from(weight[i])));
                assert!(close(gated[at], v / (1.0 + (-v).exp()) * f64::from(y[at])));
                assert_eq!(sum[at], row[i] + y[at]);
                let (head, d) = (i / 20 * 20, i % 20);
                let (c, s) = (f64::from(cos[r * 10 + d % 10]), f64::from(sin[r * 10 + d % 10]));
                let other = f64::from(row[head + (d + 10) % 20]);
                let expected = if d < 10 { v * c - other * s } else { v * c + other * s };
                assert!(close(turned[at], expected));
            }
        }
        let all: Vec<Vec<u32>> = [normed, turned, gated, sum].iter().map(|x| bits(x)).collect();
        assert_eq!(first.get_or_insert_with(|| all.clone()), &all, "{pool:?}");
    }
}

#[test]
fn the_gate_blends() {
    for isa in Isa::ALL {
        let pool = Pool::with_isa(2, isa);
        for n in [1, 16, 33, 9000] {
            let unit = |seed| -> Vec<f32> { numbers(n, seed).iter().map(|x| x / 32.0).collect() };
            let z: Vec<f32> = numbers(n, 6).iter().map(|z| 8.0 * z).collect();
            let (a, b) = (unit(7), unit(8));
            let mut blended = z.clone();
            sigmoid_blend(&pool, &mut blended, &a, &b);
            for i in 0..n {
                let share = 1.0 / (1.0 + (-f64::from(z[i])).exp());
                let exact = share * f64::from(a[i]) + (1.0 - share) * f64::from(b[i]);
                let size = 1.0 + f64::from(a[i].abs().max(b[i].abs()));
                let off = (f64::from(blended[i]) - exact).abs();
                assert!(off < 5e-7 * size, "{isa:?} {i} of {n}: {off}");
            }
        }
    }
}
