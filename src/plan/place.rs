//! Where the draft runs and how many of its blocks fit there. It must never open a device.

use super::cost_inputs::DraftSize;
use super::overrides::DeviceChoice;
use super::reason::{GpuMemory, Obstacle, Reason};
use crate::hardware::{Adapter, AdapterKind, GpuFinding, Machine};

/// A kind of device on which a draft can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftDevice {
    /// The CPU, which it then shares with the target.
    Cpu,
    /// The GPU of this number.
    Gpu(usize),
}

/// The decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The device.
    pub device: DraftDevice,
    /// The most bytes that may be used there.
    pub room: u64,
    /// How many blocks of the head fit there; the whole head unless it is elastic.
    pub blocks: usize,
    /// Why.
    pub reason: Reason,
    /// Whether the user does not get what they requested.
    pub refused: bool,
}

/// How much the buffers of a draft's pass take on a GPU, in addition to weights and cache.
pub const BUFFER_BYTES: u64 = 32 << 20;

/// What a draft would take on a GPU.
#[derive(Clone, Copy, Debug)]
pub struct GpuDraftSize {
    /// Its weights.
    pub draft: DraftSize,
    /// Bytes of the KV cache of one block.
    pub cache: u64,
}

/// A GPU and what it has available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuRoom {
    /// Its number.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// How many bytes may be used there.
    pub bytes: u64,
    /// What is known of its memory.
    pub memory: GpuMemory,
}

/// The GPU that is wanted and can be used; otherwise why there is none. `vram` is the GPU memory
/// that the user stated.
///
/// # Errors
/// The reason.
pub fn gpu_room(
    choice: DeviceChoice,
    machine: &Machine,
    vram: Option<u64>,
) -> Result<GpuRoom, Obstacle> {
    let adapters = &machine.adapters;
    let adapter = match (choice, &machine.gpu) {
        (DeviceChoice::Cpu, _) => return Err(Obstacle::Chosen),
        (DeviceChoice::Gpu(Some(number)), _) => {
            adapters.get(number).ok_or_else(|| no_adapter(number, adapters))?
        }
        (DeviceChoice::Auto, GpuFinding::Found(gpu)) => {
            best_adapter(adapters).ok_or_else(|| Obstacle::NoVulkan(gpu.name.clone()))?
        }
        _ => best_adapter(adapters).ok_or_else(|| no_hardware(adapters))?,
    };
    Ok(adapter_room(adapter, machine, vram))
}

/// Why a GPU that the user requested is not used; `None` if it is, or if none was requested.
pub fn refused_device(
    choice: DeviceChoice,
    machine: &Machine,
    vram: Option<u64>,
) -> Option<Obstacle> {
    match choice {
        DeviceChoice::Gpu(_) => gpu_room(choice, machine, vram).err(),
        DeviceChoice::Auto | DeviceChoice::Cpu => None,
    }
}

/// Why none of these adapters is chosen automatically.
pub fn no_hardware(adapters: &[Adapter]) -> Obstacle {
    match adapters.first() {
        None => Obstacle::NoGpu,
        Some(adapter) => {
            Obstacle::SoftwareOnly { name: adapter.name.clone(), number: adapter.number }
        }
    }
}

/// The adapter to use if none is named: one with its own memory before one without, never software.
pub fn best_adapter(adapters: &[Adapter]) -> Option<&Adapter> {
    let rank = |adapter: &&Adapter| match adapter.kind {
        AdapterKind::Discrete => 0,
        AdapterKind::Virtual => 1,
        AdapterKind::Integrated => 2,
        AdapterKind::Unknown => 3,
        AdapterKind::Software => 4,
    };
    let usable = adapters.iter().filter(|adapter| adapter.kind != AdapterKind::Software);
    usable.min_by_key(rank)
}

fn no_adapter(number: usize, adapters: &[Adapter]) -> Obstacle {
    let others = adapters.iter().map(|adapter| (adapter.number, adapter.name.clone())).collect();
    Obstacle::NoSuchGpu { number, others }
}

fn adapter_room(adapter: &Adapter, machine: &Machine, vram: Option<u64>) -> GpuRoom {
    let (bytes, memory) = match (vram, adapter.memory) {
        (Some(vram), _) => (vram, GpuMemory::Given(vram)),
        (None, _) if adapter.shares_memory() => (machine.memory.free / 2, GpuMemory::Shared),
        (None, Some(memory)) => {
            let free = memory.free();
            (free / 10 * 9, GpuMemory::Known { free, total: memory.total })
        }
        // Its driver will report when it is full.
        (None, None) => (u64::MAX, GpuMemory::Unknown),
    };
    GpuRoom { number: adapter.number, name: adapter.name.clone(), bytes, memory }
}

impl Placement {
    /// A draft of this many blocks on the CPU.
    pub fn on_cpu(blocks: usize, why: Obstacle) -> Self {
        Self {
            device: DraftDevice::Cpu,
            room: 0,
            blocks,
            reason: Reason::DraftOnCpu(why),
            refused: false,
        }
    }

    /// Why it is on the CPU; `None` if it is not.
    pub fn why_on_cpu(&self) -> Option<&Obstacle> {
        match &self.reason {
            Reason::DraftOnCpu(why) => Some(why),
            _ => None,
        }
    }
}

/// Decides where a draft of this size runs. A GPU is used if the head (if elastic, at least one
/// block) fits in its free memory with a tenth to spare. Then the target
/// keeps the CPU to itself and drafting costs it nothing (method.md, Cost model). Otherwise the
/// draft runs on the CPU.
pub fn place(
    choice: DeviceChoice,
    machine: &Machine,
    vram: Option<u64>,
    size: GpuDraftSize,
) -> Placement {
    let GpuDraftSize { draft, cache } = size;
    let refused = matches!(choice, DeviceChoice::Gpu(_));
    let cpu = |why: Obstacle| Placement { refused, ..Placement::on_cpu(draft.blocks, why) };
    let GpuRoom { number, name, bytes, memory } = match gpu_room(choice, machine, vram) {
        Ok(room) => room,
        Err(why) => return cpu(why),
    };
    let need = |blocks: usize| {
        let weights = (draft.fixed + draft.lookup + blocks as u64 * draft.block) as f64;
        (weights * draft.bytes_per_weight) as u64 + blocks as u64 * cache + BUFFER_BYTES
    };
    let least = if draft.elastic { 1 } else { draft.blocks };
    let Some(blocks) = (least..=draft.blocks).rev().find(|&blocks| need(blocks) <= bytes) else {
        let needed = need(least);
        let why = Obstacle::DraftTooLarge { needed, gpu: name, room: bytes, memory };
        return cpu(why);
    };
    let fit = (blocks < draft.blocks).then_some((blocks, draft.blocks));
    Placement {
        device: DraftDevice::Gpu(number),
        room: bytes,
        blocks,
        reason: Reason::DraftOnGpu { gpu: name, memory, fit },
        refused: false,
    }
}
