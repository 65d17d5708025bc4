//! `bench ablation`: one setting at a time. Which blocks and which fusion of a draft head (the
//! paper's Table III in small), γ from 1 to 64, width and depth of the tree; for DuoDecoding the
//! number of sequences and the budget (its Tables 2 and 3). Must never run anything: it lists what
//! is to be run.

use std::collections::BTreeSet;

use super::strategies::{Contender, PLAIN, Sweep};
use crate::draft::Depths;
use crate::plan::{Setting, Strategy, TreeOverrides};
use crate::worker::Controls;

/// The paper's tree: nodes with the root, children a node, expansions.
const GAMMA: usize = 16;
const WIDTH: usize = 10;
const DEPTH: usize = 7;

const GAMMAS: [usize; 10] = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64];
const WIDTHS: [usize; 6] = [1, 2, 4, 6, 8, 10];
const DEPTHS: [usize; 6] = [0, 1, 2, 3, 5, 7];

/// k of DuoDecoding's static variants.
const SEQUENCES: [usize; 3] = [1, 2, 3];
/// Budgets with many divisors, beside those next to what the strategy chooses for itself.
const BUDGETS: [usize; 7] = [2, 4, 6, 8, 12, 16, 24];
/// How far the budgets of the paper's Table 3 are from the one that fits.
const BESIDE: usize = 2;

/// Variants to run against each other, and the curves they are points of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variants {
    /// The target alone first.
    pub contenders: Vec<Contender>,
    /// Their curves.
    pub sweeps: Vec<Sweep>,
}

impl Variants {
    /// The target alone, and nothing else yet.
    pub fn new(base: &Controls) -> Self {
        let strategy = Strategy::named(PLAIN);
        let alone = Controls { speculate: false, strategy, ..base.clone() };
        let contenders = vec![Contender { name: PLAIN.to_owned(), controls: alone }];
        Self { contenders, sweeps: Vec::new() }
    }

    /// A curve over `values`. A variant that is there already is a point of it and not run twice.
    pub fn sweep(
        &mut self,
        title: &str,
        axis: &str,
        values: impl IntoIterator<Item = (String, Option<f64>, Controls)>,
    ) {
        let mut points = Vec::new();
        for (name, value, controls) in values {
            let same = |other: &&Contender| other.name != PLAIN && other.controls == controls;
            let known = self.contenders.iter().find(same).map(|other| other.name.clone());
            let name = known.unwrap_or_else(|| {
                self.contenders.push(Contender { name: name.clone(), controls });
                name
            });
            points.push((name, value));
        }
        self.sweeps.push(Sweep { title: title.to_owned(), axis: axis.to_owned(), points });
    }

    /// Blocks 1…M of a head under the paper's tree.
    pub fn blocks(&mut self, head: &str, base: &Controls, depths: Depths) {
        let blocks = match depths {
            Depths::Fixed(blocks) => blocks..=blocks,
            Depths::Elastic(most) => 1..=most,
        };
        let base = paper(base);
        let values = blocks.map(|blocks| {
            let controls = with_tree(&base, |tree| tree.blocks = Setting::Fixed(blocks.max(1)));
            (format!("{head} m={blocks}"), Some(blocks as f64), controls)
        });
        self.sweep(&format!("Blocks of {head}"), "blocks m", values);
    }

    /// γ, width and depth, the other two as in the paper, with `blocks` blocks unless the user
    /// has fixed another number.
    pub fn tree(&mut self, base: &Controls, blocks: usize) {
        let blocks = Setting::Fixed(base.tree.blocks.or(blocks));
        let base = with_tree(&paper(base), |tree| tree.blocks = blocks);
        let gammas = GAMMAS.map(|gamma| {
            let controls = with_tree(&base, |tree| tree.gamma = Setting::Fixed(gamma));
            (format!("γ={gamma}"), Some(gamma as f64), controls)
        });
        self.sweep("Nodes of the tree", "γ, nodes including the root", gammas);
        let widths = WIDTHS.map(|width| {
            let controls = with_tree(&base, |tree| tree.width = Setting::Fixed(width));
            (format!("width {width}"), Some(width as f64), controls)
        });
        self.sweep("Width of the tree", "children per node", widths);
        let depths = DEPTHS.map(|depth| {
            let controls = with_tree(&base, |tree| tree.depth = Setting::Fixed(depth));
            (format!("depth {depth}"), Some(depth as f64), controls)
        });
        self.sweep("Depth of the tree", "expansions", depths);
    }

