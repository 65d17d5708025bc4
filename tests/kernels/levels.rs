//! What drafting needs of the kernels: tree levels that run in separate passes, and the gate.

use dovetail::kernels::*;

use super::attend;

const HEADS: usize = 2;
const DIM: usize = 20;
const WIDTH: usize = HEADS * DIM;

fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed | 1;
    let next = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..n).map(next).collect()
}

/// A cache with `len` committed positions.
fn cache(pool: &Pool, len: usize) -> KvCache {
    let mut cache = KvCache::new(1, HEADS, DIM, 100, KvFormat::F32).unwrap();
    cache.write(pool, 0, &numbers(len * WIDTH, 1), &numbers(len * WIDTH, 2));
    cache.commit(pool, &(0..len).collect::<Vec<_>>());
    cache
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
    let rows = parents.len();
    let (queries, keys, values) =
        (numbers(2 * rows * WIDTH, 3), numbers(rows * WIDTH, 4), numbers(rows * WIDTH, 5));
    for len in [0, 1, 15, 16, 37] {
        let mut at_once = vec![0.0; 2 * rows * WIDTH];
        let mut whole = cache(&pool, len);
        whole.write(&pool, 0, &keys, &values);
        attend(&pool, &whole, 0, &queries, &whole_tree, &mut at_once);

        let mut by_level = vec![0.0; 2 * rows * WIDTH];
        let mut grown = cache(&pool, len);
        for level in &levels {
            let ancestors: Vec<Vec<usize>> = level
                .clone()
                .map(|row| whole_tree.visible(row).iter().map(|&node| node as usize))
                .map(|path| path.filter(|node| !level.contains(node)).collect())
                .collect();
            let mask = TreeMask::level(level.start, ancestors.iter().map(Vec::as_slice));
            assert_eq!((mask.first(), mask.len()), (level.start, level.len()));
            let at = level.start * WIDTH..level.end * WIDTH;
            grown.write_behind(&pool, 0, level.start, &keys[at.clone()], &values[at]);
            let at = 2 * level.start * WIDTH..2 * level.end * WIDTH;
            attend(&pool, &grown, 0, &queries[at.clone()], &mask, &mut by_level[at]);
        }
        assert!(at_once.iter().all(|x| x.is_finite()));
        assert_eq!(at_once, by_level, "{len} committed");
    }
}

#[test]
fn the_gate_blends() {
    for isa in Isa::ALL {
        let pool = Pool::with_isa(2, isa);
        for n in [1, 16, 33, 9000] {
            let (z, a, b) = (numbers(n, 6), numbers(n, 7), numbers(n, 8));
            let mut blended: Vec<f32> = z.iter().map(|z| 30.0 * z).collect();
            sigmoid_blend(&pool, &mut blended, &a, &b);
            for i in 0..n {
                let share = 1.0 / (1.0 + (-30.0 * f64::from(z[i])).exp());
                let exact = share * f64::from(a[i]) + (1.0 - share) * f64::from(b[i]);
                assert!((f64::from(blended[i]) - exact).abs() < 1e-6, "{isa:?} {i} of {n}");
            }
        }
    }
}
