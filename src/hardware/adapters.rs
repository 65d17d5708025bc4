//! The GPUs that can be used without a toolkit, as listed by the machine's drivers (Vulkan, Metal,
//! DirectX 12). It must not depend on what is computed on them.

use std::path::Path;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

use super::gpu::Gpu;
use super::vram::{self, Vram};

/// What kind of device an adapter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdapterKind {
    /// A card with its own memory.
    Discrete,
    /// Part of the processor, and uses the main memory.
    Integrated,
    /// Provided by the host of a virtual machine.
    Virtual,
    /// Its driver does not say what kind it is.
    Unknown,
    /// The processor acting as a GPU: for tests, and slower than the CPU's own kernels.
    Software,
}

impl AdapterKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Discrete => "discrete",
            Self::Integrated => "integrated",
            Self::Virtual => "virtual",
            Self::Unknown => "unknown type",
            Self::Software => "software",
        }
    }
}

/// A GPU as its driver presents it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// Its number, as in `gpu:0`.
    pub number: usize,
    /// Its own name.
    pub name: String,
    /// What kind of device it is.
    pub kind: AdapterKind,
    /// The interface through which it is used: `Vulkan`, `Metal` or `Dx12`.
    pub interface: String,
    /// Its driver and version, as far as they are known.
    pub driver: String,
    /// Its memory; `None` if it is unknown, or if it is the main memory.
    pub memory: Option<Vram>,
}

impl Adapter {
    /// Whether it uses the main memory and has none of its own.
    pub fn shares_memory(&self) -> bool {
        matches!(self.kind, AdapterKind::Integrated | AdapterKind::Software)
            || self.interface == "Metal"
    }
}

/// An [`Adapter`] that can be opened.
#[derive(Clone, Debug)]
pub struct GpuAdapter {
    info: Adapter,
    /// Its place on the PCI bus, `0000:01:00.0`; empty if its driver does not say.
    pub(super) bus: String,
    /// The library's handle, for opening the device.
    pub(crate) raw: wgpu::Adapter,
}

impl GpuAdapter {
    fn new(number: usize, raw: wgpu::Adapter) -> Self {
        let info = raw.get_info();
        let kind = match info.device_type {
            wgpu::DeviceType::DiscreteGpu => AdapterKind::Discrete,
            wgpu::DeviceType::IntegratedGpu => AdapterKind::Integrated,
            wgpu::DeviceType::VirtualGpu => AdapterKind::Virtual,
            wgpu::DeviceType::Cpu => AdapterKind::Software,
            wgpu::DeviceType::Other => AdapterKind::Unknown,
        };
        let driver = format!("{} {}", info.driver, info.driver_info).trim().to_owned();
        let interface = format!("{:?}", info.backend);
        let name = info.name;
        let bus = info.device_pci_bus_id;
        Self { info: Adapter { number, name, kind, interface, driver, memory: None }, bus, raw }
    }

    /// What it is, without its memory.
    pub fn info(&self) -> &Adapter {
        &self.info
    }
}

/// Every adapter of the machine in the drivers' order, looked up once; none without a driver.
pub fn adapters() -> &'static [GpuAdapter] {
    static FOUND: OnceLock<Vec<GpuAdapter>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = backends;
        descriptor.flags = wgpu::InstanceFlags::empty();
        let found = without_chatter(|| {
            let instance = wgpu::Instance::new(descriptor);
            ready(instance.enumerate_adapters(backends))
        });
        found.into_iter().enumerate().map(|(i, raw)| GpuAdapter::new(i, raw)).collect()
    })
}

/// Every adapter with its current memory: from NVML for `nvidia`, otherwise from the kernel's
/// files.
pub(super) fn described(nvidia: Option<&Gpu>) -> Vec<Adapter> {
    let describe = |adapter: &GpuAdapter| {
        let mut info = adapter.info.clone();
        if !info.shares_memory() {
            let same = nvidia.filter(|gpu| info.name.contains(&gpu.name));
            info.memory = match same {
                Some(gpu) => {
                    let used = gpu.vram_total.saturating_sub(gpu.vram_free);
                    Some(Vram { total: gpu.vram_total, used })
                }
                None => vram::of(Path::new(vram::DEVICES), &adapter.bus),
            };
        }
        info
    };
    adapters().iter().map(describe).collect()
}

/// Runs something during which drivers write unwanted messages to standard error (for example, that
/// there is no display), which would appear in the user's terminal.
fn without_chatter<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(unix)]
    {
        let kept = rustix::io::dup(rustix::stdio::stderr()).ok();
        let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null").ok();
        let silent =
            kept.zip(nowhere).filter(|(_, nowhere)| rustix::stdio::dup2_stderr(nowhere).is_ok());
        let done = work();
        if let Some((kept, _)) = silent {
            // The original can be restored.
            let _ = rustix::stdio::dup2_stderr(&kept);
        }
        done
    }
    #[cfg(not(unix))]
    work()
}

/// The result of a future that is ready, or soon will be, without a runtime to drive it, as with a
/// GPU library outside of a browser.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_are_numbered_and_named() {
        for (number, adapter) in adapters().iter().enumerate() {
            assert_eq!(adapter.info.number, number);
            assert!(!adapter.info.name.is_empty());
            assert!(["Vulkan", "Metal", "Dx12"].contains(&adapter.info.interface.as_str()));
        }
        if adapters().is_empty() {
            eprintln!("left out: no GPU adapter, not even a software one");
        }
    }

    #[test]
    fn a_future_that_waits_for_a_while_is_ready_then() {
        let mut asked = 0;
        let slow = std::future::poll_fn(|_| {
            asked += 1;
            if asked < 3 { Poll::Pending } else { Poll::Ready(asked) }
        });
        assert_eq!(ready(slow), 3);
    }
}
