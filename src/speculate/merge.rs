//! Merges two draft trees into one. A token that both propose becomes one node that knows both
//! sources, and all nodes are ranked by the probability that the target accepts them. A model's own
//! probabilities are not such rates, so they are corrected by how often its proposals were right.
//! It must not depend on a drafter.

use std::collections::HashMap;

use super::{Rate, Sources, Tree};

/// The upper ends of the classes of a model's probability; values above the last form one more
/// class.
const CLASSES: [f32; 9] = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95];
/// The weight of the model's own probability, in observations.
const PRIOR: f32 = 8.0;
/// The number of observations after which the old ones count half, because the text changes.
const MEMORY: f32 = 512.0;
/// Nothing is certain, so a path is never as likely as its beginning.
const MOST: f32 = 0.999;

/// How often a model's proposals were right, by the probability that it gave them.
#[derive(Clone, Debug, Default)]
pub struct ModelRates {
    classes: [Rate; CLASSES.len() + 1],
}

impl ModelRates {
    fn class(q: f32) -> usize {
        CLASSES.iter().filter(|&&end| q > end).count()
    }

    /// The probability that a proposal to which the model gives the probability `q` is accepted.
    pub fn probability(&self, q: f32) -> f32 {
        self.classes[Self::class(q)].estimate(PRIOR, q).clamp(1e-6, MOST)
    }

    /// Learns from a model's tree and the tokens that followed its root.
    pub fn learn(&mut self, tree: &Tree, tokens: impl IntoIterator<Item = u32>) {
        let mut node = 0;
        for token in tokens {
            for child in tree.children(node) {
                let child = tree.nodes()[child];
                self.classes[Self::class(child.log_prob.exp())].note(child.token == token, MEMORY);
            }
            let Some(next) = tree.child(node, token) else { break };
            node = next;
        }
    }
}

/// A node of either tree or of both.
struct Merged {
    parent: usize,
    token: u32,
    probability: f32,
    sources: Sources,
}

/// The `most` likeliest nodes, including the root, of a model's tree and of a tree whose
/// probabilities are acceptance rates. A node in both gets the higher probability.
#[must_use]
pub fn merged(model: &Tree, rates: &ModelRates, other: &Tree, most: usize) -> Tree {
    let mut nodes: Vec<Merged> = Vec::with_capacity(model.len() + other.len());
    let mut known: HashMap<(usize, u32), usize> = HashMap::new();
    let mut add = |tree: &Tree, probability: &dyn Fn(f32) -> f32| {
        let mut places = vec![0; tree.len()];
        for (at, node) in tree.nodes().iter().enumerate().skip(1) {
            let parent = places[node.parent];
            let token = node.token;
            let probability = probability(node.log_prob.exp()).min(MOST);
            places[at] = *known.entry((parent, token)).or_insert_with(|| {
                let sources = Sources::NONE;
                nodes.push(Merged { parent, token, probability, sources });
                nodes.len()
            });
            let merged = &mut nodes[places[at] - 1];
            merged.sources = merged.sources.and(node.sources);
            merged.probability = merged.probability.max(probability);
        }
    };
    add(other, &|p| p);
    add(model, &|q| rates.probability(q));
    let mut all = Tree::root(model.nodes()[0].token);
    for Merged { parent, token, probability, sources } in nodes {
        let node = all.push(parent, token, probability.ln());
        all.credit(node, sources);
    }
    all.most_likely(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speculate::DrafterId;
    use proptest::prelude::*;

    /// A tree from (parent, token, probability); all nodes have the same source.
    fn tree(source: DrafterId, nodes: &[(usize, u32, f32)]) -> Tree {
        let mut tree = Tree::root(7);
        for &(parent, token, probability) in nodes {
            let node = tree.push(parent, token, probability.ln());
            tree.credit(node, Sources::of(source));
        }
        tree
    }

    #[test]
    fn a_model_that_promises_too_much_is_believed_less() {
        let model = tree(DrafterId::Head, &[(0, 1, 0.9), (1, 2, 0.9)]);
        let mut rates = ModelRates::default();
        assert!((rates.probability(0.9) - 0.9).abs() < 1e-6);
        (0..100).for_each(|i| rates.learn(&model, if i % 4 == 0 { [1, 9] } else { [8, 2] }));
        // One of four at the first level is right, none at the second.
        assert!((rates.probability(0.9) - 0.22).abs() < 0.06, "{}", rates.probability(0.9));
        assert_eq!(rates.probability(0.3), 0.3, "another class");
        let context = tree(DrafterId::Suffix, &[(0, 5, 0.5)]);
        assert_eq!(merged(&model, &rates, &context, 2).nodes()[1].token, 5);
        (0..5000).for_each(|_| rates.learn(&model, [1, 2]));
        assert!(rates.probability(0.9) > 0.95);
    }

    proptest! {
        /// Every path of the merged tree is a path of one of the two trees, with the surer of their
        /// probabilities; siblings differ, and it is not larger than allowed.
        #[test]
        fn a_merged_tree_has_the_paths_of_both(
            nodes in prop::collection::vec((any::<usize>(), 0u32..4, 0.01f32..1.0), 0..40),
            split in any::<prop::sample::Index>(),
            most in 1usize..40,
        ) {
            let build = |source, nodes: &[(usize, u32, f32)]| {
                let mut built = Tree::root(7);
                for &(parent, token, p) in nodes {
                    let parent = parent % built.len();
                    if built.child(parent, token).is_none() {
                        let node = built.push(parent, token, p.ln());
                        built.credit(node, Sources::of(source));
                    }
                }
                built
            };
            let (a, b) = nodes.split_at(split.index(nodes.len() + 1));
            let a = build(DrafterId::Head, a);
            let b = build(DrafterId::Suffix, b);
            let path = |tree: &Tree, node: usize| -> Vec<u32> {
                tree.ancestors(node).map(|node| tree.nodes()[node].token).collect()
            };
            let paths = |tree: &Tree| -> Vec<Vec<u32>> {
                (1..tree.len()).map(|node| path(tree, node)).collect()
            };
            let of_a = paths(&a);
            let of_b = paths(&b);
            let all = merged(&a, &ModelRates::default(), &b, most);
            let mut union = [of_a.clone(), of_b.clone()].concat();
            union.sort();
            union.dedup();
            prop_assert_eq!(all.len(), most.min(union.len() + 1));
            let mut seen = paths(&all);
            for (node, path) in (1..all.len()).zip(&seen) {
                let sources = all.nodes()[node].sources;
                let has = |source| sources.iter().any(|found| found == source);
                prop_assert_eq!(has(DrafterId::Head), of_a.contains(path));
                prop_assert_eq!(has(DrafterId::Suffix), of_b.contains(path));
                let promised = [(&a, &of_a), (&b, &of_b)].map(|(tree, paths)| {
                    let at = paths.iter().position(|known| known == path);
                    at.map_or(0.0, |at| tree.nodes()[at + 1].log_prob.exp().min(MOST))
                });
                let surer = promised[0].max(promised[1]);
                prop_assert!((all.nodes()[node].log_prob.exp() - surer).abs() < 1e-5);
            }
            seen.sort();
            seen.dedup();
            prop_assert_eq!(seen.len(), all.len() - 1);
        }
    }
}
