//! The most memory that this process has used: main memory as recorded by the kernel, video memory
//! by asking the driver repeatedly on a separate thread. It must not depend on models.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use super::gpu::Probe;
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
    ram: u64,
    vram: Option<VramWatch>,
}

impl PeakMeter {
    /// Starts tracking. If no driver reports video memory, no thread is started.
    pub fn start() -> Self {
        Self { usage: UsageMeter::new(), ram: 0, vram: VramWatch::start() }
    }

    /// The peak so far.
    pub fn peak(&mut self) -> Peak {
        let now = highest_resident().unwrap_or_else(|| self.usage.sample().memory_ours);
        self.ram = self.ram.max(now);
        Peak { ram: self.ram, vram: self.vram.as_ref().and_then(VramWatch::most) }
    }
}

/// A thread that asks NVML for this process's video memory.
struct VramWatch {
    /// The bytes, and whether the driver reported any.
    most: Arc<(AtomicU64, AtomicBool)>,
    /// Dropped to end the thread.
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl VramWatch {
    fn start() -> Option<Self> {
        let probe = Probe::open().ok()?;
        let most = Arc::new((AtomicU64::new(0), AtomicBool::new(false)));
        let (end, ended) = mpsc::channel::<()>();
        let shared = Arc::clone(&most);
        let watch = move || {
            let pid = std::process::id();
            while ended.recv_timeout(EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                if let Some(bytes) = probe.usage(pid).and_then(|usage| usage.vram_ours) {
                    shared.0.fetch_max(bytes, Ordering::Relaxed);
                    shared.1.store(true, Ordering::Relaxed);
                }
            }
        };
        let thread = std::thread::Builder::new().name("vram".to_owned()).spawn(watch).ok()?;
        Some(Self { most, end: Some(end), thread: Some(thread) })
    }

    fn most(&self) -> Option<u64> {
        self.most.1.load(Ordering::Relaxed).then(|| self.most.0.load(Ordering::Relaxed))
    }
}

impl Drop for VramWatch {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // The thread holds nothing that a panic could leave inconsistent.
            let _ = thread.join();
        }
    }
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
    use super::*;

    #[test]
    fn the_peak_stays_when_memory_is_given_back() {
        let mut meter = PeakMeter::start();
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
