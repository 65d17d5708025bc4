//! How many tokens of a draft are accepted, from recorded rounds: each recorded tree is cut to what
//! a smaller γ would have kept of it, and the accepted path to what of it is left; or from what a
//! paper prints. Must never know times.

use std::path::{Path, PathBuf};

use super::published::{NotPublished, PublishedAcceptance};
use super::small::{self, SequenceRounds, SmallRound};
use super::turned::Turned;
use crate::bench::paper::Published;
use crate::decode::Round;
use crate::plan::{DrafterId, Strategy};
use crate::record::{Line, Record, RecordError};
use crate::speculate::{Budget, Method, Tree};

/// Recorded rounds of heads, by the blocks that drafted them, and of small models.
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
    method: Method,
    /// Whether a small model drafted it.
    small: bool,
    tree: Tree,
    accepted: Vec<usize>,
    bonus: u32,
}

impl DraftedRound {
    fn as_small(&self) -> SmallRound<'_> {
        SmallRound { tree: &self.tree, accepted: &self.accepted, bonus: self.bonus }
    }
}

/// Why a record is no profile.
#[derive(Debug, thiserror::Error)]
pub enum AcceptanceError {
    /// It is no record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// It has no rounds that tell.
    #[error(
        "{} contains no round with a draft tree of a fixed size; record one with `dovetail run \
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

    /// Tokens of the draft that a round accepts in the mean where `strategy` drafts with `budget`;
    /// `None` if no round tells. A single node drafts nothing.
    pub fn accepted(&self, strategy: &Strategy, turned: Turned, budget: &Budget) -> Option<f64> {
        let (gamma, width) = (budget.shape.gamma, budget.shape.width);
        match (turned, budget.method) {
            _ if gamma <= 1 => Some(0.0),
            (Turned::Blocks(blocks), _) => self.by_head(gamma, blocks),
            (Turned::Width(_), Method::Sequences { .. }) => None,
            (Turned::Width(1), Method::Tree) => {
                let right = small::survival(&self.of_small(), gamma - 1)?;
                Some(right.iter().sum())
            }
            (Turned::Width(_), method) => {
                let rounds = self.wide(strategy, budget);
                let count = |round: &&DraftedRound| {
                    small::accepted(&round.as_small(), gamma, width, method)
                };
                mean(rounds.iter().map(count))
            }
        }
    }

    fn by_head(&self, gamma: usize, blocks: usize) -> Option<f64> {
        let telling =
            |round: &&DraftedRound| !round.small && round.blocks == blocks && round.gamma >= gamma;
        let rounds = self.rounds.iter().filter(telling);
        let accepted = |round: &DraftedRound| accepted_within(&round.tree, &round.accepted, gamma);
        let published = self.published.as_ref().filter(|_| rounds.clone().next().is_none());
        match published {
            Some(published) => published.accepted(gamma, blocks),
            None => mean(rounds.map(accepted)),
        }
    }

    /// What rounds of DuoDecoding win, `k` sequences of γ tokens in all; `None` if no round tells.
    pub(super) fn sequences(&self, gamma: usize, k: usize) -> Option<SequenceRounds> {
        small::sequences(&self.of_small(), gamma, k)
    }

    /// Rows of the passes that a small model drafts such trees in, round by round; nothing if no
    /// round tells.
    pub(super) fn passes(&self, strategy: &Strategy, budget: &Budget) -> Vec<Vec<usize>> {
        let rounds = self.wide(strategy, budget);
        rounds.into_iter().map(|round| small::passes(&round.tree, budget)).collect()
    }

    /// Trees of small models in which the likeliest token stands below every node.
    fn of_small(&self) -> Vec<SmallRound<'_>> {
        let rounds = self.rounds.iter().filter(|round| round.small && round.method == Method::Tree);
        rounds.map(DraftedRound::as_small).collect()
    }

    /// Trees of small models that hold those of `budget`.
    fn wide(&self, strategy: &Strategy, budget: &Budget) -> Vec<&DraftedRound> {
        let (shape, method) = (budget.shape, strategy.method);
        let telling = |round: &&DraftedRound| {
            let holds = round.gamma >= shape.gamma && round.width >= shape.width;
            round.small && round.method == method && holds
        };
        self.rounds.iter().filter(telling).collect()
    }

    /// Width k and depth D of its first tree; the paper's where there is none.
    pub fn shape(&self) -> (usize, usize) {
        self.rounds.first().map_or(PublishedAcceptance::SHAPE, |round| (round.width, round.depth))
    }

    /// The largest γ that it tells of.
    pub fn most_gamma(&self, turned: Turned) -> usize {
        let of = self.rounds.iter().filter(|round| match turned {
            Turned::Blocks(blocks) => !round.small && round.blocks == blocks,
            Turned::Width(width) => round.small && round.width == width,
        });
        of.map(|round| round.gamma).max().unwrap_or(0)
    }
}

fn mean(counts: impl Iterator<Item = usize>) -> Option<f64> {
    let (mut sum, mut rounds) = (0, 0);
    counts.for_each(|count| (sum, rounds) = (sum + count, rounds + 1));
    (rounds > 0).then(|| sum as f64 / rounds as f64)
}

