//! The GPUs that can be used without a toolkit, as listed by the machine's drivers (Vulkan, Metal,
//! DirectX 12). It must not depend on what is computed on them.

use std::path::Path;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

use super::gpu::{self, Gpu};
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
#[derive(Clone, Debug, PartialEq)]
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
    /// Its place on the PCI bus, `0000:01:00.0`; empty if its driver does not say.
    pub bus: String,
    /// Its memory; `None` if it is unknown, or if it is the main memory.
    pub memory: Option<Vram>,
    /// Its memory's bandwidth in bytes per second, if the driver says.
    pub bandwidth: Option<f64>,
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
    /// What it is, without its memory.
    pub info: Adapter,
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
        let (memory, bandwidth) = (None, None);
        let info = Adapter { number, name, kind, interface, driver, bus, memory, bandwidth };
        Self { info, raw }
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
        let mut found: Vec<_> =
            found.into_iter().enumerate().map(|(i, raw)| GpuAdapter::new(i, raw)).collect();
        forget_shared_places(found.iter_mut().map(|adapter| &mut adapter.info));
        found
    })
}

/// The library finds a place on the bus by the card's model for DirectX 12, so that identical cards
/// all get the first one's: then the place of each is unknown.
fn forget_shared_places<'a>(adapters: impl Iterator<Item = &'a mut Adapter>) {
    let mut adapters: Vec<_> = adapters.filter(|adapter| adapter.interface == "Dx12").collect();
    let places: Vec<String> = adapters.iter().map(|adapter| adapter.bus.clone()).collect();
    for adapter in &mut adapters {
        if places.iter().filter(|place| **place == adapter.bus).count() > 1 {
            adapter.bus.clear();
        }
    }
}

/// Every adapter with its current memory and its bandwidth: from NVML for its `cards`, otherwise
/// from the kernel's files.
pub(super) fn described(cards: &[Gpu]) -> Vec<Adapter> {
    adapters().iter().map(|adapter| with_memory(adapter.info.clone(), cards)).collect()
}

fn with_memory(mut adapter: Adapter, cards: &[Gpu]) -> Adapter {
    if adapter.shares_memory() {
        return adapter;
    }
    adapter.memory = match gpu::of_adapter(cards, &adapter.bus, &adapter.name) {
        Some(card) => {
            adapter.bandwidth = card.bandwidth;
            let used = card.vram_total.saturating_sub(card.vram_free);
            Some(Vram { total: card.vram_total, used })
        }
        None => vram::of(Path::new(vram::DEVICES), &adapter.bus),
    };
    adapter
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
pub(super) mod tests {
    use super::*;
    use crate::hardware::gpu::NvidiaDriver;
    use crate::hardware::gpu::tests::{PLACES, TwoCards};

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

    /// One of several identical cards.
    pub(in crate::hardware) fn card(interface: &str, bus: &str) -> Adapter {
        Adapter {
            number: 0,
            name: "NVIDIA TestForce".to_owned(),
            kind: AdapterKind::Discrete,
            interface: interface.to_owned(),
            driver: String::new(),
            bus: bus.to_owned(),
            memory: None,
            bandwidth: None,
        }
    }

    #[test]
    fn each_of_two_identical_cards_has_its_own_memory() {
        let mut cards = TwoCards::default().cards();
        cards[1].vram_free = 1 << 30;
        cards[1].bandwidth = Some(2e12);
        let described = |bus| with_memory(card("Vulkan", bus), &cards);
        let free = |bus| described(bus).memory.map(Vram::free);
        assert_eq!(PLACES.map(free), [Some(7 << 30), Some(1 << 30)]);
        assert_eq!(PLACES.map(|bus| described(bus).bandwidth), [None, Some(2e12)]);
        assert_eq!(free(""), None);
    }

    #[test]
    fn a_place_that_several_adapters_claim_is_nobodys() {
        let [first, second] = PLACES;
        let mut all = [("Vulkan", first), ("Dx12", first), ("Dx12", first), ("Dx12", second)]
            .map(|(interface, bus)| card(interface, bus));
        forget_shared_places(all.iter_mut());
        assert_eq!(all.map(|adapter| adapter.bus), [first, "", "", second]);
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
