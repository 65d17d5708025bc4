//! Tables of what is chosen on many machines. A change that only rearranges the plan leaves them
//! as they are.

use super::tests::{GIB, MIB, adapter, cpu, placed_draft, space};
use super::*;
use crate::hardware::{Adapter, AdapterKind, Machine, Memory, Vram};
use crate::speculate::{Budget, Shape};

/// Machines by what their GPUs are.
fn machines() -> Vec<(&'static str, Machine)> {
    let with = |adapters: Vec<Adapter>| Machine {
        cpu: cpu(8, &["AVX2"]),
        memory: Memory { total: 32 * GIB, free: 24 * GIB },
        gpu: Err("none".into()),
        adapters,
    };
    use AdapterKind::{Discrete, Integrated, Software};
    let adapter = |kind: AdapterKind, free: Option<u64>| {
        let memory = free.map(|free| Vram { total: 2 * free, used: free });
        adapter(&format!("{kind:?}"), kind, memory)
    };
    let second = Adapter { number: 1, ..adapter(Discrete, Some(6 * GIB)) };
    vec![
        ("no GPU", with(Vec::new())),
        ("software", with(vec![adapter(Software, None)])),
        ("integrated", with(vec![adapter(Integrated, None)])),
        ("1 GiB", with(vec![adapter(Discrete, Some(GIB))])),
        ("3 GiB", with(vec![adapter(Discrete, Some(3 * GIB))])),
        ("8 GiB", with(vec![adapter(Discrete, Some(8 * GIB))])),
        ("both", with(vec![adapter(Integrated, None), second])),
        ("unknown", with(vec![adapter(Discrete, None)])),
    ]
}

const fn draft(fixed: u64, block: u64, blocks: usize, elastic: bool) -> DraftSize {
    DraftSize {
        fixed,
        lookup: fixed / 2,
        block,
        bytes_per_weight: 1.125,
        blocks,
        elastic,
        ..DraftSize::NOTHING
    }
}

/// Targets with a draft each.
const PAIRS: [(&str, TargetSize, DraftSize); 4] = [
    (
        "7B head",
        TargetSize::dense(6_600_000_000, 3_716_000_000, 32),
        draft(198_000_000, 202_000_000, 5, true),
    ),
    (
        "7B fixed head",
        TargetSize::dense(6_600_000_000, 13_200_000_000, 32),
        draft(198_000_000, 202_000_000, 4, false),
    ),
    (
        "1.5B small",
        TargetSize::dense(1_540_000_000, 1_100_000_000, 28),
        draft(134_000_000, 0, 0, false),
    ),
    ("tiny head", TargetSize::dense(6_000_000, 12_000_000, 6), draft(3_000_000, 800_000, 4, true)),
];

fn shape(budget: &Budget) -> String {
    let Shape { gamma, width, depth } = budget.shape;
    format!("γ {gamma} k {width} D {depth} M {}", budget.blocks)
}

#[test]
fn the_first_tree() {
    let mut rows = Vec::new();
    for (pair, target, size) in PAIRS {
        for cores in [1, 2, 4, 8, 16, 64] {
            for features in [&[][..], &["AVX2"], &["AVX-512", "AVX-512 VNNI"]] {
                let cpu = Throughput::of_cpu(&cpu(cores, features), cores);
                for (place, drafter) in [("CPU", cpu), ("GPU", Throughput::of_gpu(None))] {
                    let inputs = CostInputs { verifier: cpu, target, draft: Some((size, drafter)) };
                    let chosen = [Prefer::Speed, Prefer::Show].map(|prefer| {
                        let space = space(&size, prefer);
                        let guess = choose(&inputs, &Measured::default(), &space);
                        let steep = [1, 4, 16, 32].map(|g| (g, 40.0 + 3.0 * g as f64)).to_vec();
                        let steep = Measured { verify: steep, level: None };
                        let corrected = choose(&inputs, &steep, &space);
                        format!("{} | {}", shape(&guess.budget), shape(&corrected.budget))
                    });
                    let simd = features.last().unwrap_or(&"no SIMD");
                    rows.push(format!("{pair}, {cores} {simd}, {place}: {}", chosen.join(" | ")));
                }
            }
        }
    }
    insta::assert_snapshot!(rows.join("\n"));
}

/// The device of a placement and how many blocks go there.
fn device(placed: &Placement) -> String {
    let device = placed.gpu.map_or("Cpu".to_owned(), |number| format!("Gpu({number})"));
    format!("{device} {}", placed.blocks)
}

#[test]
fn the_device_of_a_draft() {
    let mut rows = Vec::new();
    for (name, machine) in machines() {
        for choice in [
            DeviceChoice::Auto,
            DeviceChoice::Cpu,
            DeviceChoice::Gpu(None),
            DeviceChoice::Gpu(Some(1)),
        ] {
            for vram in [None, Some(500 * MIB), Some(12 * GIB)] {
                let placed = PAIRS.map(|(_, _, size)| {
                    let placed = placed_draft(choice, &machine, vram, size, 8 * MIB);
                    let refused = if placed.refused().is_some() { "!" } else { "" };
                    format!("{}{refused}", device(&placed))
                });
                rows.push(format!("{name}, {choice:?}, {vram:?}: {}", placed.join(", ")));
            }
        }
    }
    insta::assert_snapshot!(rows.join("\n"));
}

