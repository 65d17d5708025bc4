//! What past rounds say about trees that were not tried: Ω for any smaller γ, k and D.
//!
//! The tree of a smaller γ is the top of the larger one's ranking (method.md, Tree growth), so the
//! rank of each accepted node says whether a smaller tree would have contained it too. One run with
//! a large γ predicts all smaller ones (method.md, Cost model).

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};

use super::prior;
use crate::speculate::{Budget, Shape, Tree};

/// How many rounds are remembered for each M: enough to average over, few enough to follow the
/// text.
const MEMORY: usize = 96;
/// How many rounds the prior counts for.
const PRIOR_ROUNDS: f64 = 6.0;

/// One accepted node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    /// Its place in the tree's ranking by score, starting at 1.
    rank: usize,
    /// Its place among its siblings, starting at 0.
    sibling: usize,
}

/// One round: the shape of its tree and the accepted path, starting with the root's child.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PastRound {
    shape: Shape,
    path: Vec<Step>,
}

impl PastRound {
    /// How many accepted nodes a tree of `shape` would have contained as well.
    fn within(&self, shape: &Shape) -> usize {
        self.path
            .iter()
            .take(shape.depth + 1)
            .take_while(|step| step.rank < shape.gamma && step.sibling < shape.width)
            .count()
    }
}

/// The rounds observed with one M.
#[derive(Clone, Debug, Default, PartialEq)]
struct PastRounds(VecDeque<PastRound>);

impl PastRounds {
    /// Notes a round with a tree.
    fn note(&mut self, shape: Shape, tree: &Tree, accepted: &[usize]) {
        if self.0.len() == MEMORY {
            self.0.pop_front();
        }
        let nodes = tree.nodes();
        let path = accepted
            .iter()
            .filter(|&&at| at > 0 && at < nodes.len())
            .map(|&at| {
                let node = &nodes[at];
                // By descending score, the earlier node first: the order in which the tree was cut.
                let before = |i: usize| {
                    nodes[i].score > node.score || (nodes[i].score == node.score && i < at)
                };
                Step {
                    rank: 1 + (1..nodes.len()).filter(|&i| i != at && before(i)).count(),
                    sibling: (1..at).filter(|&i| nodes[i].parent == node.parent).count(),
                }
            })
            .collect();
        self.0.push_back(PastRound { shape, path });
    }

    /// How likely an accepted path is to continue for one more level, from all levels observed and
    /// a few imaginary ones: (right + 3) / (right + wrong + 5), the mean of a Beta distribution.
    fn goes_on(&self) -> f64 {
        let right: usize = self.0.iter().map(|entry| entry.path.len()).sum();
        let wrong = self.0.iter().filter(|entry| entry.path.len() <= entry.shape.depth).count();
        (right as f64 + 3.0) / ((right + wrong) as f64 + 5.0)
    }

    /// The sum, over the remembered rounds, of the tokens that `budget` would have gained in them.
    /// If `budget` requests more nodes or width than a round offered, the round's gain is raised in
    /// the same proportion as the prior. If it requests more depth, a path that was still right
    /// where its tree ended is assumed to continue like other paths in this history.
    fn gains(&self, budget: &Budget) -> f64 {
        let goes_on = self.goes_on();
        // Neighbouring rounds mostly had the same tree.
        let mut last: Option<(Shape, InCommon)> = None;
        let most = (budget.shape.gamma.max(1) - 1).min(budget.shape.depth + 1) as f64;
        self.0
            .iter()
            .map(|entry| {
                let InCommon { shape: common, rise } = match last {
                    Some((offered, common)) if offered == entry.shape => common,
                    _ => InCommon::of(budget, &entry.shape),
                };
                last = Some((entry.shape, InCommon { shape: common, rise }));
                let seen = entry.within(&common);
                let raised = match rise {
                    None => seen as f64,
                    Some((wanted, known)) if known > 0.0 => seen as f64 * wanted / known,
                    Some((wanted, _)) => wanted,
                };
                let deeper =
                    if seen == common.depth + 1 { budget.shape.depth - common.depth } else { 0 };
                let further: f64 = (1..=deeper).map(|level| goes_on.powi(level as i32)).sum();
                (raised + further).min(most)
            })
            .sum()
    }
}

/// What a budget and an offered tree have in common.
#[derive(Clone, Copy, Debug)]
struct InCommon {
    shape: Shape,
    /// If the budget requests more nodes or width: the prior's gain for the budget and for the
    /// common part, both at the common depth.
    rise: Option<(f64, f64)>,
}

impl InCommon {
    fn of(budget: &Budget, offered: &Shape) -> Self {
        let shape = Shape {
            gamma: budget.shape.gamma.min(offered.gamma),
            width: budget.shape.width.min(offered.width),
            depth: budget.shape.depth.min(offered.depth),
        };
        let as_deep = Shape { depth: shape.depth, ..budget.shape };
        let gain = |shape| prior::gain(&Budget { shape, ..*budget });
        Self { shape, rise: (shape != as_deep).then(|| (gain(as_deep), gain(shape))) }
    }
}

