//! Retrieval (REST, He et al. 2023; method.md, Strategies): finds what followed the text's last
//! tokens in a large body of other text, and proposes the most common continuations as a tree. It
//! needs no model, but a text that the user names.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::{DraftError, DraftRequest, Drafter};
use crate::speculate::suffixes::{self, SortedText};
use crate::speculate::{DrafterId, Tree};

/// The shortest and longest runs of last tokens that are looked up.
const SPANS: Range<usize> = 2..suffixes::DEPTH + 1;
/// The most matches that are counted.
const MATCHES: usize = 5000;
/// How many tokens are taken from each match.
const CONTINUATION: usize = 10;
/// The most nodes below the root.
const NODES: usize = 64;

/// Proposes the continuations found in a body of text.
pub struct Retrieval {
    store: SortedText,
    name: String,
}

impl Retrieval {
    /// A drafter that reads `store`, called `name` on the screen.
    pub fn new(store: SortedText, name: String) -> Self {
        Self { store, name }
    }

    /// What followed the longest run of last tokens (see [`SPANS`]) that the store holds with
    /// anything after it. If there are more than [`MATCHES`] places, some are taken, evenly over
    /// their sorted order.
    fn continuations(&self, text: &[u32]) -> Vec<Vec<u32>> {
        let store = &self.store;
        for span in SPANS.rev().filter(|&span| span <= text.len()) {
            let found = store.find(&text[text.len() - span..]);
            let taken = found.len().min(MATCHES);
            let follows = |i: usize| -> Vec<u32> {
                // Neighbours in the order have similar continuations, so the first ones would not
                // be typical.
                let rank = found.start + (i as u64 * found.len() as u64 / taken as u64) as usize;
                let start = store.order[rank] as usize + span;
                store.tokens.iter().skip(start).take(CONTINUATION).copied().collect()
            };
            let all: Vec<_> = (0..taken).map(follows).filter(|next| !next.is_empty()).collect();
            if !all.is_empty() {
                return all;
            }
        }
        Vec::new()
    }
}

/// A possible node: the continuations that begin with its path, a range of their sorted list. The
/// order is that in which nodes are preferred: the most common, then the shallowest, then the first
/// in the order of tokens.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct TrieNode {
    count: usize,
    depth: Reverse<usize>,
    start: Reverse<usize>,
    parent: usize,
}

/// The `most` most common beginnings of `continuations` as a tree under `root`: by count, then the
/// shorter, then in the order of their tokens. Longer beginnings are not more common than their own
/// beginnings, so parents always come first.
///
/// A node's probability is its count divided by its parent's count plus one, as if one more
/// continuation had been different: a single match is not a certainty.
fn commonest(root: u32, mut continuations: Vec<Vec<u32>>, most: usize) -> Tree {
    continuations.sort();
    let mut tree = Tree::root(root);
    let mut queue = BinaryHeap::new();
    let split = |queue: &mut BinaryHeap<TrieNode>, range: Range<usize>, depth: usize, parent| {
        let mut rest = range;
        // Continuations that end here sort first.
        rest.start += continuations[rest.clone()].partition_point(|next| next.len() <= depth);
        while !rest.is_empty() {
            let token = continuations[rest.start][depth];
            let count = continuations[rest.clone()].partition_point(|next| next[depth] == token);
            let depth = Reverse(depth + 1);
            let start = Reverse(rest.start);
            queue.push(TrieNode { count, depth, start, parent });
            rest.start += count;
        }
    };
    let mut counts = vec![continuations.len()];
    split(&mut queue, 0..continuations.len(), 0, 0);
    while tree.len() <= most {
        let Some(TrieNode { count, depth, start, parent }) = queue.pop() else { break };
        let token = continuations[start.0][depth.0 - 1];
        let share = count as f32 / (counts[parent] + 1) as f32;
        let node = tree.push(parent, token, share.ln());
        counts.push(count);
        split(&mut queue, start.0..start.0 + count, depth.0, node);
    }
    tree
}

