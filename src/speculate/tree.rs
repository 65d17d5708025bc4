//! The draft tree as plain data: a root (the last committed token, not yet run) and the drafted
//! tokens below it, parents before children.

use serde::{Deserialize, Serialize};

/// How a tree may grow: the paper's parameters k, D and the number of nodes kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// γ: nodes of the tree that the target checks, the root included (1 = no draft).
    pub gamma: usize,
    /// k: children per expanded node and width of the beam (EAGLE-2's `top_k`).
    pub width: usize,
    /// D: beam expansions below the first level; the tree has at most D + 1 drafted levels.
    pub depth: usize,
}

/// How candidates are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// EAGLE-2's dynamic tree, level by level (method.md, Tree growth); of width 1 it is the chain
    /// of speculative sampling.
    #[default]
    Tree,
    /// SpecExec's search: the best node anywhere is expanded first (method.md, Strategies).
    Search,
    /// DuoDecoding's sequences: γ tokens shared by k chains of equal length, k chosen by the
    /// draft's confidence unless it is given (method.md, DuoDecoding).
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
    /// M: blocks of the head to run; 0 without a draft, ignored by drafters that have none.
    pub blocks: usize,
    /// How the candidates are looked for; drafters that know one way only ignore it.
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
    /// Distance from the root (root 0).
    pub depth: usize,
    /// The draft's log-probability of this token after its parent; 0 for the root.
    pub log_prob: f32,
    /// Sum of `log_prob` from the root to here: the score the tree was ranked by.
    pub score: f32,
}

/// A tree in an order in which parents precede children; node 0 is the root.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    /// The tree that holds only the last committed token: plain decoding.
    pub fn root(token: u32) -> Self {
        Self { nodes: vec![Node { token, parent: 0, depth: 0, log_prob: 0.0, score: 0.0 }] }
    }

    /// Appends a child of `parent` and returns its index.
    ///
    /// # Panics
    /// If `parent` is not a node of the tree (a bug of the drafter, never of its input).
    pub fn push(&mut self, parent: usize, token: u32, log_prob: f32) -> usize {
        let above = self.nodes[parent];
        let score = above.score + log_prob;
        self.nodes.push(Node { token, parent, depth: above.depth + 1, log_prob, score });
        self.nodes.len() - 1
    }

    /// All nodes, root first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Number of nodes, the root included; never 0.
    #[allow(clippy::len_without_is_empty)] // a tree always has its root
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The child of `node` that holds `token`, if the tree has one.
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

    /// The tree attention mask: whether `node` attends to `other`, an ancestor or itself.
    pub fn sees(&self, node: usize, other: usize) -> bool {
        self.ancestors(node).any(|i| i == other)
    }

    /// Levels below the root; 0 for the root alone.
    pub fn height(&self) -> usize {
        self.nodes.iter().map(|node| node.depth).max().unwrap_or(0)
    }
}
