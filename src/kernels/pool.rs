//! The compute pool: threads that belong to the kernels. To the pool a task is a number; it does
//! not depend on what the task computes.
//!
//! Workers spin for a fraction of a millisecond after each job, because the next product of a
//! forward pass follows within microseconds. Then they park, so an idle program uses no CPU time.
//! Pools share nothing, except where a pool borrows threads from its lender: see
//! [`Pool::borrowing`]. While other programs want a worker's core, the worker takes turns with
//! them: see [`Turns`].

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::isa::Isa;
use super::share::{Padded, TaskShare};
use super::turns::{self, PAUSE, Turns};

/// How long a worker looks for the next job before it parks.
const SPIN: Duration = Duration::from_micros(150);

/// Iterations of a spin loop between two looks at the clock.
const TURNS: u32 = 64;

// The job word: the number of participants in the low bits, then two flags, then the job's number.
const PARTICIPANTS: u64 = 0xffff;
const OPEN: u64 = 1 << 16;
const STOP: u64 = 1 << 17;
const JOB: u32 = 18;

type Task = dyn Fn(usize) + Sync;

#[derive(Clone, Copy)]
struct PoolJob {
    task: *const Task,
    /// How many threads have a share of the tasks.
    threads: usize,
}

pub(super) struct Shared {
    /// Which job is open and how many workers have joined it. Both are in one word, so that a
    /// worker cannot join a job while it is being closed.
    word: Padded<AtomicU64>,
    /// One share per thread, the caller's first. Set while no worker has joined.
    shares: Box<[TaskShare]>,
    /// Written by the caller while no job is open and no worker has joined; read by the workers
    /// that have joined.
    job: UnsafeCell<Option<PoolJob>>,
    sleepers: AtomicUsize,
    /// How many threads take part, including the caller; the others stay parked until they are
    /// recalled.
    active: AtomicUsize,
    /// The core on which the caller began its last job; `usize::MAX` if unknown.
    callers_core: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
    recall: Condvar,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is the only field that is not already Send + Sync. Only the caller that holds
// `Pool::caller` writes it, and only while the word shows no open job and no participant. Only
// participants read it. The word's release and acquire orderings separate the two. The job outlives
// the pointer in it, because the caller leaves `run` only when no participant is left.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

thread_local! {
    /// Whether this thread is inside a task. A nested `run` then works inline, because it cannot
    /// wait for the pool that is waiting for it.
    static IN_TASK: Cell<bool> = const { Cell::new(false) };
}

/// A fixed set of compute threads; the thread that calls [`Pool::run`] is one of them.
///
/// The pool also determines which instruction set its kernels use, so that tests can compare
/// instruction sets.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    caller: Mutex<()>,
    isa: Isa,
    /// The pool whose threads this one uses, except while it works apart.
    pub(super) lender: Option<Arc<Pool>>,
    /// Whether it currently works apart from its lender.
    pub(super) apart: AtomicBool,
}

impl Pool {
    /// A pool of `threads` threads (at least one: the caller), on the best instruction set that the
    /// machine has (see [`Isa::best`]). [`Pool::threads`] does not count threads that the system
    /// refuses to start; results do not depend on the number of threads.
    pub fn new(threads: usize) -> Self {
        Self::with_isa(threads, Isa::best())
    }

