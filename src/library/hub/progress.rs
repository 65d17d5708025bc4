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

/// Receives the reports of a download.
pub type Downloading<'a> = &'a mut dyn FnMut(&DownloadProgress);

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
pub(super) struct DownloadMeter<'a> {
    file: String,
    done: u64,
    total: u64,
    /// Times, and how many bytes were done then, for the last few seconds.
    samples: VecDeque<(Instant, u64)>,
    report: Downloading<'a>,
}

impl<'a> DownloadMeter<'a> {
    const BETWEEN_REPORTS: Duration = Duration::from_millis(100);
    const WINDOW: Duration = Duration::from_secs(5);

    pub(super) fn new(total: u64, report: Downloading<'a>) -> Self {
        Self { file: String::new(), done: 0, total, samples: VecDeque::new(), report }
    }

    /// Starts a file, of which `there` bytes are already on the disk.
    pub(super) fn begin(&mut self, file: &str, there: u64, now: Instant) {
        file.clone_into(&mut self.file);
        self.done += there;
        // Bytes that were already there say nothing about the rate.
        self.samples.clear();
        self.samples.push_back((now, self.done));
        self.report(now, false);
    }

    /// Notes that bytes turned out to be useless and are downloaded again.
    pub(super) fn lose(&mut self, bytes: u64) {
        self.done = self.done.saturating_sub(bytes);
        self.samples.clear();
    }

    /// Notes that the file has been received and is being checked.
    pub(super) fn check(&mut self, now: Instant) {
        self.report(now, true);
    }

    /// Adds bytes, and reports if that is due.
    pub(super) fn add(&mut self, bytes: u64, now: Instant) {
        self.done += bytes;
        let recent = |(last, _): &(Instant, u64)| now - *last < Self::BETWEEN_REPORTS;
        if self.samples.back().is_some_and(recent) && self.done < self.total {
            return;
        }
        self.samples.push_back((now, self.done));
        let old = |(then, _): &(Instant, u64)| now - *then > Self::WINDOW;
        while self.samples.len() > 2 && self.samples.front().is_some_and(old) {
            self.samples.pop_front();
        }
        self.report(now, false);
    }

    fn report(&mut self, now: Instant, checking: bool) {
        let rate = self.samples.front().map_or(0.0, |(then, before)| {
            let seconds = (now - *then).as_secs_f64();
            if seconds > 0.0 { self.done.saturating_sub(*before) as f64 / seconds } else { 0.0 }
        });
        let left = self.total.saturating_sub(self.done) as f64;
        (self.report)(&DownloadProgress {
            file: self.file.clone(),
            checking,
            done: self.done,
            total: self.total,
            bytes_per_second: rate,
            seconds_left: (rate > 0.0).then(|| left / rate),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_time_left_follow_the_last_seconds_and_the_last_byte_is_reported() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut told = Vec::new();
        let mut report = |progress: &DownloadProgress| {
            told.push((progress.done, progress.bytes_per_second, progress.seconds_left));
        };
        let mut meter = DownloadMeter::new(10_000, &mut report);
        meter.begin("model.gguf", 2_000, start);
        meter.add(1, start);
        meter.add(999, at(1));
        for seconds in 2..9 {
            meter.add(100, at(seconds));
        }
        meter.add(6_300, at(8));
        assert_eq!(told.len(), 10);
        assert_eq!(told[..2], [(2_000, 0.0, None), (3_000, 1_000.0, Some(7.0))]);
        assert_eq!((told[8].0, told[8].1), (3_700, 100.0));
        assert_eq!((told[9].0, told[9].2), (10_000, Some(0.0)));
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
}