impl Drafter for Retrieval {
    fn describe(&self) -> String {
        format!("retrieval from {}, {} tokens", self.name, self.store.tokens.len())
    }

    fn source(&self) -> Option<DrafterId> {
        Some(DrafterId::Retrieval)
    }

    fn propose(&mut self, text: &[u32], request: &DraftRequest) -> Result<Tree, DraftError> {
        let most = NODES.min(request.budget.shape.gamma.saturating_sub(1));
        Ok(commonest(request.root, self.continuations(text), most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::Budget;
    use crate::speculate::Shape;
    use crate::speculate::suffixes::sort;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn propose(store: &[u32], text: &[u32], gamma: usize) -> Tree {
        let budget = Budget::new(Shape { gamma, width: 1, depth: 1 }, 0);
        let root = text.last().copied().unwrap_or(7);
        let store = SortedText { tokens: store.to_vec(), order: sort(store, |_| {}) };
        let mut drafter = Retrieval::new(store, "a test".into());
        drafter.propose(text, &DraftRequest::new(root, budget)).unwrap()
    }

    /// Each node's path with its probability.
    fn paths(tree: &Tree) -> Vec<(Vec<u32>, f32)> {
        let path = |node: usize| (tree.tokens_to(node), tree.nodes()[node].log_prob.exp());
        (1..tree.len()).map(path).collect()
    }

    /// The same by trying every span, place and prefix.
    fn brute_force(store: &[u32], text: &[u32], most: usize) -> Vec<(Vec<u32>, f32)> {
        for span in SPANS.rev().filter(|&span| span <= text.len()) {
            let last = &text[text.len() - span..];
            let places = (0..store.len()).filter(|&at| store[at..].starts_with(last));
            let follow = |at: usize| store[at + span..].iter().copied().take(CONTINUATION);
            let all: Vec<Vec<u32>> = places.map(|at| follow(at).collect()).collect();
            let mut counts: BTreeMap<Vec<u32>, usize> = BTreeMap::new();
            for next in &all {
                for length in 1..=next.len() {
                    *counts.entry(next[..length].to_vec()).or_default() += 1;
                }
            }
            if counts.is_empty() {
                continue;
            }
            let total = all.iter().filter(|next| !next.is_empty()).count();
            let mut ranked: Vec<_> = counts.iter().collect();
            ranked.sort_by_key(|(path, count)| (Reverse(**count), path.len(), path.to_vec()));
            let of = |path: &[u32]| if path.is_empty() { total } else { counts[path] };
            let share = |path: &[u32]| of(path) as f32 / (of(&path[..path.len() - 1]) + 1) as f32;
            return ranked.into_iter().take(most).map(|(p, _)| (p.clone(), share(p))).collect();
        }
        Vec::new()
    }

    #[test]
    fn very_common_phrases_are_sampled_evenly() {
        // 1 2 is followed by 3 or 4, equally often, 12000 times in all.
        let store: Vec<u32> = (0..12_000).flat_map(|i| [1, 2, 3 + i % 2]).collect();
        let tree = propose(&store, &[1, 2], 3);
        let first: Vec<&crate::speculate::Node> = tree.nodes()[1..].iter().collect();
        assert_eq!(first.len(), 2);
        assert!((first[0].log_prob.exp() - 0.5).abs() < 0.01, "{first:?}");
    }

    proptest! {
        #[test]
        fn the_tree_is_that_of_counting_everything(
            store in prop::collection::vec(0u32..4, 0..300),
            text in prop::collection::vec(0u32..4, 0..24),
            gamma in 1usize..70,
        ) {
            let tree = propose(&store, &text, gamma);
            prop_assert!(tree.len() <= gamma);
            let want = brute_force(&store, &text, NODES.min(gamma - 1));
            let got = paths(&tree);
            prop_assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(&want) {
                prop_assert_eq!(&got.0, &want.0);
                prop_assert!((got.1 - want.1).abs() < 1e-6);
            }
        }
    }
}
