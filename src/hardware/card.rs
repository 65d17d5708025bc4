//! The card whose load and memory are sampled: that of the adapter in use. It must not depend on
//! what it is used for.

use std::path::Path;

use super::adapters::{Adapter, adapters};
use super::gpu::{self, GpuUsage, NvidiaDriver};
use super::vram::{self, Vram};

/// A card whose driver says how its memory is used, at its place on the PCI bus.
pub(super) enum Card {
    /// NVML also knows its load and its processes.
    Nvidia(Box<dyn NvidiaDriver>, String),
    /// One of the kernel's files.
    Other(String),
}

impl Card {
    /// The card of the adapter with this number; `None` if no driver says anything about it.
    pub fn of(adapter: usize) -> Option<Self> {
        let adapter = &adapters().get(adapter)?.info;
        let nvidia = gpu::open().ok().and_then(|driver| Self::nvidia(driver, adapter));
        nvidia.or_else(|| {
            let bus = &adapter.bus;
            vram::of(Path::new(vram::DEVICES), bus).map(|_| Self::Other(bus.clone()))
        })
    }

    pub fn nvidia(driver: Box<dyn NvidiaDriver>, adapter: &Adapter) -> Option<Self> {
        let cards = driver.cards();
        let bus = gpu::of_adapter(&cards, &adapter.bus, &adapter.name)?.bus.clone();
        Some(Self::Nvidia(driver, bus))
    }

    /// What it is doing, from the point of view of process `pid`; `None` if its driver stopped
    /// answering.
    pub fn usage(&self, pid: u32) -> Option<GpuUsage> {
        match self {
            Self::Nvidia(driver, bus) => Some(driver.state(bus)?.seen_by(pid)),
            Self::Other(bus) => {
                let Vram { total, used } = vram::of(Path::new(vram::DEVICES), bus)?;
                Some(GpuUsage { load: None, vram_used: used, vram_total: total, vram_ours: None })
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::hardware::adapters::tests::card;
    use crate::hardware::gpu::tests::{PLACES, TwoCards};

    /// The second of two identical cards.
    pub(in crate::hardware) fn second(driver: &TwoCards) -> Card {
        Card::nvidia(Box::new(driver.clone()), &card("Vulkan", PLACES[1])).unwrap()
    }
}
