//! Prompt lookup (method.md, Strategies): finds where the text's last few tokens have occurred
//! before, and proposes what followed them there. It needs no model and no training.
//!
//! The released code takes the first occurrence with ten tokens after it; this one takes the most
//! recent occurrence and lets the copy run into itself. On the greedy answers of the bundled model
//! to its held-out prompts that gives 1.141 tokens per round instead of 1.115.

use super::acceptance_stats::{AcceptanceStats, Pending};
use super::{DraftError, DraftRequest, Drafter};
use crate::speculate::{DrafterId, Tree};

/// The longest run of last tokens that is searched for; shorter runs follow.
const LONGEST: usize = 3;
/// The most tokens copied from an occurrence.
const CONTINUATION: usize = 10;

/// Proposes a chain copied from earlier in the conversation.
#[derive(Clone, Debug, Default)]
pub struct PromptLookup {
    pending: Pending,
    /// How often a copied token was right, by how many last tokens matched.
    stats: [AcceptanceStats; LONGEST + 1],
    /// That number for the pending proposal.
    matched: usize,
}

impl PromptLookup {
    /// What followed the most recent earlier occurrence of the last 3, otherwise 2, otherwise 1
    /// tokens, with their number; empty if there is none. A copy that reaches the end of the text
    /// continues with itself, as in LZ77: a repetition is assumed to continue.
    fn continuation(tokens: &[u32]) -> (usize, Vec<u32>) {
        for length in (1..=LONGEST.min(tokens.len())).rev() {
            let last = &tokens[tokens.len() - length..];
            let before = &tokens[..tokens.len() - 1];
            if let Some(at) = before.windows(length).rposition(|window| window == last) {
                let followed = &tokens[at + length..];
                return (length, followed.iter().copied().cycle().take(CONTINUATION).collect());
            }
        }
        (0, Vec::new())
    }
}

impl Drafter for PromptLookup {
    fn describe(&self) -> String {
        "prompt lookup".into()
    }

    fn source(&self) -> Option<DrafterId> {
        Some(DrafterId::Lookup)
    }

    fn truncate(&mut self, _len: usize) {
        self.pending.forget();
    }

    fn observe(&mut self, _features: &[f32], tokens: &[u32]) -> Result<(), DraftError> {
        let stats = &mut self.stats[self.matched];
        self.pending.follow(tokens, |_, right| stats.note(right));
        Ok(())
    }

    fn propose(&mut self, text: &[u32], request: &DraftRequest) -> Result<Tree, DraftError> {
        let mut tree = Tree::root(request.root);
        let room = request.budget.shape.gamma.saturating_sub(1);
        let (matched, chain) = Self::continuation(text);
        let log_prob = self.stats[matched].log_prob();
        chain.iter().take(room).fold(0, |parent, &token| tree.push(parent, token, log_prob));
        self.matched = matched;
        self.pending.wait(&tree);
        Ok(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::Budget;
    use crate::speculate::Shape;
    use proptest::prelude::*;

    #[test]
    fn probabilities_are_counted() {
        // 1, 2, …, 12, 1, 2.
        let mut drafter = PromptLookup::default();
        let text: Vec<u32> = (1..=12).chain(1..=2).collect();
        let request = DraftRequest::new(2, Budget::new(Shape { gamma: 64, width: 1, depth: 1 }, 0));
        let sure = drafter.propose(&text, &request).unwrap().nodes()[1].log_prob;
        assert_eq!(sure, 0.5f32.ln(), "nothing is known yet");
        // Three are right, one is wrong.
        drafter.observe(&[], &[3, 4, 5]).unwrap();
        drafter.observe(&[], &[1, 2]).unwrap();
        let tree = drafter.propose(&[&text[..], &[3, 4, 5, 1, 2]].concat(), &request).unwrap();
        assert!(tree.nodes()[1..].iter().all(|node| node.log_prob == (4.0f32 / 6.0).ln()));
    }

    proptest! {
        /// The literal search: n from 3 to 1, places from the newest, tokens one by one.
        #[test]
        fn proposals_are_those_of_a_plain_search(
            tokens in prop::collection::vec(0u32..4, 1..60), gamma in 1usize..20,
        ) {
            let search = || {
                for n in [3usize, 2, 1] {
                    for start in (n..tokens.len()).rev() {
                        if tokens[..start].ends_with(&tokens[tokens.len() - n..]) {
                            let mut copied = tokens.clone();
                            (0..10).for_each(|i| copied.push(copied[start + i]));
                            return copied.split_off(tokens.len());
                        }
                    }
                }
                Vec::new()
            };
            let budget = Budget::new(Shape { gamma, width: 1, depth: 1 }, 0);
            let root = tokens[tokens.len() - 1];
            let request = DraftRequest::new(root, budget);
            let tree = PromptLookup::default().propose(&tokens, &request).unwrap();
            let nodes = &tree.nodes()[1..];
            prop_assert!(nodes.iter().enumerate().all(|(i, node)| node.parent == i));
            let chain: Vec<u32> = nodes.iter().map(|node| node.token).collect();
            let want: Vec<u32> = search().into_iter().take(gamma - 1).collect();
            prop_assert_eq!(chain, want);
        }
    }
}
