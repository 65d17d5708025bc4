//! Progress of a download: bytes, rate, remaining time. It must not depend on where it is shown.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

/// One report of a download.
#[derive(Clone, Debug, PartialEq)]
pub struct DownloadProgress {
    /// The file that is being downloaded.
    pub file: String,
    /// Whether it has been received completely and its hash is being computed.
    pub checking: bool,
    /// Bytes of all files that are here, including those of an earlier attempt.
    pub done: u64,
    /// Bytes of all files.
    pub total: u64,
    /// Over the last seconds; 0 before it is known.
    pub bytes_per_second: f64,
    /// At that rate; `None` before it is known.
    pub seconds_left: Option<f64>,
}

impl DownloadProgress {
    /// The fraction of all bytes, 0 to 1.
    pub fn fraction(&self) -> f32 {
        if self.total == 0 { 1.0 } else { (self.done as f64 / self.total as f64) as f32 }
    }
}

/// E.g. `downloading model.gguf: 1203 of 4081 MB, 12.3 MB/s, 3:54 left`.
impl fmt::Display for DownloadProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.checking {
            return write!(f, "checking {}", self.file);
        }
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let done = megabytes(self.done);
        let total = megabytes(self.total);
        write!(f, "downloading {}: {done:.0} of {total:.0} MB", self.file)?;
        if let Some(left) = self.seconds_left {
            let left = left.ceil() as u64;
            write!(f, ", {:.1} MB/s, ", self.bytes_per_second / 1e6)?;
            match (left / 3600, left / 60 % 60, left % 60) {
                (0, minutes, seconds) => write!(f, "{minutes}:{seconds:02} left")?,
                (hours, minutes, _) => write!(f, "{hours} h {minutes} min left")?,
            }
        }
        Ok(())
    }
}

/// Counts bytes and reports from time to time.
pub(super) struct DownloadMeter {
    file: String,
    done: u64,
    total: u64,
    /// Times, and how many bytes were done then, for the last few seconds.
    samples: VecDeque<(Instant, u64)>,
}

impl DownloadMeter {
    const BETWEEN_REPORTS: Duration = Duration::from_millis(100);
    const WINDOW: Duration = Duration::from_secs(5);

    pub(super) fn new(total: u64) -> Self {
        Self { file: String::new(), done: 0, total, samples: VecDeque::new() }
    }

    /// Starts a file, of which `there` bytes are already on the disk.
    pub(super) fn begin(&mut self, file: &str, there: u64, now: Instant) -> DownloadProgress {
        file.clone_into(&mut self.file);
        self.done += there;
        // Bytes that were already there say nothing about the rate.
        self.samples.clear();
        self.samples.push_back((now, self.done));
        self.report(now)
    }

    /// Notes that bytes turned out to be useless and are downloaded again.
    pub(super) fn lose(&mut self, bytes: u64) {
        self.done = self.done.saturating_sub(bytes);
        self.samples.clear();
    }

    /// Notes that the file has been received and is being checked.
    pub(super) fn checking(&self, now: Instant) -> DownloadProgress {
        DownloadProgress { checking: true, ..self.report(now) }
    }

    /// Adds bytes; returns a report if one is due.
    pub(super) fn add(&mut self, bytes: u64, now: Instant) -> Option<DownloadProgress> {
        self.done += bytes;
        let due = self
            .samples
            .back()
            .is_none_or(|(last, _)| now.duration_since(*last) >= Self::BETWEEN_REPORTS);
        if !due && self.done < self.total {
            return None;
        }
        self.samples.push_back((now, self.done));
        let old = |(then, _): &(Instant, u64)| now.duration_since(*then) > Self::WINDOW;
        while self.samples.len() > 2 && self.samples.front().is_some_and(old) {
            self.samples.pop_front();
        }
        Some(self.report(now))
    }

    fn report(&self, now: Instant) -> DownloadProgress {
        let rate = self.samples.front().map_or(0.0, |(then, before)| {
            let seconds = now.duration_since(*then).as_secs_f64();
            if seconds > 0.0 { self.done.saturating_sub(*before) as f64 / seconds } else { 0.0 }
        });
        let left = self.total.saturating_sub(self.done) as f64;
        DownloadProgress {
            file: self.file.clone(),
            checking: false,
            done: self.done,
            total: self.total,
            bytes_per_second: rate,
            seconds_left: (rate > 0.0).then(|| left / rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_time_left_follow_the_last_seconds() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut meter = DownloadMeter::new(10_000);
        let first = meter.begin("model.gguf", 2_000, start);
        assert_eq!((first.done, first.bytes_per_second, first.seconds_left), (2_000, 0.0, None));
        assert_eq!(meter.add(1, start), None);
        let second = meter.add(999, at(1)).unwrap();
        assert_eq!((second.done, second.bytes_per_second), (3_000, 1_000.0));
        assert_eq!(second.seconds_left, Some(7.0));
        for seconds in 2..8 {
            meter.add(100, at(seconds)).unwrap();
        }
        let slow = meter.add(100, at(8)).unwrap();
        assert_eq!((slow.done, slow.bytes_per_second), (3_700, 100.0));
    }

    #[test]
    fn a_report_reads_as_a_sentence() {
        let mut report = DownloadProgress {
            file: "m.gguf".to_owned(),
            checking: false,
            done: 1_203_000_000,
            total: 4_081_000_000,
            bytes_per_second: 0.0,
            seconds_left: None,
        };
        assert_eq!(report.to_string(), "downloading m.gguf: 1203 of 4081 MB");
        report.bytes_per_second = 12_300_000.0;
        report.seconds_left = Some(233.98);
        assert_eq!(report.to_string(), "downloading m.gguf: 1203 of 4081 MB, 12.3 MB/s, 3:54 left");
        report.seconds_left = Some(7_260.0);
        assert!(report.to_string().ends_with("2 h 1 min left"));
        assert!((report.fraction() - 0.2948).abs() < 1e-3);
        report.checking = true;
        assert_eq!(report.to_string(), "checking m.gguf");
    }

    #[test]
    fn the_last_byte_is_always_reported() {
        let now = Instant::now();
        let mut meter = DownloadMeter::new(10);
        meter.begin("x", 0, now);
        assert_eq!(meter.add(4, now), None);
        assert_eq!(meter.add(6, now).map(|progress| progress.done), Some(10));
    }
}
