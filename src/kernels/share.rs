//! A thread's share of a job's tasks, from which other threads take tasks that it has not begun. It
//! must not depend on threads.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A value on cache lines of its own (processors fetch them in pairs), so that threads that write
/// to neighbouring values do not wait for each other.
#[repr(align(128))]
pub(super) struct Padded<T>(pub(super) T);

/// The tasks that one thread has not begun yet: the first and the end, in one word. The thread
/// takes them from the front, in order, so that it works on neighbouring memory. Threads that have
/// run out of tasks take the last ones.
pub(super) struct TaskShare(Padded<AtomicU64>);

impl TaskShare {
    pub(super) fn none() -> Self {
        Self(Padded(AtomicU64::new(0)))
    }

    #[inline]
    pub(super) fn set(&self, tasks: Range<u32>) {
        let word = u64::from(tasks.start) | u64::from(tasks.end) << 32;
        self.0.0.store(word, Ordering::Relaxed);
    }

    /// Takes the last task if `last`, otherwise the first.
    #[inline]
    pub(super) fn take(&self, last: bool) -> Option<usize> {
        let mut word = self.0.0.load(Ordering::Relaxed);
        loop {
            let start = word as u32;
            let end = (word >> 32) as u32;
            if start >= end {
                return None;
            }
            let (task, rest) = if last { (end - 1, word - (1 << 32)) } else { (start, word + 1) };
            let swap =
                self.0.0.compare_exchange_weak(word, rest, Ordering::Relaxed, Ordering::Relaxed);
            match swap {
                Ok(_) => return Some(task as usize),
                Err(now) => word = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_taken_in_order_by_its_thread_and_from_the_end_by_others() {
        let share = TaskShare::none();
        assert_eq!((share.take(false), share.take(true)), (None, None));
        share.set(5..10);
        let taken: Vec<_> =
            [false, true, false, true, false, true, false].map(|last| share.take(last)).into();
        assert_eq!(taken, [Some(5), Some(9), Some(6), Some(8), Some(7), None, None]);
    }
}
