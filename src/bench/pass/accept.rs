//! How many tokens of a draft are accepted, from recorded rounds: each recorded tree is cut to the
//! nodes that a smaller γ would have kept, and the accepted path to what remains of it; or from the
//! figures that a paper prints. It must not depend on times.

use std::path::Path;

use anyhow::{anyhow, bail};

use crate::bench::paper::{Metric, Published, PublishedRow};
use crate::decode::Round;
use crate::record::{Line, Record};
use crate::speculate::{Budget, Method, Tree};

/// The name of a published profile begins with this; the prompt set follows.
pub const PUBLISHED_PREFIX: &str = "paper:";

/// The table whose τ is taken, and the one tree that it was measured with.
const TABLE: &str = "3";
const GAMMA: usize = 16;
const WIDTH: usize = 10;
const DEPTH: usize = 7;
/// The names of its rows with a DGF head: alone it has one block, `+ n` are n more.
const HEAD: &str = "w/ DGF";

/// Recorded rounds, by the blocks that drafted them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AcceptanceProfile {
    rounds: Vec<DraftedRound>,
    /// Of a paper's figures: (M, tokens of the draft accepted per round), at [`GAMMA`].
    published: Vec<(usize, f64)>,
    /// Where they come from, for people.
    pub sources: Vec<String>,
}

/// The parts of a round that matter.
#[derive(Clone, Debug, PartialEq)]
struct DraftedRound {
    budget: Budget,
    tree: Tree,
    accepted: Vec<usize>,
}

impl AcceptanceProfile {
    /// Adds the rounds of a record.
    ///
    /// # Errors
    /// It is not a record, or has no rounds with a whole dynamic tree.
    pub fn add(&mut self, path: &Path) -> anyhow::Result<Record> {
        let record = Record::read(path)?;
        let rounds = record.lines.iter().filter_map(|line| match line {
            Line::Round(round) => drafted(round),
            _ => None,
        });
        let before = self.rounds.len();
        self.rounds.extend(rounds);
        let count = self.rounds.len() - before;
        if count == 0 {
            bail!(
                "{} contains no round with a draft tree of a fixed size; record one with `dovetail \
                 run --record FILE --strategy dovetail --gamma 64 --width 10 --depth 7 --blocks M`",
                path.display()
            );
        }
        let target = record.ready.as_ref().map_or("a target", |ready| &ready.target);
        let draft = record.ready.as_ref().and_then(|ready| ready.draft.as_deref());
        self.sources.push(format!(
            "{}: {count} rounds of {target} with {}",
            path.display(),
            draft.unwrap_or("a draft")
        ));
        Ok(record)
    }

    /// The acceptance that a paper prints for the prompt set `name`: τ for each number of blocks.
    ///
    /// # Errors
    /// There is no such set.
    pub fn published(published: &Published, name: &str) -> anyhow::Result<Self> {
        let table = published.tables.get(TABLE).ok_or_else(|| anyhow!("there is no table"))?;
        let Some(column) = table.columns.iter().position(|column| column == name) else {
            let known = table.columns.iter().map(|name| format!("{PUBLISHED_PREFIX}{name}"));
            bail!(
                "there is no published acceptance named `{PUBLISHED_PREFIX}{name}`; choose from {}",
                known.collect::<Vec<_>>().join(", ")
            );
        };
        let tau = table.cells.iter().position(|cell| *cell == Metric::Tau);
        let point = |row: &PublishedRow| {
            let tau = (*row.cells.get(column)?.get(tau?)?)?;
            Some((blocks(&row.name)?, tau - 1.0))
        };
        let rows = table.blocks.iter().flat_map(|block| &block.rows);
        let settings = table.settings.as_deref().unwrap_or("settings unknown");
        let source = format!(
            "{PUBLISHED_PREFIX}{name}: τ of {}, {}; {settings}; published only for γ = {GAMMA}",
            table.title, table.source
        );
        let published = rows.filter_map(point).collect();
        Ok(Self { rounds: Vec::new(), published, sources: vec![source] })
    }

    /// Tokens of the draft that a round accepts in the mean, with γ nodes and so many blocks;
    /// `None` if no recorded round is large enough.
    pub fn accepted(&self, gamma: usize, blocks: usize) -> Option<f64> {
        let fits = |budget: &Budget| budget.blocks == blocks && budget.shape.gamma >= gamma;
        let rounds = self.rounds.iter().filter(|round| fits(&round.budget));
        let counts: Vec<usize> =
            rounds.map(|round| accepted_within(&round.tree, &round.accepted, gamma)).collect();
        if counts.is_empty() {
            let point = self.published.iter().find(|(of, _)| gamma == GAMMA && *of == blocks);
            return point.map(|(_, accepted)| *accepted);
        }
        Some(counts.iter().sum::<usize>() as f64 / counts.len() as f64)
    }

