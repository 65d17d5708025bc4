//! `bench sweep`: one setting varied at a time. γ, k and D of the tree and the blocks M of a head
//! (Table III of the Dovetail paper in small), and the number of sequences and the budget of
//! DuoDecoding (its Tables 2 and 3). This module lists what should run; it must not run anything.

use std::collections::BTreeSet;

use super::strategies::{BenchCandidate, PLAIN, Sweep};
use crate::draft::Depths;
use crate::load::Placements;
use crate::plan::{PlacementForecast, Setting, Strategy, TreeOverrides, best_placement};
use crate::worker::Controls;

/// A setting of the tree that is varied while the others keep the paper's values. `{head}` stands
/// for the head that drafts.
#[derive(Clone, Copy)]
struct TreeAxis {
    setting: SweepAxis,
    title: &'static str,
    /// The setting, with its unit.
    axis: &'static str,
    /// What the candidates are called, before the value.
    prefix: &'static str,
    values: &'static [usize],
    /// The paper's value, if the setting keeps one while others vary.
    paper: Option<usize>,
    of: fn(&mut TreeOverrides) -> &mut Setting,
}

const TREE: [TreeAxis; 4] = [
    TreeAxis {
        setting: SweepAxis::M,
        title: "Blocks of {head}",
        axis: "blocks m",
        prefix: "{head} m=",
        values: &[],
        paper: None,
        of: |tree| &mut tree.blocks,
    },
    TreeAxis {
        setting: SweepAxis::Gamma,
        title: "Nodes of the tree",
        axis: "γ, nodes including the root",
        prefix: "γ=",
        values: &[1, 2, 4, 8, 12, 16, 24, 32, 48, 64],
        paper: Some(16),
        of: |tree| &mut tree.gamma,
    },
    TreeAxis {
        setting: SweepAxis::K,
        title: "Width of the tree",
        axis: "children per node",
        prefix: "width ",
        values: &[1, 2, 4, 6, 8, 10],
        paper: Some(10),
        of: |tree| &mut tree.width,
    },
    TreeAxis {
        setting: SweepAxis::D,
        title: "Depth of the tree",
        axis: "expansions",
        prefix: "depth ",
        values: &[0, 1, 2, 3, 5, 7],
        paper: Some(7),
        of: |tree| &mut tree.depth,
    },
];

/// k of DuoDecoding's static variants.
const SEQUENCES: [usize; 3] = [1, 2, 3];
/// Budgets with many divisors, in addition to those next to the one that the strategy chooses.
const BUDGETS: [usize; 7] = [2, 4, 6, 8, 12, 16, 24];
/// How far the budgets of the paper's Table 3 are from the one that fits.
const BESIDE: usize = 2;

/// A setting that can be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SweepAxis {
    /// Blocks M of the draft head.
    M,
    /// Nodes γ of the tree.
    Gamma,
    /// Width k of the tree.
    K,
    /// Depth D of the tree.
    D,
    /// Sequences and budget of DuoDecoding.
    Duo,
    /// Precision of the KV cache.
    Precision,
    /// Where target and draft run, expected and measured.
    Placement,
}

impl SweepAxis {
    /// Those that need no other models than the first.
    pub const DEFAULT: [Self; 5] = [Self::M, Self::Gamma, Self::K, Self::D, Self::Duo];
}

/// A point of a curve: the value of the setting, `None` if the program chooses it, and a candidate.
type Point = (Option<f64>, BenchCandidate);

fn point(name: String, value: usize, controls: Controls) -> Point {
    (Some(value as f64), BenchCandidate { name, controls })
}

/// Candidates to run against each other, and the curves that they are points of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variants {
    /// The target alone first.
    pub candidates: Vec<BenchCandidate>,
    /// Their curves.
    pub sweeps: Vec<Sweep>,
}

impl Variants {
    /// The target alone, and nothing else yet.
    pub fn new(base: &Controls) -> Self {
        Self { candidates: vec![alone(base)], sweeps: Vec::new() }
    }

    /// A curve. A candidate that exists already becomes a point of it and is not run twice.
    fn sweep(&mut self, title: &str, axis: &str, values: impl IntoIterator<Item = Point>) {
        let mut points = Vec::new();
        for (value, own) in values {
            let same =
                |other: &&BenchCandidate| other.name != PLAIN && other.controls == own.controls;
            match self.candidates.iter().find(same) {
                Some(known) => points.push((known.name.clone(), value)),
                None => {
                    points.push((own.name.clone(), value));
                    self.candidates.push(own);
                }
            }
        }
        self.sweeps.push(Sweep { points, ..Sweep::new(title, axis) });
    }

    /// One setting of the tree of `head`, the others as in the paper, with `blocks` blocks unless
    /// the user has fixed another number or they are what varies. `values` replaces the values of
    /// the table.
    pub fn tree(
        &mut self,
        base: &Controls,
        axis: SweepAxis,
        head: &str,
        blocks: usize,
        values: Option<&[usize]>,
    ) {
        let Some(row) = TREE.into_iter().find(|row| row.setting == axis) else { return };
        let mut base = Controls { speculate: true, ..base.clone() };
        base.tree.blocks = Setting::Fixed(base.tree.blocks.or(blocks));
        for other in TREE {
            if let Some(paper) = other.paper {
                let setting = (other.of)(&mut base.tree);
                *setting = Setting::Fixed(setting.or(paper));
            }
        }
        let named = |text: &str| text.replace("{head}", head);
        let points = values.unwrap_or(row.values).iter().map(|&value| {
            // A draft without blocks ignores the one that it gets.
            let fixed = if axis == SweepAxis::M { value.max(1) } else { value };
            let controls = with_tree(&base, |tree| *(row.of)(tree) = Setting::Fixed(fixed));
            point(format!("{}{value}", named(row.prefix)), value, controls)
        });
        self.sweep(&named(row.title), row.axis, points);
    }

