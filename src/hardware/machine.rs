//! Processor, memory and GPU of the machine, examined once at start. It must not depend on models.

use std::sync::OnceLock;

use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use super::adapters::{self, Adapter};
use super::cores::{self, PerformanceCores};
use super::gpu::{self, Gpu};
use super::groups::Groups;

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
    /// How many CPUs' worth of time the control group allows, rounded; `None` if it sets no limit.
    pub quota: Option<usize>,
    /// Instruction sets that matter for matrix products, weakest first.
    pub features: Vec<&'static str>,
}

impl Cpu {
    /// Examines only the processor; never fails, as [`Machine::probe`].
    pub fn probe() -> Self {
        // Once, before any thread is restricted to the fast cores: those that it starts would see
        // no others.
        static CPU: OnceLock<Cpu> = OnceLock::new();
        CPU.get_or_init(|| {
            let refreshed = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
            cpu(System::new_with_specifics(refreshed).ok().as_ref())
        })
        .clone()
    }

    /// The number of compute threads: as many as requested, otherwise one per physical core,
    /// counting only fast cores if they differ, and no more than the control group has CPUs for.
    pub fn threads(&self, asked: Option<usize>) -> usize {
        let fast = self.performance.as_ref().map_or(self.physical, |fast| fast.cores);
        asked.unwrap_or(self.quota.map_or(fast, |quota| quota.min(fast))).max(1)
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
            RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram()),
        )
        .ok();
        let cards = gpu::open().map(|driver| driver.cards());
        let none = || "no NVIDIA GPU: the driver is installed but finds no device".to_owned();
        let gpu = cards.as_ref().map_err(Clone::clone);
        let gpu = gpu.and_then(|cards| cards.first().cloned().ok_or_else(none));
        Self {
            adapters: adapters::described(&cards.unwrap_or_default()),
            cpu: Cpu::probe(),
            memory: system.as_ref().map_or(Memory { total: 0, free: 0 }, memory),
            gpu,
        }
    }
}

fn cpu(system: Option<&System>) -> Cpu {
    // An affinity mask can leave fewer threads than the machine has.
    let allowed = cores::allowed_threads();
    let usable = allowed.or_else(|| std::thread::available_parallelism().ok().map(|n| n.get()));
    let installed = system.map_or(1, |system| system.cpus().len()).max(1);
    let logical = usable.unwrap_or(installed).clamp(1, installed);
    let cores = System::physical_core_count().unwrap_or(installed).clamp(1, installed);
    let physical = cores::physical(logical, installed, cores, cores::siblings().as_deref());
    let quota = Groups::current().cpus();
    let name = system
        .and_then(|system| system.cpus().first())
        .map(|cpu| cpu.brand().split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("unknown {} processor", std::env::consts::ARCH));
    let performance = PerformanceCores::find();
    Cpu { name, physical, logical, performance, quota, features: features() }
}

pub(super) fn memory(system: &System) -> Memory {
    let total = system.total_memory();
    let free = system.available_memory();
    Groups::current().memory(Memory { total, free })
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

    /// (cores, threads of each, allowed threads, whether their siblings are known, fast cores,
    /// quota) → compute threads.
    #[test]
    fn threads_by_cores_siblings_affinity_quota_and_speed() {
        let all = |threads: usize| (0..threads).collect::<Vec<_>>();
        let even = |threads: usize| (0..threads).step_by(2).collect::<Vec<_>>();
        for (cores, each, allowed, known, fast, quota, threads) in [
            (8, 2, all(16), true, None, None, 8),
            (8, 2, all(16), false, None, None, 8),
            (8, 2, all(16), true, None, Some(4), 4),
            (8, 2, all(16), false, None, Some(4), 4),
            (8, 2, all(16), true, None, Some(12), 8),
            (2, 2, all(4), false, None, Some(2), 2),
            (4, 1, all(4), true, None, Some(1), 1),
            (4, 2, even(8), true, None, None, 4),
            (4, 2, even(8), false, None, None, 2),
            (4, 2, all(4), true, None, None, 2),
            (4, 2, all(1), true, None, None, 1),
            (4, 2, all(3), false, None, Some(8), 2),
            (8, 2, all(16), true, Some(4), None, 4),
            (8, 2, all(16), true, Some(4), Some(2), 2),
            (8, 2, all(16), true, Some(4), Some(6), 4),
        ] {
            let siblings = allowed.iter().map(|cpu| (cpu / each).to_string()).collect::<Vec<_>>();
            let siblings = known.then_some(&siblings[..]);
            let physical = cores::physical(allowed.len(), cores * each, cores, siblings);
            let cpu = Cpu {
                name: String::new(),
                physical,
                logical: allowed.len(),
                performance: fast.map(|cores| PerformanceCores { cores, threads: Vec::new() }),
                quota,
                features: Vec::new(),
            };
            let case = (cores, each, &allowed, known, fast, quota);
            assert_eq!(cpu.threads(None), threads, "{case:?}");
            assert_eq!(cpu.threads(Some(3)), 3, "{case:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_is_restricted_sees_the_same_processor() {
        let before = Cpu::probe();
        let one = PerformanceCores { cores: 1, threads: vec![0] };
        let restricted = std::thread::spawn(move || {
            one.keep_here(1);
            Cpu::probe()
        });
        assert_eq!(restricted.join().unwrap(), before);
    }

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
