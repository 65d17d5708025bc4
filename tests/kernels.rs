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

/// Every pool that must agree, one or several threads on each instruction set.
fn pools() -> Vec<Pool> {
    Isa::ALL.into_iter().flat_map(|isa| [1, 3].map(|n| Pool::with_isa(n, isa))).collect()
}

#[test]
fn a_row_is_the_same_alone_and_among_others() {
    let pool = Pool::new(2);
    for format in Format::ALL {
        let inputs = *widths(format).last().unwrap();
        let matrix = Matrix::random(format, 50, inputs, 3, &pool).unwrap();
        let x = numbers(64 * inputs, 1);
        let alone: Vec<Vec<f32>> =
            x.chunks_exact(inputs).map(|row| product(&pool, &matrix, row)).collect();
        for m in 1..=64 {
            // The rows of a batch of m end where the batch of 64 ends: other company each time.
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
        .map(|(i, format)| Matrix::random(format, 16 + 30 * i, 512, 2, &pool).unwrap())
        .collect();
    let mut rows = Rows::new();
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
    assert_eq!(error, "rows of 100 weights cannot be Q4_K: its blocks hold 256");
    let error = Matrix::pack(Format::Q8_0, 2, 64, &[0; 10], &pool).unwrap_err().to_string();
    assert!(error.starts_with("10 bytes for a Q8_0 matrix of 2 × 64, which takes 136"), "{error}");
}

#[test]
fn rows_may_come_in_any_order_and_weights_are_held_once() {
    let pool = Pool::new(2);
    for format in Format::ALL {
        let row = format.row_bytes(512).unwrap();
        let bytes: Vec<u8> = (0..40).flat_map(|i| vec![i as u8 ^ 0x15; row]).collect();
        let plain = Matrix::pack(format, 40, 512, &bytes, &pool).unwrap();
        let turned =
            Matrix::pack_rows(format, 40, 512, |i| &bytes[(39 - i) * row..][..row], &pool).unwrap();
        let (mut a, mut b) = (vec![0.0; 512], vec![0.0; 512]);
        for i in 0..40 {
            plain.row(i, &mut a);
            turned.row(39 - i, &mut b);
            assert_eq!(bits(&a), bits(&b), "{format}");
        }
        // 48 rows in whole tiles.
        assert!(plain.bytes() as f64 <= 1.03 * (48 * row) as f64, "{format}: {}", plain.bytes());
    }
}

/// A tree of 14 rows with branches of several lengths, and its longest path.
const PARENTS: [usize; 14] = [0, 0, 0, 1, 1, 3, 2, 5, 7, 6, 8, 10, 11, 12];
const LONGEST: [usize; 9] = [0, 1, 3, 5, 7, 8, 10, 11, 12];

struct Heads {
    query: usize,
    key: usize,
    dim: usize,
}

/// Attention written plainly, in f64, over the positions in `seen`.
fn plain_attention(q: &[f32], keys: &[Vec<f32>], values: &[Vec<f32>], heads: &Heads) -> Vec<f64> {
    let mut out = Vec::new();
    for h in 0..heads.query {
        let kv =
            h * heads.key / heads.query * heads.dim..(h * heads.key / heads.query + 1) * heads.dim;
        let q = &q[h * heads.dim..(h + 1) * heads.dim];
        let scores: Vec<f64> = keys
            .iter()
            .map(|k| {
                let dot: f64 =
                    q.iter().zip(&k[kv.clone()]).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                (dot / (heads.dim as f64).sqrt()).exp()
            })
            .collect();
        let total: f64 = scores.iter().sum();
        for d in kv {
            out.push(
                scores.iter().zip(values).map(|(s, v)| s * f64::from(v[d])).sum::<f64>() / total,
            );
        }
    }
    out
}

/// Prefills `prefix` rows in one pass, then runs the tree; returns the tree's results.
fn tree_pass(pool: &Pool, heads: &Heads, prefix: usize, format: KvFormat) -> (KvCache, Vec<f32>) {
    let (k, q) = (heads.key * heads.dim, heads.query * heads.dim);
    let m = PARENTS.len();
    let mut cache = KvCache::new(2, heads.key, heads.dim, prefix + m, format).unwrap();
    cache.write(pool, 1, &numbers(prefix * k, 1), &numbers(prefix * k, 2));
    cache.commit(pool, &(0..prefix).collect::<Vec<_>>());
    cache.write(pool, 1, &numbers(m * k, 3), &numbers(m * k, 4));
    let mut out = vec![f32::NAN; m * q];
    attention(pool, &cache, 1, &numbers(m * q, 5), &Paths::tree(PARENTS), &mut out);
    (cache, out)
}

const HEADS: [Heads; 4] = [
    Heads { query: 4, key: 4, dim: 128 },
    Heads { query: 6, key: 2, dim: 64 },
    Heads { query: 8, key: 1, dim: 80 },
    Heads { query: 3, key: 3, dim: 20 },
];

#[test]
fn attention_weighs_the_prefix_and_the_path() {
    let pool = Pool::new(2);
    for heads in &HEADS {
        for prefix in [0, 1, 16, 37] {
            let (k, q) = (heads.key * heads.dim, heads.query * heads.dim);
            let m = PARENTS.len();
            let rows =
                |x: Vec<f32>| -> Vec<Vec<f32>> { x.chunks_exact(k).map(<[f32]>::to_vec).collect() };
            let mut keys = rows(numbers(prefix * k, 1));
            let mut values = rows(numbers(prefix * k, 2));
            let (tree_keys, tree_values) = (rows(numbers(m * k, 3)), rows(numbers(m * k, 4)));
            let queries = numbers(m * q, 5);
            let (_, out) = tree_pass(&pool, heads, prefix, KvFormat::F32);
            let paths = Paths::tree(PARENTS);
            for row in 0..m {
                keys.truncate(prefix);
                values.truncate(prefix);
                for &node in paths.of(row) {
                    keys.push(tree_keys[node as usize].clone());
                    values.push(tree_values[node as usize].clone());
                }
                let expected = plain_attention(&queries[row * q..][..q], &keys, &values, heads);
                for (got, expected) in out[row * q..][..q].iter().zip(&expected) {
                    let error = (f64::from(*got) - expected).abs();
                    assert!(error < 1e-5, "row {row}, prefix {prefix}: {got} for {expected}");
                }
            }
        }
    }
}

#[test]
fn attention_is_the_same_on_every_instruction_set_and_thread_count() {
    for heads in &HEADS {
        for prefix in [0, 5, 16, 150] {
            for format in [KvFormat::F16, KvFormat::F32] {
                let portable = Pool::with_isa(1, Isa::Portable);
                let (_, expected) = tree_pass(&portable, heads, prefix, format);
                for pool in pools() {
                    let (_, out) = tree_pass(&pool, heads, prefix, format);
                    assert_eq!(bits(&out), bits(&expected), "{pool:?}, prefix {prefix}");
                }
            }
        }
    }
}

#[test]
fn a_tree_node_and_the_same_token_in_plain_decoding_agree_in_every_bit() {
    let pool = Pool::new(2);
    for heads in &HEADS {
        for (prefix, format) in [(0, KvFormat::F32), (11, KvFormat::F16), (64, KvFormat::F16)] {
            let (k, q) = (heads.key * heads.dim, heads.query * heads.dim);
            let m = PARENTS.len();
            let (mut tree, out) = tree_pass(&pool, heads, prefix, format);
            let (keys, values) = (numbers(m * k, 3), numbers(m * k, 4));
            let queries = numbers(m * q, 5);
            let mut plain = KvCache::new(2, heads.key, heads.dim, prefix + m, format).unwrap();
            plain.write(&pool, 1, &numbers(prefix * k, 1), &numbers(prefix * k, 2));
            plain.commit(&pool, &(0..prefix).collect::<Vec<_>>());
            for &row in &LONGEST {
                let one = row * k..(row + 1) * k;
                plain.write(&pool, 1, &keys[one.clone()], &values[one]);
                let mut alone = vec![0.0; q];
                let query = &queries[row * q..][..q];
                attention(&pool, &plain, 1, query, &Paths::chain(1), &mut alone);
                assert_eq!(bits(&alone), bits(&out[row * q..][..q]), "row {row} after {prefix}");
                plain.commit(&pool, &[0]);
            }
            // The committed path is the plain cache: a next row sees the same.
            tree.commit(&pool, &LONGEST);
            assert_eq!(tree.len(), plain.len());
            let mut last = Vec::new();
            for cache in [&mut tree, &mut plain] {
                cache.write(&pool, 1, &numbers(k, 8), &numbers(k, 9));
                let mut out = vec![0.0; q];
                attention(&pool, cache, 1, &numbers(q, 10), &Paths::chain(1), &mut out);
                last.push(bits(&out));
            }
            assert_eq!(last[0], last[1]);
        }
    }
}

#[test]
fn a_prompt_in_parts_or_at_once_gives_the_same_rows() {
    let pool = Pool::new(2);
    let heads = Heads { query: 4, key: 2, dim: 64 };
    let (k, q, n) = (128, 256, 100);
    let (keys, values, queries) = (numbers(n * k, 1), numbers(n * k, 2), numbers(n * q, 3));
    let run = |part: usize| {
        let mut cache = KvCache::new(1, heads.key, heads.dim, n, KvFormat::F16).unwrap();
        let mut all = Vec::new();
        for start in (0..n).step_by(part) {
            let m = part.min(n - start);
            cache.write(&pool, 0, &keys[start * k..][..m * k], &values[start * k..][..m * k]);
            let mut out = vec![0.0; m * q];
            let queries = &queries[start * q..][..m * q];
            attention(&pool, &cache, 0, queries, &Paths::chain(m), &mut out);
            cache.commit(&pool, &(0..m).collect::<Vec<_>>());
            all.extend(out);
        }
        bits(&all)
    };
    let whole = run(n);
    for part in [1, 7, 64] {
        assert_eq!(run(part), whole, "parts of {part}");
    }
}

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
        rope(&pool, &mut turned, 20, &cos, &sin);
        let mut gated = x.clone();
        silu_mul(&pool, &mut gated, &y);
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
fn a_tree_run_level_by_level_is_the_tree_run_at_once() {
    let pool = Pool::new(2);
    let heads = Heads { query: 4, key: 2, dim: 64 };
    let (k, q) = (heads.key * heads.dim, heads.query * heads.dim);
    // Rows 0 | 1, 2 | 3, 4, 5 with the parents of a tree.
    let parents = [0, 0, 0, 1, 1, 2];
    let ancestors: [&[usize]; 6] = [&[], &[0], &[0], &[0, 1], &[0, 1], &[0, 2]];
    let (keys, values, queries) = (numbers(6 * k, 1), numbers(6 * k, 2), numbers(6 * q, 3));
    for prefix in [0, 13, 30] {
        let filled = || {
            let mut cache = KvCache::new(1, heads.key, heads.dim, 40, KvFormat::F16).unwrap();
            cache.write(&pool, 0, &numbers(prefix * k, 4), &numbers(prefix * k, 5));
            cache.commit(&pool, &(0..prefix).collect::<Vec<_>>());
            cache
        };
        let mut cache = filled();
        cache.write(&pool, 0, &keys, &values);
        let mut whole = vec![0.0; 6 * q];
        attention(&pool, &cache, 0, &queries, &Paths::tree(parents), &mut whole);
        let mut cache = filled();
        for level in [0..1, 1..3, 3..6] {
            let first = level.start;
            let part = level.start * k..level.end * k;
            cache.write_behind(&pool, 0, first, &keys[part.clone()], &values[part]);
            let paths = Paths::level(first, ancestors[level.clone()].iter().copied());
            let part = level.start * q..level.end * q;
            let mut out = vec![0.0; part.len()];
            attention(&pool, &cache, 0, &queries[part.clone()], &paths, &mut out);
            assert_eq!(bits(&out), bits(&whole[part]), "rows {level:?} behind {prefix}");
        }
    }
}

/// Numbers that overflow or are none must not come out as good ones.
#[test]
fn what_is_no_number_stays_none() {
    let pool = Pool::new(2);
    for format in Format::ALL {
        let inputs = 512;
        let matrix = Matrix::random(format, 20, inputs, 3, &pool).unwrap();
        for bad in [f32::NAN, f32::INFINITY] {
            let mut x = numbers(2 * inputs, 5);
            x[300] = bad;
            let y = product(&pool, &matrix, &x);
            assert!(y[..20].iter().all(|v| !v.is_finite()), "{format} of {bad}");
            assert!(y[20..].iter().all(|v| v.is_finite()), "{format}: another row");
        }
    }
}