    /// DuoDecoding's sequences at one budget, and its budget with a single sequence: `own`, which
    /// it chooses for itself, the budgets next to it and some further away.
    pub fn duo(&mut self, base: &Controls, duo: &'static Strategy, own: usize) {
        let name = duo.name;
        let tree = TreeOverrides::default();
        let base = Controls { speculate: true, strategy: Some(duo), tree, ..base.clone() };
        let at_own = with_tree(&base, |tree| tree.gamma = Setting::Fixed(own));
        let dynamic =
            (None, BenchCandidate { name: format!("{name} γ={own}"), controls: at_own.clone() });
        let sequences = SEQUENCES.map(|k| {
            let controls = with_tree(&at_own, |tree| tree.width = Setting::Fixed(k));
            point(format!("{name} k={k} γ={own}"), k, controls)
        });
        let title = format!("Sequences of DuoDecoding at γ = {own}");
        self.sweep(&title, "sequences k", std::iter::once(dynamic).chain(sequences));
        let single = with_tree(&base, |tree| tree.width = Setting::Fixed(1));
        let beside = own.saturating_sub(BESIDE).max(1)..=own + BESIDE;
        let budgets: BTreeSet<usize> = BUDGETS.into_iter().chain(beside).collect();
        let points = budgets.into_iter().map(|gamma| {
            let controls = with_tree(&single, |tree| tree.gamma = Setting::Fixed(gamma));
            point(format!("{name} k=1 γ={gamma}"), gamma, controls)
        });
        self.sweep("Budget of DuoDecoding with one sequence", "budget γ, tokens", points);
    }
}

/// The target alone.
pub fn alone(base: &Controls) -> BenchCandidate {
    let controls = Controls { speculate: false, strategy: Strategy::named(PLAIN), ..base.clone() };
    BenchCandidate { name: PLAIN.to_owned(), controls }
}

/// The numbers of blocks that can be chosen.
pub fn all_blocks(depths: Depths) -> Vec<usize> {
    match depths {
        Depths::Fixed(blocks) => vec![blocks],
        Depths::Elastic(most) => (1..=most).collect(),
    }
}

/// The placements in the order in which to measure them: the best on the CPU alone, the best of
/// all, the target alone with more and more blocks on the GPU, then the others from the fastest.
pub fn placements_in_order(found: &Placements) -> Vec<PlacementForecast> {
    let on_cpu: Vec<_> = found.rows.iter().copied().filter(|row| row.is_on_cpu()).collect();
    let mut rest = found.rows.clone();
    rest.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    let first = best_placement(&on_cpu).copied().into_iter().chain([found.best]);
    let mut all: Vec<PlacementForecast> = Vec::new();
    for row in first.chain(found.by_layers.iter().copied()).chain(rest) {
        if !all.contains(&row) {
            all.push(row);
        }
    }
    all
}

/// `base` with one value of the tree changed.
fn with_tree(base: &Controls, change: impl FnOnce(&mut TreeOverrides)) -> Controls {
    let mut controls = base.clone();
    change(&mut controls.tree);
    controls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(variants: &mut Variants, base: &Controls, blocks: usize) {
        for axis in [SweepAxis::Gamma, SweepAxis::K, SweepAxis::D] {
            variants.tree(base, axis, "DGF", blocks, None);
        }
    }

    #[test]
    fn one_setting_is_swept_while_the_others_are_fixed() {
        let base = Controls::default();
        let mut variants = Variants::new(&base);
        let blocks = all_blocks(Depths::Elastic(3));
        variants.tree(&base, SweepAxis::M, "DGF", 2, Some(&blocks));
        tree(&mut variants, &base, 2);
        assert!(!variants.candidates[0].controls.speculate);
        let names: Vec<&str> = variants.candidates.iter().map(|c| c.name.as_str()).collect();
        let unique: std::collections::HashSet<&&str> = names.iter().collect();
        assert_eq!(unique.len(), names.len(), "{names:?}");
        let blocks: Vec<Setting> =
            variants.candidates[1..4].iter().map(|c| c.controls.tree.blocks).collect();
        assert_eq!(blocks, [Setting::Fixed(1), Setting::Fixed(2), Setting::Fixed(3)]);
        // The paper's tree with two blocks is a point of all four curves and is run once.
        assert_eq!(variants.sweeps.len(), 4);
        for sweep in &variants.sweeps {
            assert!(sweep.points.iter().any(|(name, _)| name == "DGF m=2"), "{sweep:?}");
            for (name, _) in &sweep.points {
                assert!(names.contains(&name.as_str()), "{name} is not run");
            }
        }
        let alone = variants.candidates.iter().find(|c| c.name == "γ=1").unwrap();
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
            |name: &str| variants.candidates.iter().find(|c| c.name == name).unwrap().controls.tree;
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
        assert!(variants.candidates[1..].iter().all(|c| c.controls.strategy == Some(duo)));
    }

    #[test]
    fn fixed_values_and_own_lists_stay() {
        let base = with_tree(&Controls::default(), |tree| tree.width = Setting::Fixed(4));
        let mut variants = Variants::new(&base);
        variants.tree(&base, SweepAxis::Gamma, "DGF", 1, Some(&[3, 8]));
        let names: Vec<&str> = variants.candidates.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, [PLAIN, "γ=3", "γ=8"]);
        assert_eq!(variants.candidates[2].controls.tree.width, Setting::Fixed(4));
    }
}
