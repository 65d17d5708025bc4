//! NVIDIA's cards through NVML, each found by its place on the PCI bus. Without a driver, the
//! result is a sentence and never an error. It must not depend on what a card is used for.

use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};

use super::vram::Vram;

/// A card as it was at start.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Its own name, e.g. `NVIDIA GeForce GTX 1650`.
    pub name: String,
    /// Its place on the PCI bus, `0000:01:00.0`.
    pub bus: String,
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

/// What a card is doing now.
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

/// A process on a card and its video memory in bytes, if the driver says how much.
pub(super) type GpuProcess = (u32, Option<u64>);

/// What NVML says about a card.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CardState {
    pub load: Option<f32>,
    pub memory: Vram,
    pub compute: Vec<GpuProcess>,
    pub graphics: Vec<GpuProcess>,
}

impl CardState {
    /// The same from the point of view of process `pid`. Some drivers list a Vulkan program among
    /// the graphics processes, others among the compute processes or in both lists, each time with
    /// all its memory.
    pub fn seen_by(&self, pid: u32) -> GpuUsage {
        let ours = self.compute.iter().chain(&self.graphics).filter(|process| process.0 == pid);
        GpuUsage {
            load: self.load,
            vram_used: self.memory.used,
            vram_total: self.memory.total,
            vram_ours: ours.filter_map(|process| process.1).max(),
        }
    }
}

/// The questions to NVML; tests answer them with a driver of their own.
pub(super) trait NvidiaDriver: Send {
    /// Every card that answers.
    fn cards(&self) -> Vec<Gpu>;
    /// What the card at this place on the PCI bus is doing; `None` if it does not answer.
    fn state(&self, bus: &str) -> Option<CardState>;
}

/// Opens NVML, or says in one sentence why there is no GPU, e.g. `no NVIDIA GPU: the driver is not
/// installed`.
pub(super) fn open() -> Result<Box<dyn NvidiaDriver>, String> {
    match Nvml::init() {
        Ok(nvml) => Ok(Box::new(nvml)),
        Err(NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound) => {
            Err("no NVIDIA GPU: the driver is not installed".to_owned())
        }
        Err(NvmlError::DriverNotLoaded) => {
            Err("no NVIDIA GPU: the driver is not running".to_owned())
        }
        Err(other) => Err(format!("no NVIDIA GPU: the driver reports \"{other}\"")),
    }
}

/// The card of an adapter: the one in its place or, if the place is unknown, the only one of its
/// name.
pub(super) fn of_adapter<'a>(cards: &'a [Gpu], bus: &str, name: &str) -> Option<&'a Gpu> {
    let there = cards.iter().find(|card| card.bus == bus);
    let mut same = cards.iter().filter(|card| name.contains(&card.name));
    let only = same.next().filter(|_| same.next().is_none());
    there.or(only)
}

impl NvidiaDriver for Nvml {
    fn cards(&self) -> Vec<Gpu> {
        let all = 0..self.device_count().unwrap_or(0);
        all.filter_map(|index| describe(self, &self.device_by_index(index).ok()?).ok()).collect()
    }

    fn state(&self, bus: &str) -> Option<CardState> {
        let device = self.device_by_pci_bus_id(bus).ok()?;
        let memory = device.memory_info().ok()?;
        Some(CardState {
            load: device.utilization_rates().ok().map(|rates| rates.gpu as f32 / 100.0),
            memory: Vram { total: memory.total, used: memory.used },
            compute: processes(device.running_compute_processes()),
            graphics: processes(device.running_graphics_processes()),
        })
    }
}

fn describe(nvml: &Nvml, device: &Device<'_>) -> Result<Gpu, NvmlError> {
    let memory = device.memory_info()?;
    let place = device.pci_info()?;
    let bandwidth = device.max_clock_info(Clock::Memory).ok().zip(device.memory_bus_width().ok());
    Ok(Gpu {
        name: device.name()?,
        // As the adapters write it: NVML's own spelling has eight digits of the domain.
        bus: format!("{:04x}:{:02x}:{:02x}.0", place.domain, place.bus, place.device),
        driver: nvml.sys_driver_version().unwrap_or_else(|_| "unknown".into()),
        vram_total: memory.total,
        vram_free: memory.free,
        // Two transfers per clock; bus width in bits.
        bandwidth: bandwidth
            .map(|(mhz, bits)| f64::from(mhz) * 1e6 * 2.0 * f64::from(bits) / 8.0)
            .filter(|rate| *rate > 0.0),
    })
}

fn processes(found: Result<Vec<ProcessInfo>, NvmlError>) -> Vec<GpuProcess> {
    let memory = |used| match used {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    };
    let found = found.unwrap_or_default().into_iter();
    found.map(|process| (process.pid, memory(process.used_gpu_memory))).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    pub(in crate::hardware) const PLACES: [&str; 2] = ["0000:01:00.0", "0000:41:00.0"];

    /// A driver of two identical cards. On the second one, this process has `ours` bytes.
    #[derive(Clone, Default)]
    pub(in crate::hardware) struct TwoCards {
        pub ours: Arc<AtomicU64>,
    }

    impl NvidiaDriver for TwoCards {
        fn cards(&self) -> Vec<Gpu> {
            let card = |bus: &str| Gpu {
                name: "NVIDIA TestForce".to_owned(),
                bus: bus.to_owned(),
                driver: "1".to_owned(),
                vram_total: 8 << 30,
                vram_free: 7 << 30,
                bandwidth: None,
            };
            PLACES.map(card).to_vec()
        }

        fn state(&self, bus: &str) -> Option<CardState> {
            let memory = |used| Vram { total: 8 << 30, used };
            let ours = self.ours.load(Ordering::Relaxed);
            match PLACES.iter().position(|place| *place == bus)? {
                0 => Some(CardState { memory: memory(5), ..CardState::default() }),
                _ => Some(CardState {
                    load: Some(0.5),
                    memory: memory(ours + 100),
                    compute: vec![(1, Some(100))],
                    graphics: vec![(std::process::id(), Some(ours))],
                }),
            }
        }
    }

    #[test]
    fn identical_cards_are_told_apart_by_their_places() {
        let cards = TwoCards::default().cards();
        let name = "NVIDIA TestForce";
        for card in &cards {
            assert_eq!(of_adapter(&cards, &card.bus, name), Some(card));
        }
        // Where the place is unknown, a name is enough only if one card has it.
        assert_eq!(of_adapter(&cards, "", name), None);
        assert_eq!(of_adapter(&cards[1..], "", "NVIDIA TestForce/PCIe"), Some(&cards[1]));
        assert_eq!(of_adapter(&cards[1..], "0000:99:00.0", "another card"), None);
    }

    #[test]
    fn a_process_is_found_in_either_list_and_counted_once() {
        let ours = |compute: &[GpuProcess], graphics: &[GpuProcess]| {
            let (compute, graphics) = (compute.to_vec(), graphics.to_vec());
            CardState { compute, graphics, ..CardState::default() }.seen_by(7).vram_ours
        };
        assert_eq!(ours(&[(7, Some(30)), (8, Some(90))], &[]), Some(30));
        assert_eq!(ours(&[(8, Some(90))], &[(7, Some(40))]), Some(40));
        assert_eq!(ours(&[(7, Some(40))], &[(7, Some(40))]), Some(40));
        assert_eq!(ours(&[(7, None)], &[(8, Some(90))]), None);
    }
}
