//! Runs one product repeatedly, for `count.sh`: `product FORMAT TIMES` with one row, 16 outputs and
//! 1,024 columns, on the instruction set named by `DOVETAIL_ISA`.

use dovetail::kernels::*;

fn main() {
    let mut args = std::env::args().skip(1);
    let (format, times) = (args.next().unwrap(), args.next().unwrap().parse().unwrap());
    let format = Format::ALL.into_iter().find(|known| known.to_string() == format).unwrap();
    let pool = Pool::new(1);
    let rows: Vec<Vec<u8>> = (5..21).map(|seed| random_row(format, 1024, seed)).collect();
    let matrix = Matrix::pack(format, 16, 1024, &rows.concat(), &pool).unwrap();
    let x: Vec<f32> = (0..1024).map(|i| (i % 17) as f32 - 8.0).collect();
    let mut rows = QuantizedRows::new();
    rows.prepare(&pool, &x, 1024, [format]);
    let mut y = vec![0.0; 16];
    for _ in 0..times {
        multiply(&pool, &rows, &mut [(&matrix, &mut y)]);
    }
    assert!(y.iter().any(|y| *y != 0.0));
}
