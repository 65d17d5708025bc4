//! Load and memory use, cheap enough to sample once or twice per second. It must not depend on
//! models.

use std::time::{Duration, Instant};

use sysinfo::{
    MINIMUM_CPU_UPDATE_INTERVAL, MemoryRefreshKind, Pid, ProcessRefreshKind, ProcessesToUpdate,
    System,
};

use super::card::Card;
use super::gpu::GpuUsage;
use super::machine::memory;

/// One sample of the machine's load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Memory of this process, bytes; mapped weights count once they have been read.
    pub memory_ours: u64,
    /// Memory used by all processes, bytes.
    pub memory_used: u64,
    /// All memory, bytes.
    pub memory_total: u64,
    /// Load of all cores together, 0 to 1.
    pub cpu_load: f32,
    /// How many cores' worth of work this process does (2.5: two and a half cores are busy).
    pub cpu_ours: f32,
    /// The GPU; `None` if there is none, or if no driver reports on it.
    pub gpu: Option<GpuUsage>,
}

/// Takes [`Usage`] samples. It keeps the card's driver open, and the counters whose differences
/// give the loads.
pub struct UsageMeter {
    /// `None` on a system that sysinfo does not support: everything except the GPU is then 0.
    system: Option<System>,
    pid: Pid,
    card: Option<Card>,
    last: Usage,
    taken: Option<Instant>,
    /// The processor time that this process had used by then, milliseconds.
    worked: u64,
}

impl UsageMeter {
    /// Samples the adapter with this number, and the rest of the machine.
    pub fn new(adapter: Option<usize>) -> Self {
        Self::with(adapter.and_then(Card::of))
    }

    fn with(card: Option<Card>) -> Self {
        Self {
            system: System::new().ok(),
            pid: Pid::from_u32(std::process::id()),
            card,
            last: Usage::default(),
            taken: None,
            worked: 0,
        }
    }

    /// Takes a sample. Calls that follow each other too closely to measure a load return the
    /// previous sample. The loads of the first sample are 0, because there is nothing to compare
    /// with.
    pub fn sample(&mut self) -> Usage {
        let too_soon = Duration::max(MINIMUM_CPU_UPDATE_INTERVAL, Duration::from_millis(200));
        if self.taken.is_some_and(|taken| taken.elapsed() < too_soon) {
            return self.last;
        }
        self.last = self.look().unwrap_or_default();
        self.last.gpu = self.card.as_ref().and_then(|card| card.usage(self.pid.as_u32()));
        self.taken = Some(Instant::now());
        self.last
    }

    /// The processor's and memory's part of a sample.
    fn look(&mut self) -> Option<Usage> {
        let system = self.system.as_mut()?;
        system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
        system.refresh_cpu_usage();
        system.refresh_processes_specifics(
            ProcessesToUpdate::Some(&[self.pid]),
            false,
            ProcessRefreshKind::nothing().with_memory().with_cpu().without_tasks(),
        );
        let memory = memory(system);
        let process = system.process(self.pid);
        let worked = process.map_or(0, |process| process.accumulated_cpu_time());
        // Not the process's own `cpu_usage`: it is 0 when cores and process are refreshed
        // together.
        let (cpu_load, cpu_ours) = self.taken.map_or((0.0, 0.0), |taken| {
            let ours = worked.saturating_sub(self.worked) as f32 / 1e3;
            (system.global_cpu_usage() / 100.0, ours / taken.elapsed().as_secs_f32())
        });
        self.worked = worked;
        Some(Usage {
            memory_ours: process.map_or(0, |process| process.memory()),
            memory_used: memory.total.saturating_sub(memory.free),
            memory_total: memory.total,
            cpu_load: cpu_load.clamp(0.0, 1.0),
            cpu_ours,
            gpu: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::hardware::card::tests::second;
    use crate::hardware::gpu::tests::TwoCards;

    #[test]
    fn the_load_and_memory_are_those_of_the_card_in_use() {
        let driver = TwoCards::default();
        driver.ours.store(3 << 20, Ordering::Relaxed);
        let mut sampler = UsageMeter::with(Some(second(&driver)));
        let (vram_used, vram_ours) = ((3 << 20) + 100, Some(3 << 20));
        let load = Some(0.5);
        let expected = GpuUsage { load, vram_used, vram_total: 8 << 30, vram_ours };
        assert_eq!(sampler.sample().gpu, Some(expected));
        assert_eq!(UsageMeter::new(None).sample().gpu, None);
    }

    #[test]
    fn memory_and_work_of_this_process_are_measured() {
        let mut sampler = UsageMeter::new(None);
        let first = sampler.sample();
        assert!(first.memory_ours > 1 << 20, "{first:?}");
        assert!(first.memory_ours <= first.memory_total);
        assert_eq!(first.cpu_load, 0.0);
        assert_eq!(sampler.sample(), first, "a second look at once is the same look");

        // Far more than the tests running at the same time release meanwhile.
        let block = vec![1u8; 384 << 20];
        let until = Instant::now() + Duration::from_millis(350);
        let mut sum = 0u64;
        while Instant::now() < until {
            sum = block.iter().step_by(4096).fold(sum, |sum, &byte| sum.wrapping_add(byte.into()));
        }
        assert!(sum > 0);
        let busy = sampler.sample();
        assert!(busy.memory_ours >= first.memory_ours + (128 << 20), "{first:?} {busy:?}");
        assert!(busy.cpu_ours > 0.05, "{busy:?}");
    }
}
