//! Two pools on the same cores. The borrowing pool uses the lender's threads while only one of the
//! two has work, and takes some of the cores for itself while both work at the same time. This file
//! deals with threads, not with what they compute.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::pool::Pool;

impl Pool {
    /// A pool that normally works on all threads of `lender`. While the guard returned by
    /// [`Self::work_apart`] lives, it works on `threads` threads of its own (at least one: the
    /// caller), and `lender` gives up as many (but keeps at least one).
    pub fn borrowing(lender: Arc<Self>, threads: usize) -> Self {
        let mut pool = Self::with_isa(threads, lender.isa());
        // Its own threads stay parked until it works apart.
        pool.keep_to(1);
        pool.lender = Some(lender);
        pool
    }

    /// Separates this pool from its lender until the returned guard is dropped. Only one thread may
    /// call it at a time. It does nothing if the pool has no lender or is already separate.
    #[must_use = "the pool works apart until this is dropped"]
    pub fn work_apart(&self) -> Apart<'_> {
        let parted = self.lender.as_deref().filter(|_| !self.apart.swap(true, Ordering::SeqCst));
        if let Some(lender) = parted {
            let threads = self.own_threads();
            lender.keep_to(lender.own_threads().saturating_sub(threads).max(1));
            self.keep_to(threads);
        }
        Apart { pool: self, lender: parted }
    }
}

/// While this guard lives, a pool and its lender each keep to their own cores.
#[derive(Debug)]
pub struct Apart<'a> {
    pool: &'a Pool,
    /// `None` if this guard separated nothing.
    lender: Option<&'a Pool>,
}

impl Drop for Apart<'_> {
    fn drop(&mut self) {
        if let Some(lender) = self.lender {
            // Park our own threads before the lender's return to the same cores.
            self.pool.keep_to(1);
            self.pool.apart.store(false, Ordering::SeqCst);
            lender.keep_to(lender.own_threads());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Barrier, Mutex};
    use std::thread::ThreadId;
    use std::time::Duration;

    /// The ids of `threads` threads of `pool`: each task waits until every thread has taken one.
    fn gather(pool: &Pool, threads: usize) -> HashSet<ThreadId> {
        let seen = Mutex::new(HashSet::new());
        let all = Barrier::new(threads);
        pool.run(threads, |_| {
            seen.lock().unwrap().insert(std::thread::current().id());
            all.wait();
        });
        seen.into_inner().unwrap()
    }

    /// The threads that take part in a job with enough work for all of them.
    fn takers(pool: &Pool) -> HashSet<ThreadId> {
        let seen = Mutex::new(HashSet::new());
        pool.run(64, |_| {
            seen.lock().unwrap().insert(std::thread::current().id());
            std::thread::sleep(Duration::from_micros(100));
        });
        seen.into_inner().unwrap()
    }

    #[test]
    fn a_borrowing_pool_uses_the_lenders_threads_and_apart_its_own() {
        let lender = Arc::new(Pool::new(4));
        let pool = Pool::borrowing(Arc::clone(&lender), 2);
        assert_eq!((pool.threads(), pool.own_threads()), (4, 2));
        let all = gather(&lender, 4);
        assert_eq!(gather(&pool, 4), all);
        for _ in 0..3 {
            let apart = pool.work_apart();
            assert_eq!((lender.threads(), pool.threads()), (2, 2));
            let of_lender = gather(&lender, 2);
            let own = gather(&pool, 2);
            assert!(of_lender.is_subset(&all) && takers(&lender).is_subset(&of_lender));
            assert!(takers(&pool).is_subset(&own));
            // The caller takes part in both, and here it is the same thread.
            assert_eq!(own.intersection(&all).count(), 1);
            // A second guard changes nothing, and dropping it changes nothing either.
            drop(pool.work_apart());
            assert_eq!((lender.threads(), pool.threads()), (2, 2));
            drop(apart);
            assert_eq!((lender.threads(), pool.threads()), (4, 4));
            assert_eq!(gather(&pool, 4), all);
        }
    }

    #[test]
    fn both_keep_at_least_one_thread() {
        let lender = Arc::new(Pool::new(1));
        let pool = Pool::borrowing(Arc::clone(&lender), 3);
        let _apart = pool.work_apart();
        assert_eq!((lender.threads(), pool.threads()), (1, 3));
        drop(Pool::new(2).work_apart());
    }

    #[test]
    fn no_task_is_lost_when_pools_separate_and_join() {
        let lender = Arc::new(Pool::new(2));
        let pool = Pool::borrowing(Arc::clone(&lender), 2);
        let count = AtomicUsize::new(0);
        let work = |pool: &Pool, rounds: usize| {
            for i in 0..rounds {
                // Pause now and then, long enough for the workers to park.
                if i % 50 == 0 {
                    std::thread::sleep(Duration::from_micros(400));
                }
                pool.run(5, |_| {
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| work(&lender, 1500));
            scope.spawn(|| {
                for _ in 0..100 {
                    let apart = pool.work_apart();
                    work(&pool, 10);
                    drop(apart);
                    work(&pool, 5);
                }
            });
        });
        assert_eq!(count.load(Ordering::Relaxed), 5 * (1500 + 100 * 15));
    }
}
