//! Cores, memory, CPU features (sysinfo), GPUs (wgpu), VRAM and load (NVML, the kernel's files).
//! They are plain records: the plan reads [`Machine`] once, and the screen reads [`Usage`] once or
//! twice per second. It must not depend on models.

mod adapters;
mod card;
mod cores;
mod gpu;
mod groups;
mod machine;
mod peak;
mod usage;
mod vram;

pub(crate) use adapters::ready;
pub use adapters::{Adapter, AdapterKind, GpuAdapter, adapters};
pub use cores::PerformanceCores;
pub use gpu::{Gpu, GpuUsage};
pub use machine::{Cpu, Machine, Memory};
pub use peak::{Peak, PeakMeter};
pub use usage::{Usage, UsageMeter};
pub use vram::Vram;
