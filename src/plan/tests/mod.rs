//! The machines, models and spaces of the tests of the plan.

mod controller;
mod placement;
mod space;

use super::*;
use crate::hardware::{Adapter, AdapterKind, Cpu, Gpu, Machine, Memory, Vram};

pub(super) const GIB: u64 = 1 << 30;
pub(super) const MIB: u64 = 1 << 20;

pub(super) fn cpu(cores: usize, features: &[&'static str]) -> Cpu {
    Cpu {
        name: "test".into(),
        physical: cores,
        logical: cores * 2,
        quota: None,
        performance: None,
        features: features.to_vec(),
    }
}

pub(super) fn adapter(name: &str, kind: AdapterKind, memory: Option<Vram>) -> Adapter {
    let interface = "Vulkan".into();
    let (bus, bandwidth) = (String::new(), None);
    let driver = "1".into();
    Adapter { number: 0, name: name.into(), kind, interface, driver, bus, memory, bandwidth }
}

/// A machine, with an NVIDIA GPU of this size and bandwidth if there is one.
fn machine(cpu: Cpu, gpu: Option<(u64, f64)>) -> Machine {
    let card = |(total, bandwidth)| {
        let memory = Vram { total, used: GIB / 4 };
        let card = adapter("TestForce 1", AdapterKind::Discrete, Some(memory));
        Adapter { bandwidth: Some(bandwidth), ..card }
    };
    let adapters = gpu.map(card).into_iter().collect();
    let gpu = match gpu {
        None => Err("no NVIDIA GPU: the driver is not installed".into()),
        Some((vram, bandwidth)) => Ok(Gpu {
            name: "TestForce 1".into(),
            bus: "0000:01:00.0".into(),
            driver: "1".into(),
            vram_total: vram,
            vram_free: vram - GIB / 4,
            bandwidth: Some(bandwidth),
        }),
    };
    let memory = Memory { total: 64 * GIB, free: 60 * GIB };
    Machine { cpu, memory, gpu, adapters }
}

/// Llama-2 7B in 16 bits and a DGF head of five blocks.
const TARGET_7B: TargetSize = TargetSize::dense(6_600_000_000, 13_200_000_000, 32);
const HEAD_7B: DraftSize = DraftSize {
    fixed: 198_000_000,
    lookup: 131_000_000,
    block: 202_000_000,
    bytes_per_weight: 2.0,
    blocks: 5,
    elastic: true,
    ..DraftSize::NOTHING
};

/// Where a draft goes whose blocks have a KV cache of this many bytes each.
pub(super) fn placed_draft(
    choice: DeviceChoice,
    machine: &Machine,
    vram: Option<u64>,
    size: DraftSize,
    cache: u64,
) -> Placement {
    let (least, most) = size.range();
    let requested = matches!(choice, DeviceChoice::Gpu(_));
    let bytes = |blocks: usize| size.bytes(blocks) + blocks as u64 * cache;
    place_draft(gpu_room(choice, machine, vram), requested, least, most, bytes)
}

fn inputs(machine: &Machine, target: TargetSize, head: DraftSize) -> (CostInputs, Placement) {
    let placed = placed_draft(DeviceChoice::Auto, machine, None, head, 0);
    let verifier = Throughput::of_cpu(&machine.cpu, machine.cpu.physical);
    let throughput = match placed.gpu {
        None => verifier,
        Some(number) => Throughput::of_gpu(machine.adapters[number].bandwidth),
    };
    (CostInputs { verifier, target, draft: Some((head, throughput)) }, placed)
}

pub(super) fn space(head: &DraftSize, prefer: Prefer) -> SearchSpace {
    SearchSpace { prefer, ..SearchSpace::new(TreeOverrides::default(), Some(*head)) }
}

/// What is chosen before anything is measured.
fn guessed(inputs: &CostInputs, space: &SearchSpace) -> Plan {
    choose(inputs, &Measured::default(), space)
}

fn plan_on(machine: &Machine, target: TargetSize, head: DraftSize) -> (Plan, Placement) {
    let (inputs, placed) = inputs(machine, target, head);
    (guessed(&inputs, &space(&head, Prefer::Speed)), placed)
}

/// Fixed or automatic values of γ, M, k and D.
fn held(values: [Option<usize>; 4]) -> TreeOverrides {
    let [gamma, blocks, width, depth] =
        values.map(|held| held.map_or(Setting::Auto, Setting::Fixed));
    TreeOverrides { gamma, blocks, width, depth, ..TreeOverrides::default() }
}
