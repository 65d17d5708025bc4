//! The draft tree as plain data: a root (the last committed token, not yet run) and the drafted
//! tokens below it, parents before children.

use serde::{Deserialize, Serialize};

use super::{DrafterId, Sources};

/// How a tree may grow: the paper's parameters k, D and the number of nodes kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// γ: how many nodes of the tree the target checks, including the root (1 = no draft).
    pub gamma: usize,
    /// k: children per expanded node and width of the beam (EAGLE-2's `top_k`).
    pub width: usize,
    /// D: beam expansions below the first level; the tree has at most D + 1 drafted levels.
    pub depth: usize,
}

/// How candidates are searched for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// EAGLE-2's dynamic tree, level by level (method.md, Tree growth); with width 1 it is the
    /// chain of speculative sampling.
    #[default]
    Tree,
    /// SpecExec's search: the best node anywhere is expanded first (method.md, Strategies).
    Search,
    /// DuoDecoding's sequences: k chains of equal length share γ tokens; the draft's confidence
    /// chooses k unless it is fixed (method.md, DuoDecoding).
    Sequences {
        /// k, for the ablation.
        fixed: Option<usize>,
    },
}

/// What a round may spend on drafting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// γ, width and depth of the tree.
    pub shape: Shape,
    /// M: how many blocks of the head to run; 0 without a draft. Drafters without blocks ignore it.
    pub blocks: usize,
    /// How candidates are searched for; drafters that know only one way ignore it.
    #[serde(default)]
    pub method: Method,
}

impl Budget {
    /// A dynamic tree of this shape.
    pub fn new(shape: Shape, blocks: usize) -> Self {
        Self { shape, blocks, method: Method::default() }
    }
}

/// One token of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Token id.
    pub token: u32,
    /// Index of the parent; the root is its own parent (0).
    pub parent: usize,
    /// The distance from the root (0 for the root).
    pub depth: usize,
    /// The draft's log-probability of this token after its parent; 0 for the root.
    pub log_prob: f32,
    /// The sum of `log_prob` from the root to here: the score by which the tree was ranked.
    pub score: f32,
    /// Who proposed it.
    #[serde(default, skip_serializing_if = "Sources::is_empty")]
    pub sources: Sources,
}

