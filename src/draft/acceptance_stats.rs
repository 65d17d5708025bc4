//! Acceptance rates by counting, for drafters whose proposals have no probabilities. It must not
//! depend on where a proposal came from.

use crate::speculate::{Rate, Tree};

/// The acceptance rate of one kind of proposal: how often it was accepted, given that its parent
/// was.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AcceptanceStats(Rate);

impl AcceptanceStats {
    /// Counts one proposal.
    pub(super) fn note(&mut self, right: bool) {
        self.0.note(right, 256.0);
    }

    /// The log of the estimated acceptance rate (Laplace's rule: one half at first).
    pub(super) fn log_prob(self) -> f32 {
        self.0.estimate(2.0, 0.5).ln()
    }
}

/// A proposed tree whose outcome is not known yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    tree: Option<Tree>,
    /// The last accepted node.
    node: usize,
}

impl Pending {
    /// Waits for the outcome of `tree`.
    pub(super) fn wait(&mut self, tree: &Tree) {
        *self = Self { tree: Some(tree.clone()), node: 0 };
    }

    /// Drops the tree, because the text was changed.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether this is the tree that is waiting for its outcome, even if other sources are credited
    /// with it by now.
    pub(super) fn is(&self, tree: &Tree) -> bool {
        let places = |tree: &Tree| -> Vec<(u32, usize)> {
            tree.nodes().iter().map(|node| (node.token, node.parent)).collect()
        };
        self.node == 0 && self.tree.as_ref().is_some_and(|own| places(own) == places(tree))
    }

    /// Takes the next committed tokens and calls `note` for every node whose parent was accepted,
    /// with whether the node was accepted too.
    pub(super) fn follow(&mut self, tokens: &[u32], mut note: impl FnMut(usize, bool)) {
        for &token in tokens {
            let Some(tree) = &self.tree else { return };
            for i in tree.children(self.node) {
                note(i, tree.nodes()[i].token == token);
            }
            match tree.child(self.node, token) {
                Some(child) => self.node = child,
                None => self.tree = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_acceptance_rate_follows_the_counts_and_forgets() {
        let mut stats = AcceptanceStats::default();
        assert_eq!(stats.log_prob(), 0.5f32.ln());
        (0..8).for_each(|i| stats.note(i < 6));
        assert_eq!(stats.log_prob(), 0.7f32.ln());
        (0..2000).for_each(|_| stats.note(false));
        assert!(stats.log_prob() < 0.01f32.ln());
    }

    #[test]
    fn every_node_with_an_accepted_parent_is_counted() {
        let mut tree = Tree::root(9);
        let a = tree.push(0, 1, -1.0);
        let b = tree.push(0, 2, -1.0);
        let c = tree.push(b, 3, -1.0);
        tree.push(c, 4, -1.0);
        let mut pending = Pending::default();
        pending.wait(&tree);
        assert!(pending.is(&tree));
        let mut seen = Vec::new();
        pending.follow(&[2], |node, right| seen.push((node, right)));
        pending.follow(&[7, 3], |node, right| seen.push((node, right)));
        assert_eq!(seen, [(a, false), (b, true), (c, false)]);
        assert!(!pending.is(&tree));
    }
}
