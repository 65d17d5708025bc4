//! Processor, memory and GPU of the machine, examined once at start. It must not depend on models.

use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use super::adapters::{self, Adapter};
use super::cores::PerformanceCores;
use super::gpu::{self, Gpu};

/// The processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its own name, e.g. `AMD Ryzen 7 5800H`.
    pub name: String,
    /// Physical cores that this process may use.
    pub physical: usize,
    /// Logical cores (hardware threads) that this process may use.
    pub logical: usize,
    /// The fast ones among them, if the system distinguishes them from slow ones.
    pub performance: Option<PerformanceCores>,
    /// Instruction sets that matter for matrix products, weakest first.
    pub features: Vec<&'static str>,
}

impl Cpu {
    /// Examines only the processor; never fails, as [`Machine::probe`].
    pub fn probe() -> Self {
        let refreshed = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
        cpu(System::new_with_specifics(refreshed).ok().as_ref())
    }

    /// The number of compute threads: as many as requested, otherwise one per physical core,
    /// counting only fast cores if they differ.
    pub fn threads(&self, asked: Option<usize>) -> usize {
        let fast = self.performance.as_ref().map_or(self.physical, |fast| fast.cores);
        asked.unwrap_or(fast).max(1)
    }

    /// Restricts the calling thread, and those that it starts from now on, to the fast cores, if
    /// there are any and `threads` of them fit there.
    pub fn prefer_fast(&self, threads: usize) {
        if let Some(fast) = &self.performance {
            fast.keep_here(threads);
        }
    }
}

/// Main memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Installed memory, or the limit of the control group if that is lower.
    pub total: u64,
    /// Available to a new program without swapping.
    pub free: u64,
}

/// Everything that the plan needs to know about the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The processor.
    pub cpu: Cpu,
    /// Main memory.
    pub memory: Memory,
    /// The first NVIDIA GPU, or a sentence that says why there is none.
    pub gpu: Result<Gpu, String>,
    /// The GPUs that any build can use, by number.
    pub adapters: Vec<Adapter>,
}

impl Machine {
    /// Examines the machine. It never fails: what cannot be found out is a sentence
    /// (for the GPU), a low guess (one core), or 0 (memory).
    pub fn probe() -> Self {
        let system = System::new_with_specifics(
            RefreshKind::nothing()
                .with_cpu(CpuRefreshKind::nothing())
                .with_memory(MemoryRefreshKind::nothing().with_ram()),
        )
        .ok();
        let cards = gpu::open().map(|driver| driver.cards());
        let none = || "no NVIDIA GPU: the driver is installed but finds no device".to_owned();
        let gpu = cards.as_ref().map_err(Clone::clone);
        let gpu = gpu.and_then(|cards| cards.first().cloned().ok_or_else(none));
        Self {
            adapters: adapters::described(&cards.unwrap_or_default()),
            cpu: cpu(system.as_ref()),
            memory: system.as_ref().map_or(Memory { total: 0, free: 0 }, memory),
            gpu,
        }
    }
}

fn cpu(system: Option<&System>) -> Cpu {
    // Affinity masks and control groups can leave fewer threads than the machine has.
    let usable = std::thread::available_parallelism().map_or(1, |n| n.get());
    let installed = system.map_or(usable, |system| system.cpus().len()).max(1);
    let logical = usable.min(installed);
    let cores = System::physical_core_count().unwrap_or(installed).clamp(1, installed);
    // The cores of the usable threads, rounded up.
    let physical = (cores * logical).div_ceil(installed).max(1);
    let name = system
        .and_then(|system| system.cpus().first())
        .map(|cpu| cpu.brand().split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("unknown {} processor", std::env::consts::ARCH));
    Cpu { name, physical, logical, performance: PerformanceCores::find(), features: features() }
}

pub(super) fn memory(system: &System) -> Memory {
    let total = system.total_memory();
    let free = system.available_memory();
    match system.cgroup_limits() {
        // A group without a limit reports at least the machine's own total.
        Some(limit) if limit.total_memory > 0 && limit.total_memory < total => {
            Memory { total: limit.total_memory, free: free.min(limit.free_memory) }
        }
        _ => Memory { total, free },
    }
}

/// The instruction sets that matter, weakest first.
fn features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let all = {
        use std::arch::is_x86_feature_detected as has;
        [
            ("SSE4.1", has!("sse4.1")),
            ("AVX2", has!("avx2")),
            ("FMA", has!("fma")),
            ("F16C", has!("f16c")),
            ("AVX-VNNI", has!("avxvnni")),
            ("AVX-512", has!("avx512f") && has!("avx512bw")),
            ("AVX-512 VNNI", has!("avx512vnni")),
            ("AVX-512 BF16", has!("avx512bf16")),
            ("AMX", crate::kernels::Isa::Amx.available()),
        ]
    };
    #[cfg(target_arch = "aarch64")]
    let all = {
        use std::arch::is_aarch64_feature_detected as has;
        [
            ("NEON", has!("neon")),
            ("dotprod", has!("dotprod")),
            ("FP16", has!("fp16")),
            ("i8mm", has!("i8mm")),
            ("BF16", has!("bf16")),
            ("SVE", has!("sve")),
        ]
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let all: [(&str, bool); 0] = [];
    all.into_iter().filter_map(|(name, present)| present.then_some(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_describes_a_machine_that_can_run_this_test() {
        let machine = Machine::probe();
        assert!(machine.cpu.physical >= 1 && machine.cpu.physical <= machine.cpu.logical);
        assert!(!machine.cpu.name.is_empty());
        assert!(machine.memory.total > 64 << 20, "{:?}", machine.memory);
        assert!(machine.memory.free <= machine.memory.total);
        match machine.gpu {
            Ok(gpu) => assert!(gpu.vram_free <= gpu.vram_total),
            Err(reason) => assert!(reason.starts_with("no NVIDIA GPU")),
        }
    }
}
