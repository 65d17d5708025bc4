//! How a worker shares its core with other programs. A job ends with its slowest thread, and a
//! thread that loses its core in the middle of a task gets it back only after milliseconds, about
//! as long as a whole pass of a small model. So a worker whose core is wanted works in short turns
//! and sleeps for a moment between two jobs. During these pauses the system lets the other program
//! compute while the remaining threads do the work, and no turn is long enough to be interrupted.
//! It does not depend on jobs or tasks.

use std::time::{Duration, Instant};

/// How often an undisturbed worker compares the elapsed time with its CPU time.
const LOOK: Duration = Duration::from_micros(1000);
/// How long a worker whose core is wanted computes in one turn: less than the shortest time for
/// which Linux leaves a thread on its core (0.7 ms and more).
const TURN: Duration = Duration::from_micros(600);
/// How long it then sleeps, at least; the other program runs until the system switches back.
pub(super) const PAUSE: Duration = Duration::from_micros(60);
/// An absence no longer than this does not count as losing the core: interrupts and the system's
/// own work are shorter. (Waiting for the disk counts too, but compared with it the pauses are
/// negligible.)
const LOSS: Duration = Duration::from_micros(400);
/// How long a core counts as wanted after it was taken: at first, and at most if it is taken again
/// immediately. Each attempt to do without turns may cost some milliseconds.
const FIRST: Duration = Duration::from_millis(30);
const MOST: Duration = Duration::from_secs(1);
/// An attempt without turns has succeeded after this long.
const CALM: Duration = Duration::from_millis(30);

/// The turns of one thread. The thread reports when it slept, because that time does not count as
/// lost.
#[derive(Debug)]
pub(super) struct Turns {
    begun: Instant,
    /// How much CPU time the thread had used by then; `None` if the system does not say.
    computed: Option<Duration>,
    wanted: Wanted,
}

impl Turns {
    /// Starts the first turn.
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), computed: computed(), wanted: Wanted::default() }
    }

    /// Starts a turn. The time before it is ignored, because the thread slept.
    pub(super) fn begin(&mut self) {
        (self.begun, self.computed) = (Instant::now(), computed());
    }

    /// Whether the turn has been long enough at `now` that [`Self::end`] should be called.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now - self.begun > if self.wanted.until.is_some() { TURN } else { LOOK }
    }

    /// Ends the turn at `now` and begins the next. Returns whether the thread should first sleep
    /// for [`PAUSE`] because others want its core.
    pub(super) fn end(&mut self, now: Instant) -> bool {
        let spent = now - self.begun;
        let before = self.computed;
        (self.begun, self.computed) = (now, computed());
        let lost = before.zip(self.computed).map(|(before, now)| {
            // The two clocks may differ in their last digits.
            spent.saturating_sub(now.saturating_sub(before))
        });
        self.wanted.turn_ended(now, lost.unwrap_or_default())
    }
}

/// Whether other programs want a core, judged by how much of its time was lost.
#[derive(Debug, Default)]
struct Wanted {
    /// Until when the core counts as wanted; `None` while no other program wants it. Afterwards the
    /// thread attempts to work without pauses for [`CALM`].
    until: Option<Instant>,
    /// How long it counted as wanted the last time.
    hold: Duration,
}

impl Wanted {
    /// Notes that a turn ended in which the core was away for `lost`; returns whether to pause.
    fn turn_ended(&mut self, now: Instant, lost: Duration) -> bool {
        let attempts = self.until.is_some_and(|until| now > until);
        if lost > LOSS {
            if self.until.is_none() || attempts {
                self.hold = if attempts { (self.hold * 2).min(MOST) } else { FIRST };
                self.until = Some(now + self.hold);
            }
            return true;
        }
        if self.until.is_some_and(|until| now > until + CALM) {
            self.until = None;
        }
        self.until.is_some() && !attempts
    }
}

/// The CPU time that the calling thread has used so far.
#[cfg(unix)]
fn computed() -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time and nothing else.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec);
    let nanos = u32::try_from(time.tv_nsec);
    (status == 0).then_some(Duration::new(seconds.ok()?, nanos.ok()?))
}

