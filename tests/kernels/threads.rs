//! More threads than cores, and cores that other programs use: the bits are the same, and the work
//! ends.

use std::sync::atomic::{AtomicBool, Ordering};

use dovetail::kernels::*;

use super::{attend, bits, numbers, product, random_matrix};

/// From a large desktop to a server's socket.
const THREADS: [usize; 5] = [4, 7, 16, 33, 64];

/// Runs `work` while threads that compute nothing useful keep every core busy.
fn with_busy_cores<T>(work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}

/// Products and attention of some rows, repeated on one pool.
fn passes(pool: &Pool) -> Vec<Vec<u32>> {
    const FORMATS: [Format; 4] = [Format::Q4K, Format::Q6K, Format::Q8_0, Format::BF16];
    let (inputs, m) = (256, 3);
    let x = numbers(m * inputs, 7);
    let mut results = Vec::new();
    for format in FORMATS {
        // More tiles than the most threads, and a last tile that is not full.
        let matrix = random_matrix(format, 16 * 70 + 5, inputs, 5, pool);
        let mut once: Option<Vec<u32>> = None;
        for _ in 0..8 {
            let y = bits(&product(pool, &matrix, &x));
            assert_eq!(*once.get_or_insert_with(|| y.clone()), y, "{format}: not twice the same");
        }
        results.extend(once);
    }
    let (heads, dim, prefix) = (4, 32, 150);
    let mut cache = KvCache::new(1, heads, dim, prefix + m, KvFormat::F16).unwrap();
    let width = heads * dim;
    cache.write(pool, 0, &numbers(prefix * width, 1), &numbers(prefix * width, 2));
    cache.commit(pool, &(0..prefix).collect::<Vec<_>>());
    cache.write(pool, 0, &numbers(m * width, 3), &numbers(m * width, 4));
    let mut out = vec![0.0; m * 2 * width];
    let queries = numbers(out.len(), 5);
    attend(pool, &cache, 0, &queries, &TreeMask::causal(m), &mut out);
    results.push(bits(&out));
    results
}

#[test]
fn more_threads_than_cores_give_the_same_bits() {
    let expected = passes(&Pool::with_isa(1, Isa::Portable));
    for threads in THREADS {
        assert!(passes(&Pool::new(threads)) == expected, "{threads} threads");
    }
}

#[test]
fn busy_cores_change_no_bit_and_stop_nobody() {
    let expected = passes(&Pool::with_isa(1, Isa::Portable));
    for threads in [2, 16, 64] {
        let pool = Pool::new(threads);
        assert!(with_busy_cores(|| passes(&pool)) == expected, "{threads} threads");
    }
}

/// Two engines on one machine: each has a pool of more threads than there are cores, and a third
/// pool borrows one of them.
#[test]
fn several_pools_at_once_end() {
    let expected = passes(&Pool::with_isa(1, Isa::Portable));
    let shared = Pool::new(8);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert!(passes(&shared) == expected));
            scope.spawn(|| assert!(passes(&Pool::new(16)) == expected));
        }
    });
}
