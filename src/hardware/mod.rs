//! Cores, memory, CPU features (sysinfo), VRAM and load (NVML). Plain records that the plan
//! reads once ([`Machine`]) and the screen reads once or twice a second ([`Usage`]).
//! Must never know models.

mod gpu;
mod machine;
mod usage;

pub use gpu::{Gpu, GpuFinding, GpuUsage};
pub use machine::{Cpu, Machine, Memory};
pub use usage::{Usage, UsageMeter};
