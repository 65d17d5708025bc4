//! Where the draft runs and how many of its blocks fit there. Must never open a device.

use super::cost_inputs::DraftSize;
use super::overrides::DeviceChoice;
use crate::hardware::{GpuFinding, Machine};

/// A kind of device a draft can run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftDevice {
    /// The CPU, which it then shares with the target.
    Cpu,
    /// The first NVIDIA GPU.
    Cuda,
    /// The Apple GPU.
    Metal,
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Where.
    pub device: DraftDevice,
    /// Blocks of the head that fit there; the whole head unless it is elastic.
    pub blocks: usize,
    /// Why these are not all of its blocks, a clause; `None` where they are.
    pub limit: Option<String>,
    /// Why, in one sentence.
    pub reason: String,
    /// Whether the user asked for something else than they get.
    pub refused: bool,
}

/// What a CUDA context and candle's kernels take before the first tensor, generously.
const CONTEXT_BYTES: u64 = 400 << 20;

/// The GPU that this build can use, its name and the bytes it has to give; else why there is none.
pub(super) fn room(machine: &Machine) -> Result<(DraftDevice, &str, u64), String> {
    let built = |name: &str| machine.built_with.contains(&name);
    if built("metal") {
        // Its memory is the machine's own: half of what is free leaves room for the rest.
        return Ok((DraftDevice::Metal, "the Apple GPU", machine.memory.free / 2));
    }
    let gpu = match &machine.gpu {
        GpuFinding::Absent { reason } => return Err(reason.clone()),
        GpuFinding::Found(gpu) => gpu,
    };
    if !built("cuda") {
        return Err(idle(&gpu.name));
    }
    Ok((DraftDevice::Cuda, &gpu.name, (gpu.vram_free / 10 * 9).saturating_sub(CONTEXT_BYTES)))
}

fn idle(gpu: &str) -> String {
    format!("{gpu} is idle because this build has no CUDA (build with --features cuda)")
}

/// Decides where `draft` runs. `cache_bytes` is its KV cache for one block at the context in use.
/// A GPU is taken when this build can use it and the head (of an elastic one, at least one block)
/// fits into its free memory with a tenth to spare: then the target keeps the CPU to itself and
/// drafting costs it nothing (method.md, Cost model). Everything else drafts on the CPU.
pub fn place(
    choice: DeviceChoice,
    machine: &Machine,
    draft: &DraftSize,
    cache_bytes: u64,
) -> Placement {
    let built = |name: &str| machine.built_with.contains(&name);
    let cpu = |reason: String, refused: bool| Placement {
        device: DraftDevice::Cpu,
        blocks: draft.blocks,
        limit: None,
        reason: format!("Drafting runs on the CPU: {reason}."),
        refused,
    };
    match choice {
        DeviceChoice::Cpu => return cpu("as you asked".into(), false),
        DeviceChoice::Metal if !built("metal") => {
            return cpu("this build has no Metal (build with --features metal)".into(), true);
        }
        DeviceChoice::Cuda if !built("cuda") => {
            return cpu("this build has no CUDA (build with --features cuda)".into(), true);
        }
        DeviceChoice::Auto | DeviceChoice::Metal if built("metal") => {
            return Placement {
                device: DraftDevice::Metal,
                blocks: draft.blocks,
                limit: None,
                reason: "Drafting runs on the Apple GPU, which shares the main memory.".into(),
                refused: false,
            };
        }
        _ => {}
    }
    let asked = choice == DeviceChoice::Cuda;
    let gpu = match &machine.gpu {
        GpuFinding::Absent { reason } => return cpu(reason.clone(), asked),
        GpuFinding::Found(gpu) => gpu,
    };
    if !built("cuda") {
        return cpu(idle(&gpu.name), false);
    }
    let room = (gpu.vram_free / 10 * 9).saturating_sub(CONTEXT_BYTES);
    let need = |blocks: usize| {
        let weights = (draft.fixed + draft.lookup + blocks as u64 * draft.block) as f64;
        (weights * draft.bytes_per_weight) as u64 + blocks as u64 * cache_bytes
    };
    let least = if draft.elastic { 1 } else { draft.blocks };
    let Some(blocks) = (least..=draft.blocks).rev().find(|&blocks| need(blocks) <= room) else {
        let reason = format!(
            "the draft needs {} MiB of video memory and {} has {} MiB free",
            (need(least) + CONTEXT_BYTES) >> 20,
            gpu.name,
            gpu.vram_free >> 20
        );
        return cpu(reason, asked);
    };
    let limit = (blocks < draft.blocks).then(|| {
        format!("{} has room for {blocks} of the head's {} blocks", gpu.name, draft.blocks)
    });
    let fit = if blocks < draft.blocks {
        format!(", where {blocks} of its {} blocks fit", draft.blocks)
    } else {
        String::new()
    };
    Placement {
        device: DraftDevice::Cuda,
        blocks,
        limit,
        reason: format!(
            "Drafting runs on {}{fit} ({} of {} MiB free), so the CPU only verifies.",
            gpu.name,
            gpu.vram_free >> 20,
            gpu.vram_total >> 20
        ),
        refused: false,
    }
}