    /// Width k and depth D of its first tree; the paper's if it has none.
    pub fn shape(&self) -> (usize, usize) {
        let first = self.rounds.first().map(|round| round.budget.shape);
        first.map_or((WIDTH, DEPTH), |shape| (shape.width, shape.depth))
    }
}

/// M of a row; `None` for a head of another kind.
fn blocks(row: &str) -> Option<usize> {
    match row.strip_prefix(HEAD)?.trim() {
        "" => Some(1),
        more => Some(1 + more.strip_prefix('+')?.trim().parse::<usize>().ok()?),
    }
}

/// A round whose tree shows what smaller ones would have been: a whole dynamic tree, ranked by its
/// scores. The end of an answer cuts its last tree.
fn drafted(round: &Round) -> Option<DraftedRound> {
    let Round { budget, tree, accepted, .. } = round;
    let whole = round.finish.is_none() && tree.len() == budget.shape.gamma;
    let ranked = round.speculative && budget.method == Method::Tree && tree.len() > 1;
    (whole && ranked).then(|| DraftedRound {
        budget: *budget,
        tree: tree.clone(),
        accepted: accepted.clone(),
    })
}

/// How many nodes of the accepted path are among the `gamma` − 1 best drafted ones: those that a
/// tree of `gamma` nodes would hold, since it keeps the best of the same candidates (method.md,
/// Tree growth).
fn accepted_within(tree: &Tree, accepted: &[usize], gamma: usize) -> usize {
    let best = tree.best_below(0, gamma);
    accepted.iter().take_while(|node| best.contains(node)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speculate::Shape;
    use proptest::prelude::*;

    /// Root → (a: −0.1 → (c: −0.3), b: −1).
    fn tree() -> Tree {
        let mut tree = Tree::root(0);
        let a = tree.push(0, 1, -0.1);
        tree.push(0, 2, -1.0);
        tree.push(a, 3, -0.2);
        tree
    }

    #[test]
    fn a_smaller_tree_keeps_the_best_nodes_and_what_they_accept() {
        let round = |blocks, accepted: &[usize]| DraftedRound {
            budget: Budget::new(Shape { gamma: 4, width: 2, depth: 1 }, blocks),
            tree: tree(),
            accepted: accepted.to_vec(),
        };
        let rounds = vec![round(1, &[1, 3]), round(1, &[2]), round(1, &[]), round(2, &[1, 3])];
        let profile = AcceptanceProfile { rounds, ..AcceptanceProfile::default() };
        for (gamma, blocks, accepted, why) in [
            (2, 1, Some(1.0 / 3.0), "a alone"),
            (3, 1, Some(2.0 / 3.0), "a and c"),
            (4, 1, Some(1.0), "everything"),
            (5, 1, None, "larger than what was recorded"),
            (4, 2, Some(2.0), "other blocks"),
            (4, 3, None, "blocks that were not recorded"),
        ] {
            assert_eq!(profile.accepted(gamma, blocks), accepted, "{why}");
        }
        assert_eq!(profile.shape(), (2, 1));
    }

    #[test]
    fn a_published_profile_covers_its_own_tree() {
        let published = crate::bench::paper::published().unwrap();
        let profile = AcceptanceProfile::published(&published, "mt_bench").unwrap();
        assert_eq!(profile.accepted(8, 3), None);
        assert!((profile.accepted(16, 5).unwrap() - 3.73).abs() < 1e-9);
        assert_eq!(profile.shape(), (10, 7));
        let profile = AcceptanceProfile::published(&published, "humaneval").unwrap();
        let at = |blocks| profile.accepted(16, blocks);
        assert!((at(1).unwrap() - 3.89).abs() < 1e-9 && (at(6).unwrap() - 4.98).abs() < 1e-9);
        assert_eq!((at(0), at(7), blocks("w/o both")), (None, None, None));
        for words in ["paper:humaneval", "Table III", "arXiv 2412.18934", "Llama-2-chat-7B"] {
            assert!(profile.sources[0].contains(words), "{words}: {:?}", profile.sources);
        }
        let error = AcceptanceProfile::published(&published, "alpaca").unwrap_err();
        assert!(error.to_string().contains("paper:mt_bench, paper:humaneval"), "{error}");
    }

    proptest! {
        #[test]
        fn more_nodes_never_accept_less(
            steps in prop::collection::vec((0usize..8, -3.0f32..0.0), 1..20), down in 0usize..20,
        ) {
            let mut tree = Tree::root(0);
            for (at, (parent, log_prob)) in steps.iter().enumerate() {
                tree.push(parent % (at + 1), at as u32 + 1, *log_prob);
            }
            let mut path = Vec::new();
            let mut node = 1 + down % steps.len();
            while node != 0 {
                path.insert(0, node);
                node = tree.nodes()[node].parent;
            }
            let all: Vec<usize> =
                (1..=tree.len()).map(|gamma| accepted_within(&tree, &path, gamma)).collect();
            prop_assert!(all.is_sorted());
            prop_assert_eq!(*all.last().unwrap(), path.len());
        }
    }
}