/// A round whose tree says what smaller ones would have been: a whole dynamic tree, ranked by its
/// scores. The last of an answer is cut by its end.
fn drafted(round: &Round) -> Option<DraftedRound> {
    let budget = &round.budget;
    let whole = round.finish.is_none() && round.tree.len() == budget.shape.gamma;
    let drafts = Strategy::named(&round.strategy).map(|strategy| strategy.draft);
    let small = drafts == Some(DrafterId::SmallModel);
    let ranked = budget.method == Method::Tree || (small && budget.method == Method::Search);
    let tells = round.speculative && ranked && round.tree.len() > 1;
    (whole && tells).then(|| DraftedRound {
        blocks: budget.blocks,
        gamma: budget.shape.gamma,
        width: budget.shape.width,
        depth: budget.shape.depth,
        method: budget.method,
        small,
        tree: round.tree.clone(),
        accepted: round.accepted.clone(),
        bonus: round.bonus,
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
    use crate::plan::Strategy;
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
            method: Method::Tree,
            small: false,
            tree: tree(),
            accepted: accepted.to_vec(),
            bonus: 9,
        };
        let rounds = vec![round(1, &[1, 3]), round(1, &[2]), round(1, &[]), round(2, &[1, 3])];
        AcceptanceProfile { rounds, ..AcceptanceProfile::default() }
    }

    fn of_head(profile: &AcceptanceProfile, gamma: usize, blocks: usize) -> Option<f64> {
        let dovetail = Strategy::named("dovetail").unwrap();
        let turned = Turned::Blocks(blocks);
        profile.accepted(dovetail, turned, &turned.budget(dovetail, gamma, (2, 1)).unwrap())
    }

    #[test]
    fn a_smaller_tree_keeps_the_best_nodes_and_what_they_accept() {
        let profile = profile();
        assert_eq!(of_head(&profile, 1, 1), Some(0.0));
        assert_eq!(of_head(&profile, 2, 1), Some(1.0 / 3.0), "a alone");
        assert_eq!(of_head(&profile, 3, 1), Some(2.0 / 3.0), "a and c");
        assert_eq!(of_head(&profile, 4, 1), Some(1.0));
        assert_eq!(of_head(&profile, 5, 1), None, "larger than what was recorded");
        assert_eq!(of_head(&profile, 4, 2), Some(2.0));
        assert_eq!(of_head(&profile, 4, 3), None);
        assert_eq!(profile.most_gamma(Turned::Blocks(1)), 4);
    }

    #[test]
    fn heads_and_small_models_do_not_tell_of_each_other() {
        let small = |profile: &AcceptanceProfile, name: &str, gamma, k| {
            let (strategy, turned) = (Strategy::named(name).unwrap(), Turned::Width(k));
            let budget = turned.budget(strategy, gamma, profile.shape())?;
            match budget.method {
                Method::Sequences { .. } => profile.sequences(gamma, k).map(|won| won.tokens - 1.0),
                _ => profile.accepted(strategy, turned, &budget),
            }
        };
        let heads = profile();
        assert_eq!(["small-model", "sps", "duo"].map(|name| small(&heads, name, 4, 1)), [None; 3]);
        let mut profile = profile();
        profile.rounds.iter_mut().for_each(|round| (round.small, round.blocks) = (true, 0));
        assert_eq!(of_head(&profile, 4, 0), None);
        // a and c, b, nothing, a and c: of the chain a, c the first is right in two of four
        // rounds, and the second in both of these.
        assert_eq!(small(&profile, "small-model", 4, 2), Some(1.25));
        assert_eq!(small(&profile, "sps", 3, 1), Some(1.0));
        assert_eq!(small(&profile, "sps", 4, 1), None, "no chain of three was recorded");
        let duo = small(&profile, "duo", 2, 1).unwrap();
        // A tail of one token; half of the rounds without one are followed by one with it.
        let share = 0.5 / (1.0 - 0.25 + 0.5);
        assert!((duo - share * 0.5).abs() < 1e-9, "{duo}");
        assert_eq!(small(&profile, "specexec", 4, 2), None, "a search is another tree");
        let specexec = Strategy::named("specexec").unwrap();
        assert!(profile.passes(specexec, &Budget::new(profile_shape(), 0)).is_empty());
        let trees = Strategy::named("small-model").unwrap();
        let rows = profile.passes(trees, &Budget::new(profile_shape(), 0));
        assert_eq!(rows, vec![vec![1, 1]; 4], "of the best two a alone has no children yet");
    }

    fn profile_shape() -> crate::speculate::Shape {
        crate::speculate::Shape { gamma: 4, width: 2, depth: 1 }
    }

    #[test]
    fn a_published_profile_tells_of_its_own_tree() {
        let published = crate::bench::paper::published().unwrap();
        let profile = AcceptanceProfile::published(&published, "mt_bench").unwrap();
        assert_eq!((of_head(&profile, 1, 3), of_head(&profile, 8, 3)), (Some(0.0), None));
        assert!((of_head(&profile, 16, 5).unwrap() - 3.73).abs() < 1e-9);
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
