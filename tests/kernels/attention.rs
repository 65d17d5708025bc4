//! Attention: the prefix, then the path, in that order everywhere.

use dovetail::kernels::*;

use super::{attend, bits, numbers, pools};

/// A tree of 14 rows with branches of several lengths, and its longest path.
const PARENTS: [usize; 14] = [0, 0, 0, 1, 1, 3, 2, 5, 7, 6, 8, 10, 11, 12];
const LONGEST: [usize; 9] = [0, 1, 3, 5, 7, 8, 10, 11, 12];

struct Heads {
    query: usize,
    key: usize,
    dim: usize,
}

/// Attention computed in the obvious way, in f64, over the positions in `seen`.
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
    attend(pool, &cache, 1, &numbers(m * q, 5), &TreeMask::tree(PARENTS), &mut out);
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
            let mask = TreeMask::tree(PARENTS);
            for row in 0..m {
                keys.truncate(prefix);
                values.truncate(prefix);
                for &node in mask.visible(row) {
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
                attend(&pool, &plain, 1, query, &TreeMask::causal(1), &mut alone);
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
                attend(&pool, cache, 1, &numbers(q, 10), &TreeMask::causal(1), &mut out);
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
            attend(&pool, &cache, 0, queries, &TreeMask::causal(m), &mut out);
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
        attend(&pool, &cache, 0, &queries, &TreeMask::tree(parents), &mut whole);
        let mut cache = filled();
        for level in [0..1, 1..3, 3..6] {
            let first = level.start;
            let part = level.start * k..level.end * k;
            cache.write_behind(&pool, 0, first, &keys[part.clone()], &values[part]);
            let mask = TreeMask::level(first, ancestors[level.clone()].iter().copied());
            let part = level.start * q..level.end * q;
            let mut out = vec![0.0; part.len()];
            attend(&pool, &cache, 0, &queries[part.clone()], &mask, &mut out);
            assert_eq!(bits(&out), bits(&whole[part]), "rows {level:?} behind {prefix}");
        }
    }
}