    /// DuoDecoding's sequences at one budget, and its budget with a single sequence: `own`, which
    /// it chooses for itself, the budgets next to it and some further away. One thing is turned at
    /// a time.
    pub fn duo(&mut self, base: &Controls, duo: &'static Strategy, own: usize) {
        let name = duo.name;
        let tree = TreeOverrides::default();
        let base = Controls { speculate: true, strategy: Some(duo), tree, ..base.clone() };
        let at_own = with_tree(&base, |tree| tree.gamma = Setting::Fixed(own));
        let dynamic = (format!("{name} γ={own}"), None, at_own.clone());
        let sequences = SEQUENCES.map(|k| {
            let controls = with_tree(&at_own, |tree| tree.width = Setting::Fixed(k));
            (format!("{name} k={k} γ={own}"), Some(k as f64), controls)
        });
        let title = format!("Sequences of DuoDecoding at γ = {own}");
        self.sweep(&title, "sequences k", std::iter::once(dynamic).chain(sequences));
        let single = with_tree(&base, |tree| tree.width = Setting::Fixed(1));
        let beside = own.saturating_sub(BESIDE).max(1)..=own + BESIDE;
        let budgets: BTreeSet<usize> = BUDGETS.into_iter().chain(beside).collect();
        let budgets = budgets.into_iter().map(|gamma| {
            let controls = with_tree(&single, |tree| tree.gamma = Setting::Fixed(gamma));
            (format!("{name} k=1 γ={gamma}"), Some(gamma as f64), controls)
        });
        self.sweep("Budget of DuoDecoding with one sequence", "budget γ, tokens", budgets);
    }
}

/// What the user has fixed, and the paper's tree for the rest.
fn paper(base: &Controls) -> Controls {
    let tree = TreeOverrides {
        gamma: Setting::Fixed(base.tree.gamma.or(GAMMA)),
        width: Setting::Fixed(base.tree.width.or(WIDTH)),
        depth: Setting::Fixed(base.tree.depth.or(DEPTH)),
        blocks: base.tree.blocks,
    };
    Controls { speculate: true, tree, ..base.clone() }
}

/// `base` with one of the four values changed.
fn with_tree(base: &Controls, change: impl FnOnce(&mut TreeOverrides)) -> Controls {
    let mut controls = base.clone();
    change(&mut controls.tree);
    controls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_setting_is_swept_while_the_others_are_fixed() {
        let base = Controls::default();
        let mut variants = Variants::new(&base);
        variants.blocks("DGF", &base, Depths::Elastic(3));
        variants.tree(&base, 2);
        assert!(!variants.contenders[0].controls.speculate);
        let names: Vec<&str> = variants.contenders.iter().map(|c| c.name.as_str()).collect();
        let unique: std::collections::HashSet<&&str> = names.iter().collect();
        assert_eq!(unique.len(), names.len(), "{names:?}");
        let blocks: Vec<Setting> =
            variants.contenders[1..4].iter().map(|c| c.controls.tree.blocks).collect();
        assert_eq!(blocks, [Setting::Fixed(1), Setting::Fixed(2), Setting::Fixed(3)]);
        // The paper's tree with two blocks is a point of all four curves and is run once.
        assert_eq!(variants.sweeps.len(), 4);
        for sweep in &variants.sweeps {
            assert!(sweep.points.iter().any(|(name, _)| name == "DGF m=2"), "{sweep:?}");
            for (name, _) in &sweep.points {
                assert!(names.contains(&name.as_str()), "{name} is not run");
            }
        }
        let alone = variants.contenders.iter().find(|c| c.name == "γ=1").unwrap();
        assert_eq!(alone.controls.tree.gamma, Setting::Fixed(1));
        assert_eq!(alone.controls.tree.width, Setting::Fixed(10));
    }

    #[test]
    fn duo_s_sequences_and_budget_are_turned_one_at_a_time() {
        let base = with_tree(&Controls::default(), |tree| tree.gamma = Setting::Fixed(16));
        let mut variants = Variants::new(&base);
        let duo = Strategy::named("duo").unwrap();
        variants.duo(&base, duo, 7);
        let of =
            |name: &str| variants.contenders.iter().find(|c| c.name == name).unwrap().controls.tree;
        for (name, _) in &variants.sweeps[0].points {
            assert_eq!(of(name).gamma, Setting::Fixed(7), "{name}");
        }
        assert_eq!(variants.sweeps[0].points[0].1, None, "the dynamic number of sequences");
        let budgets: Vec<f64> = variants.sweeps[1].points.iter().map(|p| p.1.unwrap()).collect();
        assert_eq!(budgets, [2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 12.0, 16.0, 24.0]);
        for (name, _) in &variants.sweeps[1].points {
            assert_eq!(of(name).width, Setting::Fixed(1), "{name}");
        }
        // k = 1 at the own budget is a point of both.
        assert_eq!(variants.sweeps[1].points[4].0, "duo k=1 γ=7");
        assert!(variants.contenders[1..].iter().all(|c| c.controls.strategy == Some(duo)));
    }

    #[test]
    fn fixed_values_stay() {
        let base = with_tree(&Controls::default(), |tree| tree.width = Setting::Fixed(4));
        let mut variants = Variants::new(&base);
        variants.tree(&base, 1);
        let gamma = variants.contenders.iter().find(|c| c.name == "γ=8").unwrap();
        assert_eq!(gamma.controls.tree.width, Setting::Fixed(4));
    }
}