/// A tree in an order in which parents precede children; node 0 is the root.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    /// The tree with only the last committed token: plain decoding.
    pub fn root(token: u32) -> Self {
        let log_prob = 0.0;
        let score = 0.0;
        let sources = Sources::NONE;
        Self { nodes: vec![Node { token, parent: 0, depth: 0, log_prob, score, sources }] }
    }

    /// A tree without branches, of at least one token: causal decoding of several tokens in one
    /// pass.
    pub fn chain(tokens: &[u32]) -> Self {
        let mut tree = Self::root(tokens[0]);
        for (parent, &token) in tokens[1..].iter().enumerate() {
            tree.push(parent, token, 0.0);
        }
        tree
    }

    /// Appends a child of `parent` and returns its index.
    ///
    /// # Panics
    /// If `parent` is not a node of the tree (a bug of the drafter, never of its input).
    pub fn push(&mut self, parent: usize, token: u32, log_prob: f32) -> usize {
        let above = self.nodes[parent];
        let score = above.score + log_prob;
        let depth = above.depth + 1;
        let sources = Sources::NONE;
        self.nodes.push(Node { token, parent, depth, log_prob, score, sources });
        self.nodes.len() - 1
    }

    /// Adds sources to those that proposed `node`.
    pub fn credit(&mut self, node: usize, sources: Sources) {
        let own = &mut self.nodes[node].sources;
        *own = own.and(sources);
    }

    /// Credits `source` with every node below the root that has no source.
    pub fn credit_unclaimed(&mut self, source: DrafterId) {
        for node in self.nodes[1..].iter_mut().filter(|node| node.sources.is_empty()) {
            node.sources = Sources::of(source);
        }
    }

    /// All nodes, root first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Number of nodes, including the root; never 0.
    #[allow(clippy::len_without_is_empty)] // A tree always has its root.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The child of `node` that holds `token`, if there is one.
    pub fn child(&self, node: usize, token: u32) -> Option<usize> {
        self.children(node).find(|&i| self.nodes[i].token == token)
    }

    /// The children of `node`, in order of index.
    pub fn children(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        (node + 1..self.nodes.len()).filter(move |&i| self.nodes[i].parent == node)
    }

    /// The path from `node` up to the root, both included.
    pub fn ancestors(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let above = |&i: &usize| (i != 0).then(|| self.nodes[i].parent);
        std::iter::successors(Some(node), above)
    }

    /// The tokens from the root's child down to `node`; none for the root.
    pub fn tokens_to(&self, node: usize) -> Vec<u32> {
        let mut tokens: Vec<u32> = self.ancestors(node).map(|i| self.nodes[i].token).collect();
        tokens.pop();
        tokens.reverse();
        tokens
    }

    /// The probabilities of the paths to each node below the root, largest first.
    pub fn paths(&self) -> Vec<f64> {
        let mut paths: Vec<f64> =
            self.nodes[1..].iter().map(|node| f64::from(node.score).exp()).collect();
        paths.sort_unstable_by(|a, b| b.total_cmp(a));
        paths
    }

    /// The tree of the `nodes` nodes with the likeliest paths, including the root, in the same
    /// order. Of equally likely nodes the earlier ones are kept, so that no node loses its parent.
    #[must_use]
    pub fn most_likely(&self, nodes: usize) -> Self {
        if nodes >= self.len() {
            return self.clone();
        }
        let order = self.best_below(0, nodes);
        let mut kept = Self { nodes: vec![self.nodes[0]] };
        let mut places = vec![0; self.len()];
        for node in order {
            let Node { token, parent, log_prob, sources, .. } = self.nodes[node];
            places[node] = kept.push(places[parent], token, log_prob);
            kept.credit(places[node], sources);
        }
        kept
    }

    /// The nodes that a tree of `nodes` nodes would keep of those below `root`: the best by score,
    /// in order of index. Together with the root they form a tree, because log-probabilities are
    /// not above 0 and so a child's score is never above its parent's.
    pub fn best_below(&self, root: usize, nodes: usize) -> Vec<usize> {
        let mut below = vec![false; self.len()];
        below[root] = true;
        for (at, node) in self.nodes.iter().enumerate().skip(root + 1) {
            below[at] = below[node.parent];
        }
        let mut order: Vec<usize> = (root + 1..self.len()).filter(|&node| below[node]).collect();
        order.sort_by(|&a, &b| self.nodes[b].score.total_cmp(&self.nodes[a].score).then(a.cmp(&b)));
        order.truncate(nodes.saturating_sub(1));
        order.sort_unstable();
        order
    }

    /// How many levels are below the root; 0 for the root alone.
    pub fn height(&self) -> usize {
        self.nodes.iter().map(|node| node.depth).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A tree from (parent modulo the number of nodes so far; log-probability).
    fn tree(nodes: &[(usize, f32)]) -> Tree {
        let mut tree = Tree::root(0);
        for (token, &(parent, log_prob)) in (1..).zip(nodes) {
            tree.push(parent % tree.len(), token, log_prob);
        }
        tree
    }

    proptest! {
        #[test]
        fn the_most_likely_nodes_are_a_tree_of_the_best_paths(
            nodes in prop::collection::vec(
                (any::<usize>(), prop_oneof![Just(0.0f32), Just(-0.5), -6f32..0.0]), 0..30,
            ),
            kept in 0usize..35,
        ) {
            let whole = tree(&nodes);
            let part = whole.most_likely(kept);
            prop_assert_eq!(part.len(), kept.clamp(1, whole.len()));
            for (place, node) in part.nodes().iter().enumerate().skip(1) {
                // Tokens are node numbers here.
                let before = whole.nodes()[node.token as usize];
                let parent = part.nodes()[node.parent];
                prop_assert!(node.parent < place);
                prop_assert_eq!(parent.token as usize, before.parent);
                prop_assert_eq!((node.score, node.depth), (before.score, before.depth));
            }
            prop_assert!(part.nodes().windows(2).all(|pair| pair[0].token < pair[1].token));
            let best: Vec<f64> = whole.paths().into_iter().take(part.len() - 1).collect();
            prop_assert_eq!(part.paths(), best);
        }
    }
}
