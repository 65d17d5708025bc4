//! What past rounds say about trees that were not tried: Ω for any smaller γ, k and D.
//!
//! The tree of a smaller γ is the top of the larger one's ranking (spec §4), so the rank of each
//! accepted node tells whether a smaller tree would have held it too; one run with a large γ
//! predicts all smaller ones (spec §10).

use std::collections::VecDeque;

use super::{Pick, prior};
use crate::speculate::{Shape, Tree};

/// Rounds remembered for each M: long enough to average over, short enough to follow the text.
const MEMORY: usize = 96;
/// How many rounds the prior counts for.
const PRIOR_ROUNDS: f64 = 6.0;

/// One accepted node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    /// Place in the tree's ranking by score, from 1.
    rank: usize,
    /// Place among its siblings, from 0.
    sibling: usize,
}

/// One round: the tree it was offered within and the accepted path, root's child first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    shape: Shape,
    path: Vec<Step>,
}

impl Entry {
    /// Accepted nodes that a tree within `shape` would have held as well.
    fn within(&self, shape: &Shape) -> usize {
        self.path
            .iter()
            .take(shape.depth + 1)
            .take_while(|step| step.rank < shape.gamma && step.sibling < shape.width)
            .count()
    }
}

/// The rounds seen with one M.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    entries: VecDeque<Entry>,
}

impl Ledger {
    /// Rounds remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Notes a round with a tree.
    pub fn note(&mut self, shape: Shape, tree: &Tree, accepted: &[usize]) {
        if self.entries.len() == MEMORY {
            self.entries.pop_front();
        }
        let nodes = tree.nodes();
        let path = accepted
            .iter()
            .filter(|&&at| at > 0 && at < nodes.len())
            .map(|&at| {
                let node = &nodes[at];
                // Score descending, earlier node first: the order the tree was cut by.
                let before = |i: usize| {
                    nodes[i].score > node.score || (nodes[i].score == node.score && i < at)
                };
                Step {
                    rank: 1 + (1..nodes.len()).filter(|&i| i != at && before(i)).count(),
                    sibling: (1..at).filter(|&i| nodes[i].parent == node.parent).count(),
                }
            })
            .collect();
        self.entries.push_back(Entry { shape, path });
    }

    /// Sum over the remembered rounds of the tokens that `pick` would have gained in them. Where
    /// `pick` asks for more than a round offered, what it offered is raised as the prior rises.
    fn gains(&self, pick: &Pick) -> f64 {
        self.entries
            .iter()
            .map(|entry| {
                let common = Shape {
                    gamma: pick.shape.gamma.min(entry.shape.gamma),
                    width: pick.shape.width.min(entry.shape.width),
                    depth: pick.shape.depth.min(entry.shape.depth),
                };
                let seen = entry.within(&common) as f64;
                if common == pick.shape {
                    return seen;
                }
                let known = prior::gain(&Pick { shape: common, ..*pick });
                if known > 0.0 { seen * prior::gain(pick) / known } else { prior::gain(pick) }
            })
            .sum()
    }
}

/// The ledgers of all M.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledgers {
    by_blocks: Vec<Ledger>,
}

impl Ledgers {
    /// Notes a round drafted with `pick`.
    pub fn note(&mut self, pick: &Pick, tree: &Tree, accepted: &[usize]) {
        if self.by_blocks.len() <= pick.blocks {
            self.by_blocks.resize_with(pick.blocks + 1, Ledger::default);
        }
        self.by_blocks[pick.blocks].note(pick.shape, tree, accepted);
    }

    /// Forgets all but the last `keep` rounds of each M: what was learned long ago must not drown
    /// what is about to be tried.
    pub fn fade(&mut self, keep: usize) {
        for ledger in &mut self.by_blocks {
            let gone = ledger.entries.len().saturating_sub(keep);
            ledger.entries.drain(..gone);
        }
    }

    /// Rounds remembered, all M together.
    pub fn rounds(&self) -> usize {
        self.by_blocks.iter().map(Ledger::len).sum()
    }

    /// Ω expected of `pick`: its own M's rounds, with a little of what is expected without them,
    /// which is the best-known M's rounds carried over in the prior's proportion.
    pub fn omega(&self, pick: &Pick) -> f64 {
        let most = (pick.shape.gamma.max(1) - 1).min(pick.shape.depth + 1) as f64;
        if most == 0.0 {
            return 1.0;
        }
        let own = self.by_blocks.get(pick.blocks).filter(|ledger| !ledger.is_empty());
        let (seen, rounds) = own.map_or((0.0, 0.0), |l| (l.gains(pick), l.len() as f64));
        let best_known = self.by_blocks.iter().enumerate().max_by_key(|(blocks, ledger)| {
            // Of equally well known ones the nearest M.
            (ledger.len(), usize::MAX - blocks.abs_diff(pick.blocks))
        });
        let carried = match best_known {
            Some((blocks, ledger)) if blocks != pick.blocks && !ledger.is_empty() => {
                let there = Pick { blocks, ..*pick };
                let mean = (ledger.gains(&there) + PRIOR_ROUNDS * prior::gain(&there))
                    / (ledger.len() as f64 + PRIOR_ROUNDS);
                mean * prior::gain(pick) / prior::gain(&there).max(f64::MIN_POSITIVE)
            }
            _ => prior::gain(pick),
        };
        1.0 + ((seen + PRIOR_ROUNDS * carried) / (rounds + PRIOR_ROUNDS)).min(most)
    }
}
