//! The first choice among all budgets.

use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::speculate::{Budget, Shape};

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
