//! The NVIDIA GPU through NVML, looked up once. If there is none, the result is a sentence and
//! never an error. It must not depend on what the GPU is used for.
//!
//! NVML is queried even in a build without CUDA, so that the screen can say that a GPU is idle.

use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

/// A GPU as it was at start.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Its own name, e.g. `NVIDIA GeForce GTX 1650`.
    pub name: String,
    /// The driver's version.
    pub driver: String,
    /// All video memory, bytes.
    pub vram_total: u64,
    /// Video memory free at start, bytes.
    pub vram_free: u64,
    /// Memory bandwidth in bytes per second, from clock and bus width; `None` if the driver does
    /// not say.
    pub bandwidth: Option<f64>,
}

/// What the GPU is doing now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuUsage {
    /// The fraction of time in which a kernel ran, 0 to 1; `None` if the driver does not say.
    pub load: Option<f32>,
    /// Video memory used by all processes, bytes.
    pub vram_used: u64,
    /// All video memory, bytes.
    pub vram_total: u64,
    /// Video memory used by this process, bytes; `None` if the driver does not say (Windows'
    /// display driver, and containers that hide process ids).
    pub vram_ours: Option<u64>,
}

/// An open NVML and the device that CUDA numbers 0.
pub(super) struct Probe {
    nvml: Nvml,
    which: Which,
}

/// CUDA numbers only the visible devices; NVML numbers all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    Index(u32),
    Uuid(String),
}

impl Which {
    /// The first device named in `CUDA_VISIBLE_DEVICES`; `None` if it hides all.
    fn from_visible(visible: Option<&str>) -> Option<Self> {
        let Some(visible) = visible else { return Some(Self::Index(0)) };
        let first = visible.split(',').next().unwrap_or_default().trim();
        match first.parse::<i64>() {
            Ok(index) => u32::try_from(index).ok().map(Self::Index),
            Err(_) if first.is_empty() => None,
            Err(_) => Some(Self::Uuid(first.to_owned())),
        }
    }
}

impl Probe {
    /// Opens NVML, or says in one sentence why there is no GPU.
    pub(super) fn open() -> Result<Self, String> {
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        let which = Which::from_visible(visible.as_deref())
            .ok_or("no NVIDIA GPU: CUDA_VISIBLE_DEVICES hides all of them")?;
        let nvml = Nvml::init().map_err(|error| match error {
            NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
                "no NVIDIA GPU: the driver is not installed".to_owned()
            }
            NvmlError::DriverNotLoaded => "no NVIDIA GPU: the driver is not running".to_owned(),
            other => format!("no NVIDIA GPU: the driver reports \"{other}\""),
        })?;
        if nvml.device_count().unwrap_or(0) == 0 {
            return Err("no NVIDIA GPU: the driver is installed but finds no device".into());
        }
        let probe = Self { nvml, which };
        probe.device().map_err(|error| format!("no NVIDIA GPU: the driver reports \"{error}\""))?;
        Ok(probe)
    }

    fn device(&self) -> Result<Device<'_>, NvmlError> {
        match &self.which {
            Which::Index(index) => self.nvml.device_by_index(*index),
            Which::Uuid(uuid) => self.nvml.device_by_uuid(uuid.as_str()),
        }
    }

    fn describe(&self) -> Result<Gpu, NvmlError> {
        let device = self.device()?;
        let memory = device.memory_info()?;
        let bandwidth =
            device.max_clock_info(Clock::Memory).ok().zip(device.memory_bus_width().ok());
        Ok(Gpu {
            name: device.name()?,
            driver: self.nvml.sys_driver_version().unwrap_or_else(|_| "unknown".into()),
            vram_total: memory.total,
            vram_free: memory.free,
            // Two transfers per clock; bus width in bits.
            bandwidth: bandwidth
                .map(|(mhz, bits)| f64::from(mhz) * 1e6 * 2.0 * f64::from(bits) / 8.0)
                .filter(|rate| *rate > 0.0),
        })
    }

    /// What the GPU is doing; `None` if the driver stopped answering.
    pub(super) fn usage(&self, pid: u32) -> Option<GpuUsage> {
        let device = self.device().ok()?;
        let memory = device.memory_info().ok()?;
        let load = device.utilization_rates().ok().map(|rates| rates.gpu as f32 / 100.0);
        let processes = device.running_compute_processes().unwrap_or_default();
        let ours = processes.iter().filter(|process| process.pid == pid);
        let vram_ours = ours.map(|process| &process.used_gpu_memory).find_map(|used| match used {
            UsedGpuMemory::Used(bytes) => Some(*bytes),
            UsedGpuMemory::Unavailable => None,
        });
        Some(GpuUsage { load, vram_used: memory.used, vram_total: memory.total, vram_ours })
    }
}

/// Looks for the GPU once; the error is the reason for the user, e.g. `no NVIDIA GPU: the driver is
/// not installed`.
pub(super) fn find() -> Result<Gpu, String> {
    let probe = Probe::open()?;
    probe.describe().map_err(|error| format!("no NVIDIA GPU: the driver reports \"{error}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_visible_device_is_the_one_cuda_calls_zero() {
        let which = Which::from_visible;
        assert_eq!(which(None), Some(Which::Index(0)));
        assert_eq!(which(Some("2,0")), Some(Which::Index(2)));
        assert_eq!(which(Some("GPU-4a2f,1")), Some(Which::Uuid("GPU-4a2f".into())));
        assert_eq!(which(Some("")), None);
        assert_eq!(which(Some("-1")), None);
    }
}
