//! Attention: the prefix, then the path, in that order everywhere, with what families add to it (a
//! sliding window, a scale, a soft cap, sinks): compared with an obvious implementation in f64 over
//! the full mask, and bit for bit between instruction sets and groupings.

use dovetail::kernels::*;

use super::{attend, bits, numbers, pools};

/// A tree of 14 rows with branches of several lengths, and its longest path.
const PARENTS: [usize; 14] = [0, 0, 0, 1, 1, 3, 2, 5, 7, 6, 8, 10, 11, 12];
const LONGEST: [usize; 9] = [0, 1, 3, 5, 7, 8, 10, 11, 12];
const ROWS: usize = PARENTS.len();

#[derive(Clone, Copy, Debug)]
struct Heads {
    query: usize,
    key: usize,
    dim: usize,
}

const HEADS: [Heads; 5] = [
    Heads { query: 4, key: 4, dim: 128 },
    Heads { query: 6, key: 2, dim: 64 },
    Heads { query: 8, key: 1, dim: 80 },
    Heads { query: 2, key: 2, dim: 40 },
    Heads { query: 3, key: 3, dim: 20 },
];

/// The heads with which every option is tried.
const FEW: Heads = Heads { query: 4, key: 2, dim: 24 };
const SINKS: [f32; 4] = [0.5, -1.0, 2.0, 0.0];

/// One option each, several together, and windows that end in the prefix, at a whole vector and
/// inside the tree.
fn options() -> Vec<AttentionOptions<'static>> {
    let plain = AttentionOptions::default();
    let sinks = Some(&SINKS[..]);
    let mut all = vec![
        plain,
        AttentionOptions { scale: Some(0.5), ..plain },
        AttentionOptions { softcap: Some(2.0), ..plain },
        AttentionOptions { sinks, ..plain },
    ];
    for window in [1, 2, 4, 16, 17, 30, 1000].map(Some) {
        all.push(AttentionOptions { window, ..plain });
        let (scale, softcap) = (Some(0.4), Some(3.0));
        all.push(AttentionOptions { scale, softcap, window, sinks });
    }
    all
}

/// Rows of a prefix, then those of the tree.
struct Case {
    heads: Heads,
    prefix: usize,
    keys: Vec<f32>,
    values: Vec<f32>,
    queries: Vec<f32>,
}

impl Case {
    fn new(heads: Heads, prefix: usize) -> Self {
        let width = (prefix + ROWS) * heads.key * heads.dim;
        let queries = numbers(ROWS * heads.query * heads.dim, 3);
        Self { heads, prefix, keys: numbers(width, 1), values: numbers(width, 2), queries }
    }

    /// A cache with the prefix, which is committed.
    fn cache(&self, pool: &Pool, format: KvFormat) -> KvCache {
        let Heads { key, dim, .. } = self.heads;
        let mut cache = KvCache::new(2, key, dim, self.prefix + ROWS, format).unwrap();
        let at = self.prefix * key * dim;
        cache.write(pool, 1, &self.keys[..at], &self.values[..at]);
        cache.commit(pool, &(0..self.prefix).collect::<Vec<_>>());
        cache
    }

    /// The tree's rows in one pass.
    fn run(
        &self,
        pool: &Pool,
        format: KvFormat,
        options: &AttentionOptions<'_>,
    ) -> (KvCache, Vec<f32>) {
        let mut cache = self.cache(pool, format);
        let at = self.prefix * self.heads.key * self.heads.dim;
        cache.write(pool, 1, &self.keys[at..], &self.values[at..]);
        let mut out = vec![f32::NAN; self.queries.len()];
        let mask = TreeMask::tree(PARENTS);
        attention(pool, std::slice::from_ref(&cache), 1, &self.queries, &mask, options, &mut out);
        (cache, out)
    }

    /// Head `head` of row `row` over the numbers in `cache`, computed in the obvious way.
    fn plainly(
        &self,
        cache: &[(Vec<f32>, Vec<f32>)],
        row: usize,
        head: usize,
        options: &AttentionOptions<'_>,
    ) -> Vec<f64> {
        let Heads { query, key, dim } = self.heads;
        let mask = TreeMask::tree(PARENTS);
        let path = mask.visible(row).iter().map(|&node| self.prefix + node as usize);
        let mut seen: Vec<usize> = (0..self.prefix).chain(path).collect();
        if let Some(window) = options.window {
            seen.drain(..seen.len().saturating_sub(window));
        }
        let part = |all: &[f32]| -> Vec<f64> {
            let at = head * key / query * dim;
            all[at..at + dim].iter().map(|&x| f64::from(x)).collect()
        };
        let q = &self.queries[(row * query + head) * dim..][..dim];
        let scale = options.scale.map_or(1.0 / (dim as f64).sqrt(), f64::from);
        let mut total = options.sinks.map_or(0.0, |sinks| f64::from(sinks[head]).exp());
        let mut sum = vec![0.0; dim];
        for position in seen {
            let dot: f64 =
                q.iter().zip(part(&cache[position].0)).map(|(&q, k)| f64::from(q) * k).sum();
            let mut score = dot * scale;
            if let Some(cap) = options.softcap {
                score = f64::from(cap) * (score / f64::from(cap)).tanh();
            }
            total += score.exp();
            for (sum, value) in sum.iter_mut().zip(part(&cache[position].1)) {
                *sum += score.exp() * value;
            }
        }
        sum.iter().map(|sum| sum / total).collect()
    }
}

