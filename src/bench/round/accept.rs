//! How many tokens of a draft are accepted, from recorded rounds: each recorded tree is cut to what
//! a smaller γ would have kept of it, and the accepted path to what of it is left; or from what a
//! paper prints. Must never know times.

use std::path::{Path, PathBuf};

use super::published::{NotPublished, PublishedAcceptance};
use crate::bench::paper::Published;
use crate::decode::Round;
use crate::speculate::{Method, Tree};
use crate::worker::Line;
use crate::worker::record::{Record, RecordError};

/// Recorded rounds by the blocks that drafted them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AcceptanceProfile {
    rounds: Vec<DraftedRound>,
    published: Option<PublishedAcceptance>,
    /// Where they come from, for people.
    pub sources: Vec<String>,
}

/// What matters of a round.
#[derive(Clone, Debug, PartialEq)]
struct DraftedRound {
    blocks: usize,
    /// γ that it was drafted with.
    gamma: usize,
    width: usize,
    depth: usize,
    tree: Tree,
    accepted: Vec<usize>,
}

/// Why a record is no profile.
#[derive(Debug, thiserror::Error)]
pub enum AcceptanceError {
    /// It is no record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// It has no rounds that tell.
    #[error(
        "{}: no round of it was drafted as a tree of a fixed size; record one with `dovetail run \
         --record FILE --strategy dovetail --gamma 64 --width 10 --depth 7 --blocks M`",
        .0.display()
    )]
    Nothing(PathBuf),
}

impl AcceptanceProfile {
    /// Adds the rounds of a record.
    ///
    /// # Errors
    /// [`AcceptanceError`].
    pub fn add(&mut self, path: &Path) -> Result<Record, AcceptanceError> {
        let record = Record::read(path)?;
        let rounds = record.lines.iter().filter_map(|line| match line {
            Line::Round(round) => drafted(round),
            _ => None,
        });
        let before = self.rounds.len();
        self.rounds.extend(rounds);
        let count = self.rounds.len() - before;
        if count == 0 {
            return Err(AcceptanceError::Nothing(path.to_owned()));
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

    /// The acceptance that a paper prints for the prompt set `name`.
    ///
    /// # Errors
    /// [`NotPublished`].
    pub fn published(published: &Published, name: &str) -> Result<Self, NotPublished> {
        let acceptance = PublishedAcceptance::named(published, name)?;
        let sources = vec![acceptance.source.clone()];
        Ok(Self { rounds: Vec::new(), published: Some(acceptance), sources })
    }

    /// Tokens of the draft that a round accepts in the mean, with trees of `gamma` nodes by
    /// `blocks` blocks; `None` if no round tells. A single node drafts nothing.
    pub fn accepted(&self, gamma: usize, blocks: usize) -> Option<f64> {
        if gamma <= 1 {
            return Some(0.0);
        }
        let telling = |round: &&DraftedRound| round.blocks == blocks && round.gamma >= gamma;
        let rounds: Vec<&DraftedRound> = self.rounds.iter().filter(telling).collect();
        let accepted = |round: &&DraftedRound| accepted_within(&round.tree, &round.accepted, gamma);
        let sum: usize = rounds.iter().map(accepted).sum();
        match &self.published {
            Some(published) if rounds.is_empty() => published.accepted(gamma, blocks),
            _ => (!rounds.is_empty()).then(|| sum as f64 / rounds.len() as f64),
        }
    }

    /// Width k and depth D of its first tree; the paper's where there is none.
    pub fn shape(&self) -> (usize, usize) {
        self.rounds.first().map_or(PublishedAcceptance::SHAPE, |round| (round.width, round.depth))
    }

    /// Numbers of blocks that it tells of.
    pub fn blocks(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.rounds.iter().map(|round| round.blocks).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The largest γ that it tells of for so many blocks.
    pub fn most_gamma(&self, blocks: usize) -> usize {
        let of = self.rounds.iter().filter(|round| round.blocks == blocks);
        of.map(|round| round.gamma).max().unwrap_or(0)
    }
}

/// A round whose tree says what smaller ones would have been: a whole dynamic tree, ranked by its
/// scores. The last of an answer is cut by its end.
fn drafted(round: &Round) -> Option<DraftedRound> {
    let budget = &round.budget;
    let whole = round.finish.is_none() && round.tree.len() == budget.shape.gamma;
    let tells = round.speculative && budget.method == Method::Tree && round.tree.len() > 1;
    (whole && tells).then(|| DraftedRound {
        blocks: budget.blocks,
        gamma: budget.shape.gamma,
        width: budget.shape.width,
        depth: budget.shape.depth,
        tree: round.tree.clone(),
        accepted: round.accepted.clone(),
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
    use proptest::prelude::*;

    /// Root → (a: −0.1 → (c: −0.3), b: −1).
    fn tree() -> Tree {
        let mut tree = Tree::root(0);
        let a = tree.push(0, 1, -0.1);
        tree.push(0, 2, -1.0);
        tree.push(a, 3, -0.2);
        tree
    }

    fn profile() -> AcceptanceProfile {
        let round = |blocks, accepted: &[usize]| DraftedRound {
            blocks,
            gamma: 4,
            width: 2,
            depth: 1,
            tree: tree(),
            accepted: accepted.to_vec(),
        };
        let rounds = vec![round(1, &[1, 3]), round(1, &[2]), round(1, &[]), round(2, &[1, 3])];
        AcceptanceProfile { rounds, ..AcceptanceProfile::default() }
    }

    #[test]
    fn a_smaller_tree_keeps_the_best_nodes_and_what_they_accept() {
        let profile = profile();
        assert_eq!(profile.accepted(1, 1), Some(0.0));
        assert_eq!(profile.accepted(2, 1), Some(1.0 / 3.0), "a alone");
        assert_eq!(profile.accepted(3, 1), Some(2.0 / 3.0), "a and c");
        assert_eq!(profile.accepted(4, 1), Some(1.0));
        assert_eq!(profile.accepted(5, 1), None, "larger than what was recorded");
        assert_eq!(profile.accepted(4, 2), Some(2.0));
        assert_eq!(profile.accepted(4, 3), None);
        assert_eq!((profile.blocks(), profile.most_gamma(1)), (vec![1, 2], 4));
    }

    #[test]
    fn a_published_profile_tells_of_its_own_tree() {
        let published = crate::bench::paper::published().unwrap();
        let profile = AcceptanceProfile::published(&published, "mt_bench").unwrap();
        assert_eq!((profile.accepted(1, 3), profile.accepted(8, 3)), (Some(0.0), None));
        assert!((profile.accepted(16, 5).unwrap() - 3.73).abs() < 1e-9);
        assert_eq!(profile.shape(), (10, 7));
        assert!(profile.sources[0].contains("Table III"), "{:?}", profile.sources);
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
