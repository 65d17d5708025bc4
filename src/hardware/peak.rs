//! The most memory that this process has used: main memory as recorded by the kernel, video memory
//! by asking the driver repeatedly on a separate thread. It must not depend on models.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use super::card::Card;
use super::usage::UsageMeter;

/// The interval between two queries to the driver.
const EVERY: Duration = Duration::from_millis(20);

/// The most memory used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Main memory of this process, bytes; mapped weights count once they have been read.
    pub ram: u64,
    /// Video memory of this process, bytes; `None` if no driver says.
    pub vram: Option<u64>,
}

/// Tracks the peak until it is dropped.
pub struct PeakMeter {
    usage: UsageMeter,
    peak: Peak,
    /// Video memory, as far as the thread that asks NVML has seen it.
    vram: Arc<Mutex<Option<u64>>>,
    /// Dropped to end the thread.
    _end: mpsc::Sender<()>,
}

impl PeakMeter {
    /// Starts tracking, on the adapter with this number. If no driver reports the video memory of a
    /// process, no thread is started.
    pub fn start(adapter: Option<usize>) -> Self {
        Self::with(adapter.and_then(Card::of))
    }

    fn with(card: Option<Card>) -> Self {
        let vram = Arc::new(Mutex::new(None));
        let (end, ended) = mpsc::channel::<()>();
        if let Some(card @ Card::Nvidia(..)) = card {
            let shared = Arc::clone(&vram);
            let watch = move || {
                let pid = std::process::id();
                while ended.recv_timeout(EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                    let used = card.usage(pid).and_then(|usage| usage.vram_ours);
                    let mut most = lock(&shared);
                    // `None` is less than any number.
                    *most = used.max(*most);
                }
            };
            let started = std::thread::Builder::new().name("vram".to_owned()).spawn(watch);
            if let Err(error) = started {
                tracing::warn!("cannot watch the video memory: {error}");
            }
        }
        Self { usage: UsageMeter::new(None), peak: Peak::default(), vram, _end: end }
    }

    /// The peak so far.
    pub fn peak(&mut self) -> Peak {
        let now = highest_resident().unwrap_or_else(|| self.usage.sample().memory_ours);
        self.peak = Peak { ram: self.peak.ram.max(now), vram: *lock(&self.vram) };
        self.peak
    }
}

fn lock(vram: &Mutex<Option<u64>>) -> MutexGuard<'_, Option<u64>> {
    // A panic while the lock is held leaves a number, which can still be used.
    vram.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The peak of resident memory as recorded by Linux, bytes.
fn highest_resident() -> Option<u64> {
    resident_in(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// `VmHWM` of a process's status file.
fn resident_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    use super::*;
    use crate::hardware::card::tests::second;
    use crate::hardware::gpu::tests::TwoCards;

    #[test]
    fn the_peak_of_video_memory_is_that_of_the_card_in_use() {
        let driver = TwoCards::default();
        driver.ours.store(7 << 20, Ordering::Relaxed);
        let mut meter = PeakMeter::with(Some(second(&driver)));
        let until = Instant::now() + Duration::from_secs(20);
        while meter.peak().vram.is_none() && Instant::now() < until {
            std::thread::sleep(EVERY);
        }
        driver.ours.store(1 << 20, Ordering::Relaxed);
        std::thread::sleep(3 * EVERY);
        assert_eq!(meter.peak().vram, Some(7 << 20));
        assert_eq!(PeakMeter::start(None).peak().vram, None);
    }

    #[test]
    fn the_peak_stays_when_memory_is_given_back() {
        let mut meter = PeakMeter::start(None);
        let before = meter.peak().ram;
        let block = vec![1u8; 96 << 20];
        assert!(block.iter().step_by(4096).all(|&byte| byte == 1));
        let with = meter.peak().ram;
        drop(block);
        let after = meter.peak().ram;
        assert!(before > 0 && with >= before && after >= with, "{before} {with} {after}");
    }

    #[test]
    fn the_kernel_s_line_is_read() {
        assert_eq!(resident_in("VmPeak:\t9 kB\nVmHWM:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!(resident_in("VmHWM:\tmuch\n"), None);
        assert_eq!(resident_in(""), None);
    }
}