    /// The same with a given instruction set, or the portable one if the machine does not have it.
    pub fn with_isa(threads: usize, isa: Isa) -> Self {
        let threads = threads.clamp(1, PARTICIPANTS as usize);
        let shared = Arc::new(Shared {
            word: Padded(AtomicU64::new(0)),
            shares: std::iter::repeat_with(TaskShare::none).take(threads).collect(),
            job: UnsafeCell::new(None),
            sleepers: AtomicUsize::new(0),
            active: AtomicUsize::new(threads),
            callers_core: AtomicUsize::new(usize::MAX),
            lock: Mutex::new(()),
            wake: Condvar::new(),
            recall: Condvar::new(),
            panic: Mutex::new(None),
        });
        let workers = (1..threads)
            .map_while(|i| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("kernel-{i}"))
                    .spawn(move || shared.serve(i))
                    .ok()
            })
            .collect();
        let isa = if isa.available() { isa } else { Isa::Portable };
        let apart = AtomicBool::new(false);
        Self { shared, workers, caller: Mutex::new(()), isa, lender: None, apart }
    }

    /// How many threads currently share the work, including the caller.
    pub fn threads(&self) -> usize {
        match self.lent() {
            Some(lender) => lender.threads(),
            None => self.own_threads().min(self.shared.active.load(Ordering::Relaxed)),
        }
    }

    /// How many threads the pool was created with, including the caller.
    pub(super) fn own_threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// The pool that currently does this one's work.
    fn lent(&self) -> Option<&Self> {
        let lender = self.lender.as_deref()?;
        (!self.apart.load(Ordering::Relaxed)).then_some(lender)
    }

    /// Lets only the first `threads` threads take part, starting with the next job; the others
    /// park.
    pub(super) fn keep_to(&self, threads: usize) {
        let before = self.shared.active.swap(threads, Ordering::SeqCst);
        if threads > before {
            let _held = lock(&self.shared.lock);
            self.shared.recall.notify_all();
        }
    }

    /// The instruction set that kernels called with this pool use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Calls `task(i)` once for every `i` in `0..tasks`, on all threads, in no particular order,
    /// and returns when all are done. Each thread begins with a run of neighbouring tasks. A thread
    /// that finishes early takes tasks from the others, so that uneven tasks are balanced. Calls
    /// from several threads wait for each other; a call from inside a task works inline.
    ///
    /// # Panics
    /// If a task panics, with the same payload, after the other tasks have ended.
    pub fn run(&self, tasks: usize, task: impl Fn(usize) + Sync) {
        if let Some(lender) = self.lent() {
            return lender.run(tasks, task);
        }
        let threads = self.threads();
        let count = u32::try_from(tasks).unwrap_or(0);
        if count <= 1 || threads == 1 || IN_TASK.get() {
            for i in 0..tasks {
                task(i);
            }
            return;
        }
        let _caller = lock(&self.caller);
        let job = PoolJob { task: erase(&task), threads };
        // SAFETY: this thread holds `caller` and the last `run` left no participant, so no other
        // thread reads or writes the job.
        unsafe { *self.shared.job.get() = Some(job) };
        let start = |thread: usize| (u64::from(count) * thread as u64 / threads as u64) as u32;
        for (thread, share) in self.shared.shares[..threads].iter().enumerate() {
            share.set(start(thread)..start(thread + 1));
        }
        let core = turns::core().unwrap_or(usize::MAX);
        // Workers read the neighbouring fields all the time, so this one is written only when it
        // changes.
        if self.shared.callers_core.load(Ordering::Relaxed) != core {
            self.shared.callers_core.store(core, Ordering::Relaxed);
        }
        let number = (self.shared.word.0.load(Ordering::Relaxed) >> JOB) + 1;
        // SeqCst here and in `rest`, so that either the sleeper sees the job or we see the sleeper.
        self.shared.word.0.store(number << JOB | OPEN, Ordering::SeqCst);
        if self.shared.sleepers.load(Ordering::SeqCst) > 0 {
            let _held = lock(&self.shared.lock);
            self.shared.wake.notify_all();
        }
        self.shared.work(job, 0);
        self.shared.word.0.fetch_and(!OPEN, Ordering::AcqRel);
        self.shared.wait_for_participants();
        if let Some(payload) = lock(&self.shared.panic).take() {
            resume_unwind(payload);
        }
    }

    /// Cuts `data` into chunks of `size` elements (the last may be shorter) and calls
    /// `task(index, chunk)` for each, on all threads.
    ///
    /// # Panics
    /// If `size` is 0, or if a task panics.
    pub fn chunks<T: Send>(
        &self,
        data: &mut [T],
        size: usize,
        task: impl Fn(usize, &mut [T]) + Sync,
    ) {
        assert!(size > 0, "chunks of no elements");
        let len = data.len();
        let base = Shareable(data.as_mut_ptr());
        self.run(len.div_ceil(size), |i| {
            let start = i * size;
            // SAFETY: chunk `i` covers start..min(start + size, len) of `data`, which is borrowed
            // mutably for the whole call. Each `i` is handed out once, so chunks never overlap.
            let chunk = unsafe {
                std::slice::from_raw_parts_mut(base.get().add(start), size.min(len - start))
            };
            task(i, chunk);
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.word.0.fetch_or(STOP, Ordering::SeqCst);
        {
            let _held = lock(&self.shared.lock);
            self.shared.wake.notify_all();
            self.shared.recall.notify_all();
        }
        for worker in self.workers.drain(..) {
            // A worker catches the panics of its tasks, so joining it cannot fail.
            let _ = worker.join();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).field("isa", &self.isa).finish()
    }
}

impl Shared {
    /// The loop of worker `index` (the caller is 0).
    fn serve(&self, index: usize) {
        let mut last = 0;
        let mut turns = Turns::new();
        loop {
            let word = self.rest(last, index, &mut turns);
            if word & STOP != 0 {
                return;
            }
            last = word >> JOB;
            if let Some(job) = self.join(last) {
                self.work(job, index);
                self.word.0.fetch_sub(1, Ordering::Release);
            }
        }
    }

    /// Waits, first spinning and then parked, for a job other than `last` or for shutdown. If other
    /// programs want the core and the turn is over, the worker first sleeps for a moment.
    fn rest(&self, last: u64, index: usize, turns: &mut Turns) -> u64 {
        let included = || index < self.active.load(Ordering::SeqCst);
        let news =
            |word: u64| word & STOP != 0 || (word & OPEN != 0 && word >> JOB != last && included());
        let mut start = Instant::now();
        if turns.is_over(start) && turns.end(start) {
            std::thread::sleep(PAUSE);
            self.leave_callers_core();
            turns.begin();
            start = Instant::now();
        }
        while included() && start.elapsed() <= SPIN {
            for _ in 0..TURNS {
                let word = self.word.0.load(Ordering::Acquire);
                if news(word) {
                    return word;
                }
                std::hint::spin_loop();
            }
        }
        let wait = |condition: &Condvar, held| {
            condition.wait(held).unwrap_or_else(PoisonError::into_inner)
        };
        let mut held = lock(&self.lock);
        loop {
            let word = self.word.0.load(Ordering::SeqCst);
            if news(word) {
                drop(held);
                self.leave_callers_core();
                turns.begin();
                return word;
            }
            if !included() {
                // This worker does not count as a sleeper, so that the others' jobs do not wake it.
                held = wait(&self.recall, held);
                continue;
            }
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            if !news(self.word.0.load(Ordering::SeqCst)) {
                held = wait(&self.wake, held);
            }
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// While other programs keep all cores busy, a worker may wake up on the caller's core. Staying
    /// there would only take time from the caller.
    fn leave_callers_core(&self) {
        if let Some(core) = turns::core()
            && core == self.callers_core.load(Ordering::Relaxed)
        {
            turns::leave(core);
        }
    }

    /// Becomes a participant of job `number` if it is still open.
    fn join(&self, number: u64) -> Option<PoolJob> {
        let mut word = self.word.0.load(Ordering::Relaxed);
        loop {
            if word & OPEN == 0 || word >> JOB != number {
                return None;
            }
            match self.word.0.compare_exchange_weak(
                word,
                word + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                // SAFETY: this worker is now a participant of the open job, so the caller neither
                // writes `job` nor leaves `run` before the worker signs off.
                Ok(_) => return unsafe { *self.job.get() },
                Err(now) => word = now,
            }
        }
    }

    /// Does the tasks of thread `index` and then the last tasks of the other threads, until none is
    /// left. A panic ends only this thread's work.
    fn work(&self, job: PoolJob, index: usize) {
        IN_TASK.set(true);
        let share = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the closure outlives the job, because `run` returns only after every
            // participant has left.
            let task = unsafe { &*job.task };
            let shares = &self.shares[..job.threads];
            for step in 0..job.threads {
                // A thread that has been parked in the meantime may have no share of its own.
                let share = &shares[(index + step) % job.threads];
                let own = step == 0 && index < job.threads;
                while let Some(i) = share.take(!own) {
                    task(i);
                }
            }
        }));
        IN_TASK.set(false);
        if let Err(payload) = share {
            *lock(&self.panic) = Some(payload);
        }
    }

    fn wait_for_participants(&self) {
        let start = Instant::now();
        loop {
            // Each iteration takes 40 to 140 cycles. If workers alone noticed the end of a job, a
            // forward pass of hundreds of jobs would take half a millisecond longer.
            for _ in 0..TURNS {
                if self.word.0.load(Ordering::Acquire) & PARTICIPANTS == 0 {
                    return;
                }
                std::hint::spin_loop();
            }
            // If there are more threads than free cores, the participant may be waiting for ours.
            if start.elapsed() > SPIN {
                std::thread::yield_now();
            }
        }
    }
}

