use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

use super::acceptance_history::AcceptanceHistory;
use super::tree_controller::TreeController;
use super::*;
use crate::hardware::{Adapter, AdapterKind, Cpu, Gpu, Machine, Memory, Vram};
use crate::speculate::{Budget, Shape, Tree};

pub(super) const GIB: u64 = 1 << 30;
pub(super) const MIB: u64 = 1 << 20;

pub(super) fn cpu(cores: usize, features: &[&'static str]) -> Cpu {
    Cpu {
        name: "test".into(),
        physical: cores,
        logical: cores * 2,
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

#[test]
fn reasons_hold_the_figures_chosen() {
    let machine = machine(cpu(8, &["AVX2"]), Some((4 * GIB, 128e9)));
    let (plan, placed) = plan_on(&machine, TARGET_7B, HEAD_7B);
    assert!(
        matches!(&placed.reason, Reason::DraftOnGpu { gpu, fit: None, .. } if gpu == "TestForce 1")
    );
    let shape = plan.budget.shape;
    let [gamma, blocks, tree, expected, basis] = &plan.reasons[..] else {
        panic!("{:?}", plan.reasons)
    };
    let enough = |ratio: f64| ratio > 1.0 && ratio < shape.gamma as f64;
    assert!(
        matches!(gamma, Reason::Gamma(gamma, GammaReason::Enough(ratio))
            if *gamma == shape.gamma && enough(*ratio)),
        "{gamma:?}"
    );
    assert!(
        matches!(blocks, Reason::Blocks { blocks, most: 5, why: BlocksReason::Each(ms) }
            if *blocks == plan.budget.blocks && *ms > 0.0),
        "{blocks:?}"
    );
    let Reason::Tree { shape: told, fixed: (false, false), draft_ms, verify_ms, .. } = *tree else {
        panic!("{tree:?}")
    };
    assert!(told == shape && draft_ms > 0.0 && verify_ms > draft_ms, "{tree:?}");
    assert!(
        matches!(expected, Reason::Expected { rate, plain, .. }
            if *rate == plan.expected && rate > plain),
        "{expected:?}"
    );
    assert_eq!(*basis, Reason::Basis(Basis::Estimated));
}

#[test]
fn placement_says_what_stands_in_the_way() {
    let on = |wish, machine: &Machine, draft: DraftSize| {
        let placed = placed_draft(wish, machine, None, draft, 64 << 20);
        (placed.gpu, placed.blocks, placed.refused().is_some(), placed.reason)
    };
    let with = |vram: Option<u64>| machine(cpu(8, &[]), vram.map(|vram| (vram, 1e11)));
    let fixed = DraftSize { elastic: false, ..HEAD_7B };
    let on_cpu = |refused: bool, why: Obstacle| (None, 5, refused, Reason::DraftOnCpu(why));
    let gpu = || "TestForce 1".to_owned();
    let memory = |free: u64, total: u64| GpuMemory::Known { free: free << 20, total: total << 20 };
    let on_gpu = |blocks: usize, memory: GpuMemory| {
        let fit = (blocks < 5).then_some((blocks, 5));
        (Some(0), blocks, false, Reason::DraftOnGpu { gpu: gpu(), memory, fit })
    };
    for (wish, vram, expected) in [
        (DeviceChoice::Auto, None, on_cpu(false, Obstacle::NoGpu)),
        (DeviceChoice::Gpu(None), None, on_cpu(true, Obstacle::NoGpu)),
        (DeviceChoice::Cpu, Some(8 * GIB), on_cpu(false, Obstacle::Chosen)),
        (DeviceChoice::Auto, Some(8 * GIB), on_gpu(5, memory(7936, 8192))),
        (DeviceChoice::Auto, Some(2 * GIB), on_gpu(2, memory(1792, 2048))),
    ] {
        assert_eq!(on(wish, &with(vram), HEAD_7B), expected, "{wish:?}");
    }
    let no_driver = Machine { adapters: Vec::new(), ..with(Some(8 * GIB)) };
    let expected = on_cpu(false, Obstacle::NoVulkan(gpu()));
    assert_eq!(on(DeviceChoice::Auto, &no_driver, HEAD_7B), expected);
    for (vram, head) in [(2 * GIB, fixed), (GIB / 2, HEAD_7B)] {
        let (gpu, blocks, refused, reason) = on(DeviceChoice::Auto, &with(Some(vram)), head);
        assert_eq!((gpu, blocks, refused), (None, 5, false));
        assert!(
            matches!(reason, Reason::DraftOnCpu(Obstacle::DraftTooLarge { needed, room, .. })
                if needed > room),
            "{reason:?}"
        );
    }
}

/// A card with 400 MiB per block and 250 MiB for the head, of which the draft takes 2700 MiB.
#[test]
fn blocks_of_the_target_fill_what_drafts_leave() {
    let size = LayerSize { layers: 32, layer: 400 * MIB, cache: 8 * MIB, head: 250 * MIB };
    let card = |bytes: u64| GpuRoom {
        number: 0,
        name: "a Radeon".into(),
        bytes: bytes * MIB,
        memory: GpuMemory::Unknown,
    };
    let placed = |setting, room, small: u64| {
        let drafts = DraftBytes { draft: 2700 * MIB, small: small * MIB };
        place_layers(setting, Ok(card(room)), size, drafts)
    };
    let all = Setting::Fixed(LAYERS.most);
    let whole = 2700 + 32 * 400 + 250;
    let split =
        |layers, asked| Reason::TargetSplit { gpu: "a Radeon".to_owned(), layers, of: 32, asked };
    let on_gpu = || Reason::TargetOnGpu { gpu: "a Radeon".to_owned() };
    for (setting, room, small, layers, reason) in [
        (Setting::Auto, 7372, 0, 11, split(11, None)),
        (Setting::Fixed(4), 7372, 0, 4, split(4, None)),
        (Setting::Fixed(20), 7372, 0, 11, split(11, Some(20))),
        (all, whole, 0, 32, on_gpu()),
        (all, whole - 1, 0, 31, split(31, Some(32))),
        // Everything fits: a small model drafts on the CPU.
        (all, whole, 800, 32, on_gpu()),
        (Setting::Auto, whole, 800, 32, on_gpu()),
        // A part of the target leaves it room, whether it was requested or not.
        (Setting::Auto, whole - 1, 800, 30, split(30, None)),
        (Setting::Fixed(31), whole, 800, 30, split(30, Some(31))),
        (Setting::Fixed(8), whole, 800, 8, split(8, None)),
        (Setting::Auto, 2700 + 800 + 10 * 400, 800, 10, split(10, None)),
        // If it does not fit at all, there is no reason to leave room.
        (Setting::Auto, 2700 + 10 * 400, 8000, 10, split(10, None)),
    ] {
        let found = placed(setting, room, small);
        let expected = (Some(0), layers, &reason);
        assert_eq!((found.gpu, found.blocks, &found.reason), expected, "{setting:?} {room}");
    }
    let small = placed(Setting::Auto, 2700, 0);
    assert!(
        matches!(
            small.reason,
            Reason::TargetOnCpu(Obstacle::BlockTooLarge { block: 0x1900_0000, draft, room, .. })
                if draft == room
        ),
        "{small:?}"
    );
    let none = place_layers(Setting::Auto, Err(Obstacle::NoGpu), size, DraftBytes::default());
    assert_eq!((none.gpu, none.blocks), (None, 0));
    assert_eq!(none.refused(), Some(&Reason::TargetOnCpu(Obstacle::NoGpu)));
}

#[test]
fn without_a_draft_there_is_only_plain_decoding() {
    let machine = machine(cpu(8, &["AVX2"]), None);
    let inputs = CostInputs { draft: None, ..inputs(&machine, TARGET_7B, HEAD_7B).0 };
    let space = SearchSpace { blocks: None, ..space(&HEAD_7B, Prefer::Show) };
    let plan = guessed(&inputs, &space);
    assert_eq!((plan.budget.shape.gamma, plan.budget.blocks), (1, 0));
    assert_eq!(plan.reasons, [Reason::NoDraft]);
}

/// A head with a block for each of two levels drafts no third one.
#[test]
fn no_tree_is_deeper_than_its_draft_can_draft() {
    let machine = machine(cpu(8, &["AVX2"]), None);
    let head = DraftSize { levels: 2, elastic: false, ..HEAD_7B };
    let (inputs, _) = inputs(&machine, TARGET_7B, head);
    for prefer in [Prefer::Speed, Prefer::Show] {
        let space = space(&head, prefer);
        let plan = guessed(&inputs, &space);
        assert!(plan.budget.shape.gamma > 1, "{:?}", plan.reasons);
        assert!(space.budgets().iter().all(|budget| budget.shape.depth <= 1), "{prefer:?}");
        let fixed = TreeOverrides { depth: Setting::Fixed(7), ..TreeOverrides::default() };
        let plan = guessed(&inputs, &SearchSpace { overrides: fixed, ..space });
        assert_eq!(plan.budget.shape.depth, 1);
    }
}

#[test]
fn a_measurement_overrules_the_guess() {
    let machine = machine(cpu(16, &["AVX-512 VNNI"]), Some((24 * GIB, 900e9)));
    let (inputs, _) = inputs(&machine, TARGET_7B, HEAD_7B);
    let space = space(&HEAD_7B, Prefer::Speed);
    let guess = guessed(&inputs, &space);
    assert!(guess.budget.shape.gamma > 4);
    // Every node costs a full pass, so no tree can pay off.
    let steep = Measured { verify: vec![(1, 100.0), (8, 800.0), (16, 1600.0)], level: None };
    assert_eq!(choose(&inputs, &steep, &space).budget.shape.gamma, 1);
    // All nodes are free, so the largest tree pays best.
    let flat = Measured { verify: vec![(1, 100.0), (64, 100.0)], level: None };
    assert_eq!(choose(&inputs, &flat, &space).budget.shape.gamma, 64);
    // Times beyond the measured ones keep their proportion, and never fall.
    let costs =
        guess.costs.clone().measured(&Measured { verify: vec![(4, 9.0), (1, 10.0)], level: None });
    assert!((costs.verify_ms(1) - 9.0).abs() < 1e-9 && costs.verify_ms(64) > costs.verify_ms(32));
    let ratio = guess.costs.verify_ms(64) / guess.costs.verify_ms(4);
    assert!((costs.verify_ms(64) / costs.verify_ms(4) - ratio).abs() < 1e-9);
}

#[test]
fn show_keeps_a_tree_where_none_pays_and_says_so() {
    let tiny = TargetSize::dense(6_000_000, 12_000_000, 6);
    let head =
        DraftSize { fixed: 3_000_000, block: 800_000, bytes_per_weight: 4.0, blocks: 4, ..HEAD_7B };
    let machine = machine(cpu(2, &["AVX2"]), None);
    let (inputs, _) = inputs(&machine, tiny, head);
    let speed = guessed(&inputs, &space(&head, Prefer::Speed));
    let show = guessed(&inputs, &space(&head, Prefer::Show));
    assert_eq!(speed.budget.shape.gamma, 1, "{:?}", speed.reasons);
    let Shape { gamma, width, depth } = show.budget.shape;
    assert!(gamma >= 8 && depth >= 3 && width >= 3);
    let shown = show.reasons.iter().any(|reason| matches!(reason, Reason::KeptForShow { .. }));
    assert!(shown, "{:?}", show.reasons);
    assert!(matches!(speed.reasons[0], Reason::Gamma(1, GammaReason::NoTree { .. })));
}

/// A machine for the 7B target: cores, instruction sets, and a GPU with a bandwidth.
#[derive(Clone, Copy, Debug)]
struct Hardware {
    cores: usize,
    level: usize,
    gpu: bool,
    bandwidth: f64,
}

impl Hardware {
    /// The first budget with `vram` bytes on the GPU.
    fn budget(self, vram: u64, overrides: TreeOverrides, prefer: Prefer) -> Budget {
        const LEVELS: [&[&str]; 4] =
            [&[], &["AVX2"], &["AVX2", "AVX-512"], &["AVX2", "AVX-512 VNNI"]];
        let gpu = self.gpu.then_some((vram, self.bandwidth));
        let machine = machine(cpu(self.cores, LEVELS[self.level]), gpu);
        let (inputs, _) = inputs(&machine, TARGET_7B, HEAD_7B);
        guessed(&inputs, &SearchSpace { overrides, ..space(&HEAD_7B, prefer) }).budget
    }
}

fn any_hardware() -> impl Strategy<Value = Hardware> {
    let parts = (1usize..64, 0usize..4, any::<bool>(), 50e9..2e12f64);
    parts.prop_map(|(cores, level, gpu, bandwidth)| Hardware { cores, level, gpu, bandwidth })
}

/// Fixed or automatic values of γ, M, k and D.
fn held(values: [Option<usize>; 4]) -> TreeOverrides {
    let [gamma, blocks, width, depth] =
        values.map(|held| held.map_or(Setting::Auto, Setting::Fixed));
    TreeOverrides { gamma, blocks, width, depth, ..TreeOverrides::default() }
}

proptest! {
    #[test]
    fn more_cores_never_lower_gamma(here in any_hardware(), more in 1usize..32) {
        // The shape of the tree is fixed: only γ depends on the cores.
        let overrides = held([None, Some(5), Some(10), Some(7)]);
        let gamma =
            |on: Hardware| on.budget(24 * GIB, overrides, Prefer::Show).shape.gamma;
        let larger = Hardware { cores: here.cores + more, ..here };
        prop_assert!(gamma(here) <= gamma(larger));
    }

    #[test]
    fn a_faster_draft_device_never_means_fewer_blocks(
        here in any_hardware(),
        faster in 1.0..8.0f64,
    ) {
        let overrides = held([Some(16), None, Some(10), Some(7)]);
        let blocks = |bandwidth| {
            let on = Hardware { gpu: true, bandwidth, ..here };
            on.budget(24 * GIB, overrides, Prefer::Speed).blocks
        };
        prop_assert!(blocks(here.bandwidth) <= blocks(here.bandwidth * faster));
    }

    #[test]
    fn held_values_are_kept_and_the_rest_stays_in_range(
        here in any_hardware(),
        gamma in proptest::option::of(1usize..=64), blocks in proptest::option::of(1usize..=16),
        width in proptest::option::of(1usize..=10), depth in proptest::option::of(0usize..=8),
        show in any::<bool>(),
    ) {
        let overrides = held([gamma, blocks, width, depth]);
        let prefer = if show { Prefer::Show } else { Prefer::Speed };
        let budget = here.budget(4 * GIB, overrides, prefer);
        prop_assert_eq!(budget.shape.gamma, overrides.gamma.or(budget.shape.gamma));
        prop_assert_eq!(budget.blocks, overrides.blocks.or(budget.blocks).min(5));
        if budget.shape.gamma > 1 {
            prop_assert_eq!(budget.shape.width, overrides.width.or(budget.shape.width));
            prop_assert_eq!(budget.shape.depth, overrides.depth.or(budget.shape.depth));
        }
        prop_assert!((1..=64).contains(&budget.shape.gamma) && (1..=5).contains(&budget.blocks));
        prop_assert!((1..=10).contains(&budget.shape.width) && budget.shape.depth <= 8);
    }
}

/// A made-up draft and target: at every node the target takes the s-th child with probability
/// `sure·(1 - sure)^s`, and the draft knows these probabilities.
struct World {
    state: u64,
    /// The probability of the likeliest child.
    sure: f64,
    verify: fn(usize) -> f64,
    level_ms: f64,
}

impl World {
    fn chance(&mut self) -> f64 {
        // xorshift: good enough for a simulation, and the same on every machine.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as f64 / (1u64 << 53) as f64
    }

    fn child(&self, sibling: usize) -> f64 {
        self.sure * (1.0 - self.sure).powi(sibling as i32)
    }

    fn tree(&self, shape: &Shape) -> Tree {
        // Best first within width and depth; it replaces the beam with the same nesting.
        let mut tree = Tree::root(0);
        let mut open: Vec<(f64, usize, usize)> = Vec::new();
        let add = |open: &mut Vec<_>, node: usize, score: f64| {
            for s in 0..shape.width {
                open.push((score * self.child(s), node, s));
            }
        };
        add(&mut open, 0, 1.0);
        while tree.len() < shape.gamma && !open.is_empty() {
            let best =
                (0..open.len()).max_by(|&a, &b| open[a].0.total_cmp(&open[b].0).then(b.cmp(&a)));
            let Some(best) = best else { break };
            let (score, parent, sibling) = open.remove(best);
            let node = tree.push(parent, sibling as u32, self.child(sibling).ln() as f32);
            if tree.nodes()[node].depth <= shape.depth {
                add(&mut open, node, score);
            }
        }
        tree
    }

    fn walk(&mut self, tree: &Tree) -> Vec<usize> {
        let mut path = Vec::new();
        let mut at = 0;
        loop {
            let mut draw = self.chance();
            let chosen = (0..40u32).find(|&s| {
                draw -= self.child(s as usize);
                draw < 0.0
            });
            match chosen.and_then(|token| tree.child(at, token)) {
                Some(child) => {
                    path.push(child);
                    at = child;
                }
                None => return path,
            }
        }
    }

    fn times(&self, budget: &Budget, nodes: usize) -> (f64, f64) {
        let draft = if budget.shape.gamma > 1 { 1.0 + budget.shape.depth as f64 } else { 0.2 };
        (draft * self.level_ms, (self.verify)(nodes))
    }

    /// Runs `rounds` rounds; returns the budgets and tokens per ms of the second half.
    fn run(
        &mut self,
        started: &mut Started,
        overrides: &TreeOverrides,
        rounds: usize,
    ) -> (Vec<Budget>, f64) {
        let mut budgets = Vec::new();
        let mut tokens = 0.0;
        let mut ms = 0.0;
        for round in 0..rounds {
            let budget = started.controller.budget(overrides);
            let tree = self.tree(&budget.shape);
            let accepted = self.walk(&tree);
            let (draft_ms, verify_ms) = self.times(&budget, tree.len());
            started.times.learn(tree.len(), verify_ms, 0.0);
            let observed = RoundObservation {
                draft_ms: Some(draft_ms),
                verify_ms,
                draft: DrafterId::Head,
                ..RoundObservation::for_tests(budget, &tree, &accepted)
            };
            started.controller.observe(&observed, &started.times);
            if round >= rounds / 2 {
                tokens += 1.0 + accepted.len() as f64;
                ms += draft_ms + verify_ms;
            }
            budgets.push(budget);
        }
        (budgets, tokens / ms)
    }
}

/// A controller whose plan was corrected by times measured in `world`, with T_V as it is learned
/// from its rounds.
struct Started {
    controller: TreeController,
    times: VerifyTimes,
}

fn started(prefer: Prefer, world: &World) -> Started {
    let machine = machine(cpu(8, &["AVX2"]), Some((4 * GIB, 128e9)));
    let head = DraftSize { elastic: false, blocks: 4, ..HEAD_7B };
    let (inputs, _) = inputs(&machine, TARGET_7B, head);
    let space = space(&head, prefer);
    let found = Measured {
        verify: super::cost::PROBED_GAMMAS.map(|gamma| (gamma, (world.verify)(gamma))).to_vec(),
        level: Some(LevelCost {
            blocks: [4, 4],
            widths: [1, 10],
            ms: [[world.level_ms; 2]; 2],
            whole: false,
        }),
    };
    let plan = choose(&inputs, &found, &space);
    Started { controller: TreeController::new(&plan, space), times: plan.costs.verify }
}

#[test]
fn it_finds_a_tree_about_as_good_as_the_best_held_one() {
    for (sure, verify, level_ms) in [
        (0.8, (|n| 100.0 + 4.0 * n as f64) as fn(usize) -> f64, 2.0),
        (0.5, |n| 50.0 + 10.0 * n as f64, 5.0),
        (0.9, |n| 200.0 + n as f64, 20.0),
    ] {
        let world = || World { state: 88_172_645_463_325_252, sure, verify, level_ms };
        let mut found_by = started(Prefer::Speed, &world());
        let (budgets, found) = world().run(&mut found_by, &TreeOverrides::default(), 1200);
        let mut best = (0.0, budgets[0]);
        for gamma in [1, 4, 8, 16, 32, 64] {
            for depth in [0, 1, 3, 5, 8] {
                let overrides = held([Some(gamma), None, Some(4), Some(depth)]);
                let mut fixed = started(Prefer::Speed, &world());
                let (budgets, rate) = world().run(&mut fixed, &overrides, 400);
                if rate > best.0 {
                    best = (rate, budgets[0]);
                }
            }
        }
        assert!(
            found > 0.9 * best.0,
            "sure {sure}: found {found:.4} with {:?}, best held {best:?}",
            budgets.last()
        );
        let changes = budgets.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes < 40, "{changes} changes in 1200 rounds");
        assert!(budgets.iter().all(|budget| budget.blocks == 4));
    }
}

#[test]
fn it_gives_speculation_up_where_it_does_not_pay_and_takes_it_up_again() {
    let overrides = TreeOverrides::default();
    let mut world =
        World { state: 5, sure: 0.15, verify: |n| 40.0 + 10.0 * n as f64, level_ms: 5.0 };
    let mut started = started(Prefer::Speed, &world);
    let (budgets, _) = world.run(&mut started, &overrides, 1000);
    let plain = budgets[500..].iter().filter(|budget| budget.shape.gamma == 1).count();
    assert!(plain > 450, "{plain} of the last 500 rounds were plain");
    assert!(
        budgets[100..].iter().any(|budget| budget.shape.gamma > 1),
        "it must probe now and then"
    );
    // The text becomes easy, which a probe has to notice.
    world.sure = 0.95;
    let (budgets, _) = world.run(&mut started, &overrides, 2000);
    assert!(budgets[1000..].iter().all(|budget| budget.shape.gamma > 1), "{:?}", budgets.last());
}

#[test]
fn show_never_drops_the_tree_and_a_changed_wish_acts_at_once() {
    let mut world = World { state: 5, sure: 0.2, verify: |n| 20.0 * n as f64, level_ms: 20.0 };
    let mut started = started(Prefer::Show, &world);
    let (budgets, _) = world.run(&mut started, &TreeOverrides::default(), 300);
    assert!(budgets.iter().all(|budget| budget.shape.gamma >= 8 && budget.shape.depth >= 3));
    let budget = started.controller.budget(&held([Some(5), None, Some(2), None]));
    assert_eq!((budget.shape.gamma, budget.shape.width), (5, 2));
    assert_eq!(started.controller.reasons()[0], Reason::Gamma(5, GammaReason::Fixed));
    assert!(started.controller.budget(&TreeOverrides::default()).shape.gamma >= 8);
}

#[test]
fn the_same_rounds_give_the_same_picks() {
    let run = || {
        let mut world =
            World { state: 7, sure: 0.7, verify: |n| 60.0 + 5.0 * n as f64, level_ms: 3.0 };
        let mut started = started(Prefer::Speed, &world);
        world.run(&mut started, &TreeOverrides::default(), 200).0
    };
    assert_eq!(run(), run());
}

#[test]
fn one_run_with_a_large_tree_predicts_all_smaller_ones() {
    let mut world = World { state: 99, sure: 0.7, verify: |_| 1.0, level_ms: 1.0 };
    let wide = Shape { gamma: 48, width: 4, depth: 6 };
    let mut history = AcceptanceHistory::default();
    for _ in 0..96 {
        let tree = world.tree(&wide);
        let accepted = world.walk(&tree);
        history.note(&Budget::new(wide, 2), &tree, &accepted);
    }
    for shape in [
        Shape { gamma: 2, width: 1, depth: 0 },
        Shape { gamma: 8, width: 4, depth: 6 },
        Shape { gamma: 16, width: 2, depth: 4 },
        wide,
    ] {
        let mut tokens = 0;
        for _ in 0..4000 {
            let tree = world.tree(&shape);
            tokens += 1 + world.walk(&tree).len();
        }
        let truth = tokens as f64 / 4000.0;
        let guess = history.omega()(&Budget::new(shape, 2));
        // 96 rounds determine a mean with this spread to about 0.2.
        assert!((truth - guess).abs() < 0.45, "{shape:?}: {truth:.2} against {guess:.2}");
    }
}
