//! Cores shared out: one pool that borrows the threads of another while the two take turns, and
//! works apart from it, each on its own part of the cores, while both are at work.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::pool::Pool;

impl Pool {
    /// A pool for one who takes turns with `lender`'s owner and at times works beside it. In turn
    /// its work is done by all threads of `lender`. Between [`Self::work_apart`] and the end of
    /// what that returns it is done by `threads` threads of its own (at least one: the caller),
    /// and `lender` keeps to as many fewer (at least one).
    pub fn borrowing(lender: Arc<Self>, threads: usize) -> Self {
        let mut pool = Self::with_isa(threads, lender.isa());
        // Until it works apart its own threads are parked.
        pool.keep_to(1);
        pool.lender = Some(lender);
        pool
    }

    /// Threads that this pool works on apart from its lender; `None` if it has none.
    pub fn threads_apart(&self) -> Option<usize> {
        self.lender.is_some().then(|| self.own_threads())
    }

    /// Parts this pool from its lender until the returned value is dropped. For one thread at a
    /// time: it does nothing for a pool without a lender, or one that works apart already.
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

/// While it lives, a pool and its lender each keep to their own cores.
#[derive(Debug)]
pub struct Apart<'a> {
    pool: &'a Pool,
    /// `None` if there was nothing to part from.
    lender: Option<&'a Pool>,
}

impl Drop for Apart<'_> {
    fn drop(&mut self) {
        if let Some(lender) = self.lender {
            // Its own threads park before the lender's come back to the same cores.
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

    /// The ids of `threads` threads of `pool`: each task waits until all have one.
    fn gather(pool: &Pool, threads: usize) -> HashSet<ThreadId> {
        let (seen, all) = (Mutex::new(HashSet::new()), Barrier::new(threads));
        pool.run(threads, |_| {
            seen.lock().unwrap().insert(std::thread::current().id());
            all.wait();
        });
        seen.into_inner().unwrap()
    }

    /// Those that take part in a job with work for many.
    fn takers(pool: &Pool) -> HashSet<ThreadId> {
        let seen = Mutex::new(HashSet::new());
        pool.run(64, |_| {
            seen.lock().unwrap().insert(std::thread::current().id());
            std::thread::sleep(Duration::from_micros(100));
        });
        seen.into_inner().unwrap()
    }

    #[test]
    fn in_turn_all_threads_are_the_lenders_and_apart_each_has_its_own() {
        let lender = Arc::new(Pool::new(4));
        let pool = Pool::borrowing(Arc::clone(&lender), 2);
        assert_eq!((pool.threads(), pool.threads_apart()), (4, Some(2)));
        let all = gather(&lender, 4);
        assert_eq!(gather(&pool, 4), all);
        for _ in 0..3 {
            let apart = pool.work_apart();
            assert_eq!((lender.threads(), pool.threads()), (2, 2));
            let (of_lender, own) = (gather(&lender, 2), gather(&pool, 2));
            assert!(of_lender.is_subset(&all) && takers(&lender).is_subset(&of_lender));
            assert!(takers(&pool).is_subset(&own));
            // Both have the caller, here the same thread.
            assert_eq!(own.intersection(&all).count(), 1);
            // Who parts twice changes nothing, nor does the end of the second.
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
        assert_eq!(lender.threads_apart(), None);
    }

    #[test]
    fn parting_and_joining_again_loses_no_task() {
        let lender = Arc::new(Pool::new(2));
        let pool = Pool::borrowing(Arc::clone(&lender), 2);
        let count = AtomicUsize::new(0);
        let work = |pool: &Pool, rounds: usize| {
            for i in 0..rounds {
                // Now and then long enough for the workers to park.
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
