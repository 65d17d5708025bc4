//! What families add to attention (a sliding window, a scale, a soft cap, sinks), compared with an
//! obvious implementation in f64 over the full mask, and bit for bit between instruction sets and
//! groupings.

use dovetail::kernels::*;

use super::{bits, numbers, pools};

const HEADS: usize = 4;
const KEY_HEADS: usize = 2;
const DIM: usize = 24;
/// A tree of rows with branches of several lengths.
const PARENTS: [usize; 9] = [0, 0, 1, 2, 0, 4, 3, 6, 7];

/// One option each, several together, and windows that end in the prefix, at a whole vector and
/// inside the tree.
fn options(sinks: &[f32]) -> Vec<AttentionOptions<'_>> {
    let plain = AttentionOptions::default();
    let mut all = vec![
        AttentionOptions { scale: Some(0.5), ..plain },
        AttentionOptions { softcap: Some(2.0), ..plain },
        AttentionOptions { sinks: Some(sinks), ..plain },
    ];
    for window in [1, 2, 4, 16, 17, 30, 1000] {
        all.push(AttentionOptions { window: Some(window), ..plain });
        let together = AttentionOptions {
            scale: Some(0.4),
            softcap: Some(3.0),
            window: Some(window),
            sinks: Some(sinks),
        };
        all.push(together);
    }
    all
}

struct Case {
    prefix: usize,
    keys: Vec<f32>,
    values: Vec<f32>,
    queries: Vec<f32>,
}

impl Case {
    fn new(prefix: usize) -> Self {
        let rows = prefix + PARENTS.len();
        Self {
            prefix,
            keys: numbers(rows * KEY_HEADS * DIM, 1),
            values: numbers(rows * KEY_HEADS * DIM, 2),
            queries: numbers(PARENTS.len() * HEADS * DIM, 3),
        }
    }

    /// The prefix is committed, then the tree's rows from `first` on run as one pass.
    fn run(&self, pool: &Pool, options: &AttentionOptions<'_>) -> Vec<f32> {
        let row = KEY_HEADS * DIM;
        let slots = self.prefix + PARENTS.len();
        let mut cache = KvCache::new(1, KEY_HEADS, DIM, slots, KvFormat::F32).unwrap();
        let at = self.prefix * row;
        cache.write(pool, 0, &self.keys[..at], &self.values[..at]);
        cache.commit(pool, &(0..self.prefix).collect::<Vec<_>>());
        cache.write(pool, 0, &self.keys[at..], &self.values[at..]);
        let mut out = vec![f32::NAN; self.queries.len()];
        let mask = TreeMask::tree(PARENTS);
        attention(pool, std::slice::from_ref(&cache), 0, &self.queries, &mask, options, &mut out);
        out
    }

    /// Head `head` of row `row`, computed in the obvious way.
    fn plainly(&self, row: usize, head: usize, options: &AttentionOptions<'_>) -> Vec<f64> {
        let mask = TreeMask::tree(PARENTS);
        let path = mask.visible(row).iter().map(|&node| self.prefix + node as usize);
        let mut seen: Vec<usize> = (0..self.prefix).chain(path).collect();
        if let Some(window) = options.window {
            seen.drain(..seen.len().saturating_sub(window));
        }
        let kv = head * KEY_HEADS / HEADS;
        let part = |all: &[f32], position: usize| -> Vec<f64> {
            let at = (position * KEY_HEADS + kv) * DIM;
            all[at..at + DIM].iter().map(|&x| f64::from(x)).collect()
        };
        let query = &self.queries[(row * HEADS + head) * DIM..][..DIM];
        let scale = options.scale.map_or(1.0 / (DIM as f64).sqrt(), f64::from);
        let mut total = options.sinks.map_or(0.0, |sinks| f64::from(sinks[head]).exp());
        let mut sum = [0.0; DIM];
        for position in seen {
            let key = part(&self.keys, position);
            let dot: f64 = query.iter().zip(&key).map(|(&q, k)| f64::from(q) * k).sum();
            let mut score = dot * scale;
            if let Some(cap) = options.softcap {
                score = f64::from(cap) * (score / f64::from(cap)).tanh();
            }
            total += score.exp();
            for (sum, value) in sum.iter_mut().zip(part(&self.values, position)) {
                *sum += score.exp() * value;
            }
        }
        sum.iter().map(|sum| sum / total).collect()
    }
}

#[test]
fn every_option_is_what_it_is_over_the_full_mask() {
    let sinks = [0.5, -1.0, 2.0, 0.0];
    let pool = Pool::new(2);
    for prefix in [0, 3, 16, 37, 64] {
        let case = Case::new(prefix);
        for options in options(&sinks) {
            let out = case.run(&pool, &options);
            for row in 0..PARENTS.len() {
                for head in 0..HEADS {
                    let found = &out[(row * HEADS + head) * DIM..][..DIM];
                    for (found, expected) in found.iter().zip(case.plainly(row, head, &options)) {
                        let off = (f64::from(*found) - expected).abs();
                        assert!(
                            off < 1e-5,
                            "prefix {prefix}, row {row}, {options:?}: off by {off}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn every_option_gives_the_same_bits_on_every_instruction_set_and_thread_count() {
    let sinks = [0.5, -1.0, 2.0, 0.0];
    for prefix in [5, 40] {
        let case = Case::new(prefix);
        for options in options(&sinks) {
            let expected = case.run(&Pool::with_isa(1, Isa::Portable), &options);
            for pool in pools() {
                let out = case.run(&pool, &options);
                assert_eq!(bits(&out), bits(&expected), "{pool:?}, prefix {prefix}, {options:?}");
            }
        }
    }
}
