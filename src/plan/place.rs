//! Which GPU is used, how many blocks of a draft or of the target have room there (method.md, Split
//! target), and which of several draft heads is used if they cannot be cut to the room (method.md,
//! Draft heads). It must never open a device or move a block.

use super::overrides::{DeviceChoice, Limits, Setting};
use super::reason::{GpuMemory, Obstacle, Reason};
use crate::hardware::{Adapter, AdapterKind, Machine, Vram};
use std::cmp::Reverse;

/// How many blocks of the target may be requested on the GPU.
pub const LAYERS: Limits = Limits { least: 0, most: 4096 };

/// Where the user wants the target's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuLayers {
    /// So many of the first are held on a GPU.
    Held(Setting),
    /// All of them are sent to a GPU in every pass.
    Streamed,
}

impl std::fmt::Display for GpuLayers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Held(setting) => setting.fmt(f),
            Self::Streamed => f.write_str("stream"),
        }
    }
}

/// How much the buffers of a draft's pass take on a GPU, in addition to weights and cache.
pub const BUFFER_BYTES: u64 = 32 << 20;

/// Where a draft or the target's blocks go.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The number of its GPU; `None` means the CPU, which draft and target may share.
    pub gpu: Option<usize>,
    /// The most bytes that may be used there.
    pub room: u64,
    /// How many blocks of the draft run there: all of them unless it is elastic. For the target,
    /// how many blocks are on the GPU; if all of them are, the final norm and the LM head are too.
    pub blocks: usize,
    /// Whether the user requested a GPU for it.
    pub requested: bool,
    /// Why.
    pub reason: Reason,
}

impl Placement {
    /// On the CPU, with the reason.
    pub fn on_cpu(blocks: usize, requested: bool, reason: Reason) -> Self {
        Self { gpu: None, room: 0, blocks, requested, reason }
    }

    /// Why the user does not get the requested GPU; `None` if they do, or if none was requested.
    pub fn refused(&self) -> Option<&Reason> {
        (self.requested && self.gpu.is_none()).then_some(&self.reason)
    }
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

/// The size of the target's blocks on a GPU in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerSize {
    /// How many blocks the target has.
    pub layers: usize,
    /// One block, including its KV cache.
    pub layer: u64,
    /// The KV cache of one block.
    pub cache: u64,
    /// The final norm and the LM head, which move together with the last block.
    pub head: u64,
}

impl LayerSize {
    /// How many bytes the first `layers` blocks take, with the LM head if these are all.
    pub fn held(&self, layers: usize) -> u64 {
        layers as u64 * self.layer + if layers == self.layers { self.head } else { 0 }
    }

    /// Bytes of all weights, which main memory holds if they are streamed.
    pub fn weights(&self) -> u64 {
        self.layers as u64 * (self.layer - self.cache) + self.head
    }

    /// How many bytes the blocks take if every pass sends them to two stages in turn: the stages,
    /// the KV cache of all blocks, and the LM head.
    pub fn streamed(&self) -> u64 {
        2 * (self.layer - self.cache) + self.layers as u64 * self.cache + self.head
    }

    /// How many blocks fit in `room` if others take this many bytes of it.
    pub(super) fn fitting(&self, room: u64, taken: u64) -> usize {
        let left = room.saturating_sub(taken);
        let fit = (left / self.layer.max(1)).min(self.layers as u64) as usize;
        if self.held(fit) > left { fit.saturating_sub(1) } else { fit }
    }
}

/// How many bytes drafts will take on the target's GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DraftBytes {
    /// What will be there in any case.
    pub draft: u64,
    /// A small model. It has room next to a part of the target; next to the whole target it drafts
    /// on the CPU.
    pub small: u64,
}

impl DraftBytes {
    /// Both together.
    pub fn sum(self) -> u64 {
        self.draft.saturating_add(self.small)
    }
}

/// The adapter that is wanted; otherwise why there is none.
///
/// # Errors
/// The reason.
pub fn chosen_adapter(choice: DeviceChoice, machine: &Machine) -> Result<&Adapter, Obstacle> {
    let adapters = &machine.adapters;
    match (choice, &machine.gpu) {
        (DeviceChoice::Cpu, _) => Err(Obstacle::Chosen),
        (DeviceChoice::Gpu(Some(number)), _) => {
            let name = |adapter: &Adapter| (adapter.number, adapter.name.clone());
            let others = || adapters.iter().map(name).collect();
            adapters.get(number).ok_or_else(|| Obstacle::NoSuchGpu { number, others: others() })
        }
        (DeviceChoice::Auto, Ok(gpu)) => {
            best_adapter(adapters).ok_or_else(|| Obstacle::NoVulkan(gpu.name.clone()))
        }
        _ => best_adapter(adapters).ok_or_else(|| no_hardware(adapters)),
    }
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
    let adapter = chosen_adapter(choice, machine)?;
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
    Ok(GpuRoom { number: adapter.number, name: adapter.name.clone(), bytes, memory })
}

