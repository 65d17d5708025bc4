//! A thread's share of a job's tasks, from which others take what it has not begun. Must never know
//! a thread.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// On cache lines of its own (processors fetch them in pairs), so that threads which write
/// neighbours do not wait for each other.
#[repr(align(128))]
pub(super) struct Padded<T>(pub(super) T);

/// The tasks that one thread has still to begin, first and end in one word. The thread takes them
/// from the front, in order: its neighbours in memory stay its own. Threads with nothing left to
/// do take the last.
pub(super) struct Share(Padded<AtomicU64>);

impl Share {
    /// No tasks.
    pub(super) fn none() -> Self {
        Self(Padded(AtomicU64::new(0)))
    }

    #[inline]
    pub(super) fn set(&self, tasks: Range<u32>) {
        let word = u64::from(tasks.start) | u64::from(tasks.end) << 32;
        self.0.0.store(word, Ordering::Relaxed);
    }

    /// Takes the first task, or the last.
    #[inline]
    pub(super) fn take(&self, last: bool) -> Option<usize> {
        let mut word = self.0.0.load(Ordering::Relaxed);
        loop {
            let (start, end) = (word as u32, (word >> 32) as u32);
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
        let share = Share::none();
        assert_eq!((share.take(false), share.take(true)), (None, None));
        share.set(5..10);
        let taken: Vec<_> =
            [false, true, false, true, false, true, false].map(|last| share.take(last)).into();
        assert_eq!(taken, [Some(5), Some(9), Some(6), Some(8), Some(7), None, None]);
    }
}