#[test]
fn the_target_s_blocks_on_a_gpu() {
    let mut rows = Vec::new();
    for (name, machine) in machines() {
        for vram in [None, Some(4 * GIB)] {
            for (draft, small) in [(0, 0), (700 * MIB, 0), (700 * MIB, 300 * MIB), (0, 9 * GIB)] {
                let settings = [
                    Setting::Auto,
                    Setting::Fixed(0),
                    Setting::Fixed(9),
                    Setting::Fixed(LAYERS.most),
                ];
                let layers = settings.map(|setting| {
                    let size =
                        LayerSize { layers: 32, layer: 160 * MIB, cache: 8 * MIB, head: 150 * MIB };
                    let room = gpu_room(DeviceChoice::Auto, &machine, vram);
                    device(&place_layers(setting, room, size, DraftBytes { draft, small }))
                });
                let sizes = format!("{} + {}", draft / MIB, small / MIB);
                rows.push(format!("{name}, {vram:?}, {sizes}: {}", layers.join(", ")));
            }
        }
    }
    insta::assert_snapshot!(rows.join("\n"));
}

/// The 7B target with two heads and a small model, in `room` bytes of a GPU.
fn placing(room: u64) -> PlacementInputs {
    let choice = |kind, head, size: DraftSize, bytes: u64| DraftChoice {
        kind,
        head,
        on_cpu: DraftSize { bytes_per_weight: 0.625, ..size },
        on_gpu: size,
        bytes: bytes * MIB,
    };
    PlacementInputs {
        target: PAIRS[0].1,
        block_weights: 202_000_000,
        layers: LayerSize { layers: 32, layer: 160 * MIB, cache: 8 * MIB, head: 160 * MIB },
        streams: true,
        room,
        drafts: vec![
            choice(DrafterId::Head, Some(0), PAIRS[0].2, 1400),
            choice(DrafterId::Head, Some(1), draft(60_000_000, 70_000_000, 2, false), 300),
            choice(DrafterId::SmallModel, None, PAIRS[2].2, 200),
        ],
        overrides: TreeOverrides::default(),
    }
}

/// A CPU and a GPU `faster` times as fast.
fn times(faster: f64, steep: f64) -> DeviceTimes {
    let cpu = [1, 4, 16, 32].map(|gamma| {
        let block_ms = 5.0 + steep * (gamma - 1) as f64;
        BlockTime { gamma, block_ms, rest_ms: block_ms }
    });
    let gpu = cpu.map(|at| BlockTime {
        block_ms: at.block_ms / faster,
        rest_ms: 0.1 + at.rest_ms / faster,
        ..at
    });
    DeviceTimes { cpu: cpu.to_vec(), gpu: gpu.to_vec(), transfer: 12e9, trip_ms: 0.1 }
}

fn name(placement: &PlacementForecast) -> String {
    let target = match placement.layers {
        _ if placement.streamed => "target streamed to the GPU".to_owned(),
        0 => "target on the CPU".to_owned(),
        32 => "target on the GPU".to_owned(),
        some => format!("{some} of 32 target blocks on the GPU"),
    };
    let duo = if placement.beside { "duo: " } else { "" };
    let device = if placement.draft_on_gpu { "GPU" } else { "CPU" };
    let draft = match (placement.draft, placement.head) {
        (DrafterId::None, _) => return format!("plain, {target}"),
        (_, Some(head)) => format!("draft head {}", head + 1),
        (_, None) => "small model".to_owned(),
    };
    format!("{duo}{draft} on the {device}, {target}")
}

#[test]
fn the_placement_by_measured_times() {
    let mut rows = Vec::new();
    for faster in [0.2, 1.0, 3.0, 20.0] {
        for steep in [0.02, 0.4, 3.0] {
            for room in [0, 250, 500, 1500, 3000, 5100, 5400, 6000, 12_000] {
                let inputs = placing(room * MIB);
                let times = times(faster, steep);
                let all = inputs.forecasts(&times, None);
                let best = best_placement(&all).unwrap();
                let tree = shape(&best.budget);
                let rate = format!("{:.2} tokens/s", best.rate);
                let found = format!("{} rows, {}: {tree}, {rate}", all.len(), name(best));
                let moves = [0, 10, 32].map(|layers| {
                    let here =
                        inputs.forecasts(&times, Some(BlocksOnGpu { held: layers, streamed: 0 }));
                    let kept = best_placement(&here).unwrap();
                    let stays = if is_worth_moving_for(best, kept) { "moves" } else { "stays" };
                    format!("{layers}: {} {stays}", name(kept))
                });
                let quarters: Vec<usize> =
                    inputs.by_layers(&times).iter().map(|row| row.layers).collect();
                let prompts = inputs.prefill(&times, 128, 512).unwrap();
                rows.push(format!(
                    "{faster} times, {steep} steep, {room} MiB: {found}; {}; {quarters:?}; {}",
                    moves.join("; "),
                    prompts.pays
                ));
            }
        }
    }
    insta::assert_snapshot!(rows.join("\n"));
}

#[test]
fn the_threads_of_a_draft() {
    let mut rows = Vec::new();
    for (pair, target, size) in PAIRS {
        for cores in [1, 2, 4, 6, 8, 12, 16, 32, 64] {
            let cpu = cpu(cores, &["AVX2"]);
            let split = [None, Some(1), Some(3)]
                .map(|held| split_threads(&cpu, cores, held, target, size).0.to_string());
            rows.push(format!("{pair}, {cores}: {}", split.join(", ")));
        }
    }
    insta::assert_snapshot!(rows.join("\n"));
}