/// Windows counts CPU time in units of 16 ms, which is too coarse.
#[cfg(not(unix))]
fn computed() -> Option<Duration> {
    None
}

/// The core that the calling thread runs on, if the system says.
#[cfg(target_os = "linux")]
pub(super) fn core() -> Option<usize> {
    // SAFETY: the call only reads.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn core() -> Option<usize> {
    None
}

/// Moves the calling thread from `core` to another core that it may run on, if there is one.
/// Afterwards it may again run on all the cores it could use before.
#[cfg(target_os = "linux")]
pub(super) fn leave(core: usize) {
    let size = size_of::<libc::cpu_set_t>();
    if core >= 8 * size {
        return;
    }
    // SAFETY: a set is an array of bits, which may all be 0.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes at most `size` bytes, which the set has.
    if unsafe { libc::sched_getaffinity(0, size, &raw mut allowed) } != 0 {
        return;
    }
    let mut others = allowed;
    // SAFETY: the core's bit is inside the set, as checked above.
    unsafe { libc::CPU_CLR(core, &mut others) };
    // SAFETY: the calls read the sets and change only where this thread runs. If there is no other
    // core, they refuse and change nothing.
    unsafe {
        if libc::sched_setaffinity(0, size, &raw const others) == 0 {
            libc::sched_setaffinity(0, size, &raw const allowed);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn leave(_core: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_millis(3);

    #[test]
    fn a_core_counts_as_wanted_for_a_while_once_it_was_taken() {
        let start = Instant::now();
        let mut wanted = Wanted::default();
        assert!(!wanted.turn_ended(start, LOSS), "an interrupt");
        assert!(wanted.turn_ended(start, LONG));
        assert!(wanted.turn_ended(start + FIRST, Duration::ZERO));
        // Then the thread tries without pauses, and it is over if nothing is lost.
        let after = start + FIRST + LOSS;
        assert!(!wanted.turn_ended(after, Duration::ZERO) && wanted.until.is_some());
        assert!(!wanted.turn_ended(after + CALM, Duration::ZERO) && wanted.until.is_none());
        // The next loss counts as the first.
        assert!(wanted.turn_ended(after + CALM, LONG));
        assert_eq!(wanted.hold, FIRST);
    }

    #[test]
    fn a_core_that_stays_wanted_is_lost_ever_more_rarely() {
        let start = Instant::now();
        let mut wanted = Wanted::default();
        let mut losses = 0;
        for turn in 0..20_000 {
            let now = start + TURN * turn;
            // Every attempt without pauses fails at once.
            let lost = wanted.until.is_none_or(|until| now > until);
            losses += usize::from(lost);
            assert!(wanted.turn_ended(now, if lost { LONG } else { Duration::ZERO }));
        }
        // Twelve seconds: six holds that double, then one per second.
        assert!((14..20).contains(&losses), "{losses}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn two_threads_on_one_core_notice_each_other() {
        use std::sync::atomic::{AtomicUsize, Ordering};

        let core = core().unwrap();
        let noticed = AtomicUsize::new(0);
        let spin = || {
            // SAFETY: as in `leave`.
            unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(core, &mut set);
                assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &raw const set), 0);
            }
            // There is no other core to move to.
            leave(core);
            assert_eq!(super::core(), Some(core));
            let mut turns = Turns::new();
            let mut wanted = false;
            let begun = Instant::now();
            while noticed.load(Ordering::Relaxed) < 2 && begun.elapsed() < Duration::from_secs(20) {
                let now = Instant::now();
                if turns.is_over(now) && turns.end(now) && !wanted {
                    wanted = true;
                    noticed.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(spin);
            scope.spawn(spin);
        });
        assert_eq!(noticed.into_inner(), 2);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_leaves_a_core_may_come_back() {
        let allowed = || {
            // SAFETY: as in `leave`.
            unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set), 0);
                (0..8 * size_of_val(&set)).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
            }
        };
        let before: Vec<usize> = allowed();
        for &core in &before {
            leave(core);
        }
        leave(usize::MAX);
        assert_eq!(allowed(), before);
    }
}
