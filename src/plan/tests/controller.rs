//! The controller of trees in made-up texts whose best choice is known.

use super::*;
use crate::plan::acceptance_history::AcceptanceHistory;
use crate::plan::cost::PROBED_GAMMAS;
use crate::plan::tree_controller::TreeController;
use crate::speculate::{Budget, Shape, Tree};

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
        verify: PROBED_GAMMAS.map(|gamma| (gamma, (world.verify)(gamma))).to_vec(),
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
fn show_never_drops_the_tree() {
    let mut world = World { state: 5, sure: 0.2, verify: |n| 20.0 * n as f64, level_ms: 20.0 };
    let mut started = started(Prefer::Show, &world);
    let (budgets, _) = world.run(&mut started, &TreeOverrides::default(), 300);
    assert!(budgets.iter().all(|budget| budget.shape.gamma >= 8 && budget.shape.depth >= 3));
}

#[test]
fn only_trees_of_a_size_and_depth_of_its_own_may_end_early() {
    let world = World { state: 1, sure: 0.7, verify: |_| 30.0, level_ms: 1.5 };
    let least_pass = |values| {
        let mut controller = started(Prefer::Show, &world).controller;
        let width = controller.budget(&held(values)).shape.width;
        (width, controller.least_pass())
    };
    let (width, least) = least_pass([None; 4]);
    // A level of 1.5 ms, against two to seven tokens in a round of some 40 ms.
    assert!(width > 1 && (0.05..0.4).contains(&least), "{width}, {least}");
    assert_eq!(least_pass([Some(16), None, Some(4), None]).1, 0.0);
    assert_eq!(least_pass([None, None, Some(4), Some(5)]).1, 0.0);
    let (width, least) = least_pass([Some(6), None, Some(1), None]);
    assert!(width == 1 && least > 0.0, "a chain of a fixed length may: {least}");
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