/// The observed rounds, by M.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AcceptanceHistory {
    by_blocks: Vec<PastRounds>,
}

impl AcceptanceHistory {
    /// Notes a round that was drafted with `budget`.
    pub fn note(&mut self, budget: &Budget, tree: &Tree, accepted: &[usize]) {
        if self.by_blocks.len() <= budget.blocks {
            self.by_blocks.resize_with(budget.blocks + 1, PastRounds::default);
        }
        self.by_blocks[budget.blocks].note(budget.shape, tree, accepted);
    }

    /// Forgets all except the last `keep` rounds of each M, so that old observations do not
    /// outweigh what is about to be tried.
    pub fn fade(&mut self, keep: usize) {
        for PastRounds(rounds) in &mut self.by_blocks {
            let gone = rounds.len().saturating_sub(keep);
            rounds.drain(..gone);
        }
    }

    /// How many rounds are remembered, for all M together.
    pub fn rounds(&self) -> usize {
        self.by_blocks.iter().map(|rounds| rounds.0.len()).sum()
    }

    /// The expected Ω of `budget`: 1 + (gains + P·carried) / (rounds + P), where `gains` is what it
    /// would have gained in the rounds of its own M and P is [`PRIOR_ROUNDS`]. `carried` is the
    /// same mean of the best-known M, scaled in the prior's proportion, or the prior itself.
    ///
    /// What several budgets have in common is computed only once.
    pub fn omega(&self) -> impl Fn(&Budget) -> f64 + '_ {
        let known = RefCell::new(HashMap::new());
        move |budget| {
            self.omega_from(budget, |blocks, budget| {
                let gains = || self.by_blocks[blocks].gains(budget);
                *known.borrow_mut().entry((blocks, budget.shape)).or_insert_with(gains)
            })
        }
    }

    /// Ω from the gains of a budget in the history of its own M.
    fn omega_from(&self, budget: &Budget, gains: impl Fn(usize, &Budget) -> f64) -> f64 {
        let most = (budget.shape.gamma.max(1) - 1).min(budget.shape.depth + 1) as f64;
        if most == 0.0 {
            return 1.0;
        }
        let known = |blocks: usize| self.by_blocks.get(blocks).map_or(0, |rounds| rounds.0.len());
        let rounds = known(budget.blocks);
        let seen = if rounds > 0 { gains(budget.blocks, budget) } else { 0.0 };
        // Of equally well-known ones, the nearest M.
        let best_known = (0..self.by_blocks.len())
            .max_by_key(|&blocks| (known(blocks), usize::MAX - blocks.abs_diff(budget.blocks)));
        let carried = match best_known {
            Some(blocks) if blocks != budget.blocks && known(blocks) > 0 => {
                let there = Budget { blocks, ..*budget };
                let mean = (gains(blocks, &there) + PRIOR_ROUNDS * prior::gain(&there))
                    / (known(blocks) as f64 + PRIOR_ROUNDS);
                mean * prior::gain(budget) / prior::gain(&there).max(f64::MIN_POSITIVE)
            }
            _ => prior::gain(budget),
        };
        1.0 + ((seen + PRIOR_ROUNDS * carried) / (rounds as f64 + PRIOR_ROUNDS)).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A history of rounds drafted as chains of `depth` + 1 tokens; `right` lists how many of them
    /// were accepted.
    fn chains(depth: usize, right: &[usize]) -> AcceptanceHistory {
        let mut history = AcceptanceHistory::default();
        for &right in right {
            let mut tree = Tree::root(0);
            let mut accepted = Vec::new();
            for at in 0..=depth {
                accepted.push(tree.push(at, 1, -0.1));
            }
            accepted.truncate(right);
            history.note(&chain(depth), &tree, &accepted);
        }
        history
    }

    fn chain(depth: usize) -> Budget {
        Budget::new(Shape { gamma: depth + 2, width: 1, depth }, 1)
    }

    #[test]
    fn many_picks_are_worth_what_each_is_alone() {
        let mut history = chains(4, &[0, 2, 5, 1, 3]);
        history.note(&Budget { blocks: 3, ..chain(2) }, &Tree::root(0), &[]);
        let omega = history.omega();
        for gamma in [1, 2, 6, 16] {
            for width in [1, 3] {
                for depth in [0, 2, 7] {
                    for blocks in 0..5 {
                        let budget = Budget::new(Shape { gamma, width, depth }, blocks);
                        assert_eq!(omega(&budget).to_bits(), history.omega()(&budget).to_bits());
                    }
                }
            }
        }
    }

    #[test]
    fn paths_that_never_fail_promise_much_of_deeper_trees() {
        let always = chains(2, &[3; 64]);
        assert!(always.omega()(&chain(2)) > 3.7);
        assert!(always.omega()(&chain(6)) > 6.0);
    }

    #[test]
    fn paths_that_stop_early_promise_nothing_of_deeper_trees() {
        let seldom = chains(2, &[0, 1, 0, 0, 1, 0, 0, 0].repeat(8));
        let gained = seldom.omega()(&chain(6)) - seldom.omega()(&chain(2));
        assert!((0.0..0.4).contains(&gained), "{gained}");
    }
}