/// Every option with few heads, and no option with every number of heads.
fn cases(prefixes: &[usize]) -> Vec<(Case, AttentionOptions<'static>)> {
    let mut all = Vec::new();
    for &prefix in prefixes {
        all.extend(options().into_iter().map(|options| (Case::new(FEW, prefix), options)));
        all.extend(HEADS.map(|heads| (Case::new(heads, prefix), AttentionOptions::default())));
    }
    all
}

#[test]
fn every_option_is_what_it_is_over_the_full_mask() {
    let pool = Pool::new(2);
    let formats = KvFormat::ALL.map(|format| (format, [0, 1, 3, 16, 37, 64, 270]));
    for (format, prefixes) in formats {
        for (case, options) in cases(&prefixes) {
            let Heads { query, dim, .. } = case.heads;
            let (cache, out) = case.run(&pool, format, &options);
            let rows: Vec<_> = (0..case.prefix + ROWS).map(|slot| cache.row(1, slot)).collect();
            // Sums of floats are off in proportion to their largest part.
            let most = 2e-6 * f64::from(case.values.iter().fold(0f32, |most, x| most.max(x.abs())));
            for (at, found) in out.chunks_exact(dim).enumerate() {
                let (row, head) = (at / query, at % query);
                let expected = case.plainly(&rows, row, head, &options);
                for (found, expected) in found.iter().zip(expected) {
                    let off = (f64::from(*found) - expected).abs();
                    let what = (case.prefix, case.heads);
                    assert!(off < most, "{format:?} {what:?}, row {row}: {off}");
                }
            }
        }
    }
}

#[test]
fn every_option_gives_the_same_bits_on_every_instruction_set_and_thread_count() {
    let portable = Pool::with_isa(1, Isa::Portable);
    for (case, options) in cases(&[0, 5, 16, 40, 150, 263]) {
        for format in KvFormat::ALL {
            let (_, expected) = case.run(&portable, format, &options);
            for pool in pools() {
                let (_, out) = case.run(&pool, format, &options);
                let what = (case.prefix, case.heads);
                assert_eq!(bits(&out), bits(&expected), "{pool:?}, {what:?}, {options:?}");
            }
        }
    }
}

#[test]
fn a_tree_node_and_the_same_token_in_plain_decoding_agree_in_every_bit() {
    let pool = Pool::new(2);
    for heads in HEADS {
        let prefixes = [0, 11, 64, 250];
        for (prefix, format) in prefixes.into_iter().flat_map(|n| KvFormat::ALL.map(|f| (n, f))) {
            let (k, q) = (heads.key * heads.dim, heads.query * heads.dim);
            let case = Case::new(heads, prefix);
            let (mut tree, out) = case.run(&pool, format, &AttentionOptions::default());
            let mut plain = case.cache(&pool, format);
            for &row in &LONGEST {
                let one = (prefix + row) * k..(prefix + row + 1) * k;
                plain.write(&pool, 1, &case.keys[one.clone()], &case.values[one]);
                let mut alone = vec![0.0; q];
                let query = &case.queries[row * q..][..q];
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
    let (k, q, n) = (128, 256, 100);
    let (keys, values, queries) = (numbers(n * k, 1), numbers(n * k, 2), numbers(n * q, 3));
    let run = |part: usize| {
        let mut cache = KvCache::new(1, 2, 64, n, KvFormat::F16).unwrap();
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

/// A row's attention is the same whether its tree ran at once or level by level.
#[test]
fn levels_one_by_one_give_the_bits_of_the_whole_tree() {
    let pool = Pool::new(2);
    // Below a root: two children, then three grandchildren, then two more; the last level extends
    // beyond one tile of 16 after the earlier rows.
    let parents: Vec<usize> =
        [0, 0, 0, 1, 2, 2, 3, 5].into_iter().chain(std::iter::repeat_n(7, 20)).collect();
    let levels = [0..1, 1..3, 3..6, 6..8, 8..28];
    let whole_tree = TreeMask::tree(parents.iter().copied());
    let (rows, k, q) = (parents.len(), 40, 80);
    let (queries, keys, values) =
        (numbers(rows * q, 3), numbers(rows * k, 4), numbers(rows * k, 5));
    for (len, format) in
        [0, 1, 15, 16, 37].into_iter().flat_map(|len| KvFormat::ALL.map(|format| (len, format)))
    {
        let filled = || {
            let mut cache = KvCache::new(1, 2, 20, 100, format).unwrap();
            cache.write(&pool, 0, &numbers(len * k, 1), &numbers(len * k, 2));
            cache.commit(&pool, &(0..len).collect::<Vec<_>>());
            cache
        };
        let mut at_once = vec![0.0; rows * q];
        let mut whole = filled();
        whole.write(&pool, 0, &keys, &values);
        attend(&pool, &whole, 0, &queries, &whole_tree, &mut at_once);

        let mut by_level = vec![0.0; rows * q];
        let mut grown = filled();
        for level in &levels {
            let ancestors: Vec<Vec<usize>> = level
                .clone()
                .map(|row| whole_tree.visible(row).iter().map(|&node| node as usize))
                .map(|path| path.filter(|node| !level.contains(node)).collect())
                .collect();
            let mask = TreeMask::level(level.start, ancestors.iter().map(Vec::as_slice));
            assert_eq!((mask.first(), mask.len()), (level.start, level.len()));
            let at = level.start * k..level.end * k;
            let caches = std::slice::from_mut(&mut grown);
            KvCache::write_each(&pool, caches, 0, level.start, &keys[at.clone()], &values[at]);
            let at = level.start * q..level.end * q;
            attend(&pool, &grown, 0, &queries[at.clone()], &mask, &mut by_level[at]);
        }
        assert!(at_once.iter().all(|x| x.is_finite()));
        assert_eq!(at_once, by_level, "{len} committed");
    }
}
