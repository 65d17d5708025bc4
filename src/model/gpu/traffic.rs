//! What is sent over the bus to a device: the device counts it, and its meter can be read
//! elsewhere. It must not depend on what is sent.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// What has been sent over the bus so far, except the weights during loading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Submissions of work.
    pub submissions: u64,
    /// Bytes from main memory to the device.
    #[serde(rename = "bytes_up")]
    pub up: u64,
    /// Bytes back.
    #[serde(rename = "bytes_down")]
    pub down: u64,
}

impl Traffic {
    /// What was added since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            submissions: self.submissions - before.submissions,
            up: self.up - before.up,
            down: self.down - before.down,
        }
    }

    /// Whether nothing was sent in either direction.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The mean over this many rounds, in words: `2.5 submissions, 12 kB up, 0.4 kB down`.
    pub(crate) fn a_round(&self, rounds: usize) -> String {
        let mean = |count: u64| count as f64 / rounds.max(1) as f64;
        let bytes = |count: u64| match mean(count) {
            bytes @ ..10e3 => format!("{:.1} kB", bytes / 1e3),
            bytes @ ..1e6 => format!("{:.0} kB", bytes / 1e3),
            bytes @ ..10e6 => format!("{:.1} MB", bytes / 1e6),
            bytes => format!("{:.0} MB", bytes / 1e6),
        };
        let submissions = mean(self.submissions);
        format!("{submissions:.1} submissions, {} up, {} down", bytes(self.up), bytes(self.down))
    }
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.submissions += other.submissions;
        self.up += other.up;
        self.down += other.down;
    }
}

/// The counters of a device. It does not keep the device open.
#[derive(Clone, Debug, Default)]
pub struct TrafficMeter(Arc<Mutex<Traffic>>);

impl TrafficMeter {
    /// What has been sent over the bus so far.
    pub fn read(&self) -> Traffic {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether both belong to the same device.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn add(&self, sent: Traffic) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += sent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_said_in_words() {
        let traffic = Traffic { submissions: 10, up: 48_000, down: 1_600 };
        assert_eq!(traffic.a_round(4), "2.5 submissions, 12 kB up, 0.4 kB down");
        let traffic = Traffic { submissions: 1, up: 3_210_000, down: 45_000_000 };
        assert_eq!(traffic.a_round(0), "1.0 submissions, 3.2 MB up, 45 MB down");
        assert!(!traffic.is_none() && traffic.since(traffic).is_none());
    }
}