/// Why none of these adapters is chosen automatically.
fn no_hardware(adapters: &[Adapter]) -> Obstacle {
    match adapters.first() {
        None => Obstacle::NoGpu,
        Some(adapter) => {
            Obstacle::SoftwareOnly { name: adapter.name.clone(), number: adapter.number }
        }
    }
}

/// The adapter to use if none is named: one with its own memory before one without, never software;
/// of several of a kind the one with the most free memory, if their drivers say it.
pub fn best_adapter(adapters: &[Adapter]) -> Option<&Adapter> {
    let rank = |adapter: &&Adapter| match adapter.kind {
        AdapterKind::Discrete => 0,
        AdapterKind::Virtual => 1,
        AdapterKind::Integrated => 2,
        AdapterKind::Unknown => 3,
        AdapterKind::Software => 4,
    };
    let usable = adapters.iter().filter(|adapter| adapter.kind != AdapterKind::Software);
    let free = |adapter: &&Adapter| adapter.memory.map_or(0, Vram::free);
    usable.min_by_key(|adapter| (rank(adapter), Reverse(free(adapter))))
}

/// Decides where a draft runs that can do so with `least` to `most` blocks, of which `bytes` gives
/// the size on a GPU. A GPU is used if the draft fits in its room. Then the target keeps the CPU to
/// itself and drafting costs it nothing (method.md, Cost model). Otherwise it runs on the CPU.
pub fn place_draft(
    room: Result<GpuRoom, Obstacle>,
    requested: bool,
    least: usize,
    most: usize,
    bytes: impl Fn(usize) -> u64,
) -> Placement {
    let stay = |why| Placement::on_cpu(most, requested, Reason::DraftOnCpu(why));
    let GpuRoom { number, name: gpu, bytes: room, memory } = match room {
        Ok(found) => found,
        Err(why) => return stay(why),
    };
    let need = |blocks: usize| bytes(blocks) + BUFFER_BYTES;
    let Some(blocks) = (least..=most).rev().find(|&blocks| need(blocks) <= room) else {
        return stay(Obstacle::DraftTooLarge { needed: need(least), gpu, room, memory });
    };
    let fit = (blocks < most).then_some((blocks, most));
    let reason = Reason::DraftOnGpu { gpu, memory, fit };
    Placement { gpu: Some(number), room, blocks, requested, reason }
}

/// Decides how many blocks of the target leave the CPU: as many as requested and as fit together
/// with the drafts, from the bottom up.
pub fn place_layers(
    setting: Setting,
    room: Result<GpuRoom, Obstacle>,
    size: LayerSize,
    drafts: DraftBytes,
) -> Placement {
    let requested = setting != Setting::Fixed(0);
    let room = if requested { room } else { Err(Obstacle::Chosen) };
    let stay = |why| Placement::on_cpu(0, requested, Reason::TargetOnCpu(why));
    let GpuRoom { number, name: gpu, bytes: room, .. } = match room {
        Ok(found) => found,
        Err(why) => return stay(why),
    };
    let of = size.layers;
    let wanted = setting.or(of).min(of);
    let both = drafts.sum();
    let is_whole = wanted == of && size.fitting(room, drafts.draft) == of;
    // A small model that does not fit there drafts on the CPU anyway.
    let draft = if is_whole || both > room { drafts.draft } else { both };
    let layers = wanted.min(size.fitting(room, draft));
    if layers == 0 {
        return stay(Obstacle::BlockTooLarge { block: size.layer, draft, gpu, room });
    }
    let reason = if layers == of {
        Reason::TargetOnGpu { gpu }
    } else {
        let asked = (setting.is_fixed() && layers < wanted).then_some(wanted);
        Reason::TargetSplit { gpu, layers, of, asked }
    };
    Placement { gpu: Some(number), room, blocks: layers, requested, reason }
}