/// Erases the closure's lifetime. [`Pool::run`] upholds it by waiting for all participants.
fn erase<'a>(task: &'a (dyn Fn(usize) + Sync + 'a)) -> *const Task {
    // SAFETY: only the lifetime bound of the trait object changes, not the layout of the pointer.
    unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + 'a), *const Task>(task) }
}

/// No invariant is ever broken while these locks are held, so poisoning is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pointer that tasks may share because each of them writes to its own places.
pub(super) struct Shareable<T>(pub(super) *mut T);

impl<T> Shareable<T> {
    /// The pointer (a method, so that closures capture the whole wrapper).
    pub(super) fn get(&self) -> *mut T {
        self.0
    }
}

// SAFETY: the wrapper only carries the address; every dereference says why no other thread uses the
// place.
unsafe impl<T: Send> Send for Shareable<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shareable<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once_for_any_number_of_threads() {
        for threads in [1, 2, 3, 8] {
            let pool = Pool::new(threads);
            for tasks in [0, 1, 2, 7, 1000] {
                let hits: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                pool.run(tasks, |i| {
                    hits[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn parked_workers_wake_up() {
        let pool = Pool::new(3);
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(2));
            let mut data = vec![0u32; 100];
            pool.chunks(&mut data, 7, |i, chunk| chunk.fill(i as u32));
            assert!(data.iter().enumerate().all(|(j, &v)| v == (j / 7) as u32));
        }
    }

    #[test]
    fn nested_and_concurrent_calls_finish() {
        let pool = Pool::new(2);
        let count = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        pool.run(4, |_| {
                            pool.run(3, |_| {
                                count.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    }
                });
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), 2 * 200 * 4 * 3);
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_caller_and_the_pool_lives_on() {
        let pool = Pool::new(2);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.run(8, |i| assert!(i != 5, "five"));
        }));
        assert!(caught.is_err());
        let count = AtomicUsize::new(0);
        pool.run(8, |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 8);
    }
}