/// All `layers` blocks of the target are computed on a GPU, to which every pass sends them from
/// main memory; or on the CPU if there is no such GPU.
pub fn stream_layers(room: Result<GpuRoom, Obstacle>, layers: usize) -> Placement {
    match room {
        Ok(GpuRoom { number, name: gpu, bytes, .. }) => Placement {
            gpu: Some(number),
            room: bytes,
            blocks: layers,
            requested: true,
            reason: Reason::TargetStreamed { gpu },
        },
        Err(why) => Placement::on_cpu(0, true, Reason::TargetOnCpu(why)),
    }
}

/// A possible head and its evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadForecast {
    /// The name that the user gave it.
    pub name: String,
    /// M; for an elastic head, the most blocks that fit.
    pub blocks: usize,
    /// The expected tokens per second, or why it cannot be used.
    pub rate: Result<f64, Obstacle>,
}

/// Rates closer to each other than this fraction count as equal.
const ALIKE: f64 = 1e-6;

/// The head to use and why: the one with the most expected tokens per second; of equal ones the one
/// with the most blocks, then the first. `on_gpu` is where it would run. `None` if none can be
/// used.
pub fn best_head(heads: &[HeadForecast], on_gpu: bool) -> Option<(usize, Reason)> {
    let mut best: Option<(usize, usize, f64)> = None;
    for (index, head) in heads.iter().enumerate() {
        let &Ok(rate) = &head.rate else { continue };
        let is_better = best.is_none_or(|(_, blocks, most)| {
            let alike = (rate - most).abs() <= ALIKE * most;
            if alike { head.blocks > blocks } else { rate > most }
        });
        if is_better {
            best = Some((index, head.blocks, rate));
        }
    }
    let (taken, ..) = best?;
    Some((taken, Reason::HeadChosen { heads: heads.to_vec(), taken, on_gpu }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(name: &str, blocks: usize, rate: Result<f64, Obstacle>) -> HeadForecast {
        HeadForecast { name: name.into(), blocks, rate }
    }

    #[test]
    fn of_several_cards_of_a_kind_the_one_with_the_most_free_memory_is_taken() {
        use AdapterKind::{Discrete, Integrated, Software};
        let memory = |free: Option<u64>| free.map(|free| Vram { total: 24, used: 24 - free });
        let best = |cards: &[(AdapterKind, Option<u64>)]| {
            let card = |(number, &(kind, free)): (usize, &_)| Adapter {
                number,
                ..crate::plan::tests::adapter("card", kind, memory(free))
            };
            let cards: Vec<Adapter> = cards.iter().enumerate().map(card).collect();
            best_adapter(&cards).map(|best| best.number)
        };
        assert_eq!(
            best(&[(Discrete, Some(2)), (Discrete, Some(20)), (Discrete, Some(9))]),
            Some(1)
        );
        assert_eq!(best(&[(Discrete, Some(9)), (Discrete, Some(9))]), Some(0));
        assert_eq!(best(&[(Discrete, None), (Discrete, Some(1))]), Some(1));
        assert_eq!(best(&[(Integrated, None), (Discrete, Some(0))]), Some(1));
        assert_eq!(best(&[(Software, None)]), None);
    }

    #[test]
    fn the_best_that_fits_is_taken_and_all_others_are_reported() {
        let heads = [
            head("a", 1, Ok(30.0)),
            head("b", 2, Ok(42.04)),
            head("c", 3, Ok(41.0)),
            head("d", 4, Err(Obstacle::MainMemory { needed: 9, free: 8 })),
        ];
        let reason = Reason::HeadChosen { heads: heads.to_vec(), taken: 1, on_gpu: true };
        assert_eq!(best_head(&heads, true), Some((1, reason)));
    }

    #[test]
    fn where_nothing_tells_heads_apart_the_one_with_most_blocks_is_taken() {
        let same = |blocks: [usize; 3]| blocks.map(|blocks| head("x", blocks, Ok(10.0))).to_vec();
        // Nearly equal rates are distinguished.
        let near = vec![head("x", 4, Ok(10.0)), head("y", 1, Ok(10.01))];
        let none = vec![head("x", 1, Err(Obstacle::NoRoomNextToTarget))];
        for (heads, expected) in [
            (same([1, 4, 2]), Some(1)),
            (same([2, 2, 2]), Some(0)),
            (same([1, 2, 4]), Some(2)),
            (near, Some(1)),
            (none, None),
            (Vec::new(), None),
        ] {
            let best = best_head(&heads, false).map(|(index, _)| index);
            assert_eq!(best, expected, "{heads:?}");
        }
    }
}
