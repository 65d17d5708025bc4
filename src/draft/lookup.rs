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
#[derive(Clone, Debug)]
pub struct PromptLookup {
    /// The whole text.
    tokens: Vec<u32>,
    capacity: usize,
    pending: Pending,
    /// How often a copied token was right, by how many last tokens matched.
    stats: [AcceptanceStats; LONGEST + 1],
    /// That number for the pending proposal.
    matched: usize,
}

impl PromptLookup {
    /// A drafter for up to `capacity` positions.
    pub fn new(capacity: usize) -> Self {
        Self {
            tokens: Vec::new(),
            capacity,
            pending: Pending::default(),
            stats: Default::default(),
            matched: 0,
        }
    }

    /// What followed the most recent earlier occurrence of the last 3, otherwise 2, otherwise 1
    /// tokens, with their number; empty if there is none. A copy that reaches the end of the text
    /// continues with itself, as in LZ77: a repetition is assumed to continue.
    fn continuation(&self) -> (usize, Vec<u32>) {
        let tokens = &self.tokens;
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

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn truncate(&mut self, len: usize) {
        self.pending.forget();
        // Without a first pair the first token is not known either.
        self.tokens.truncate(if len == 0 { 0 } else { len + 1 });
    }

    fn begin(&mut self, first: u32) {
        self.tokens = vec![first];
    }

    fn observe(&mut self, _features: &[f32], tokens: &[u32]) -> Result<(), DraftError> {
        let stats = &mut self.stats[self.matched];
        self.pending.follow(tokens, |_, right| stats.note(right));
        self.tokens.extend_from_slice(tokens);
        Ok(())
    }

    fn propose(&mut self, request: &DraftRequest) -> Result<Tree, DraftError> {
        let mut tree = Tree::root(request.root);
        let room = request.budget.shape.gamma.saturating_sub(1);
        let (matched, chain) = self.continuation();
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

    fn drafter(tokens: &[u32]) -> PromptLookup {
        let mut drafter = PromptLookup::new(1000);
        if let Some((&first, rest)) = tokens.split_first() {
            drafter.begin(first);
            drafter.observe(&[], rest).unwrap();
        }
        drafter
    }

    fn chain(tokens: &[u32], gamma: usize) -> Vec<u32> {
        let mut drafter = drafter(tokens);
        let budget = Budget::new(Shape { gamma, width: 1, depth: 1 }, 0);
        let root = tokens.last().copied().unwrap_or(7);
        let tree = drafter.propose(&DraftRequest::new(root, budget)).unwrap();
        assert!(tree.nodes().iter().enumerate().skip(1).all(|(i, node)| node.parent == i - 1));
        tree.nodes()[1..].iter().map(|node| node.token).collect()
    }

    /// 1, 2, …, 12, then the tokens of `end`.
    fn counting(end: &[u32]) -> Vec<u32> {
        (1..=12).chain(end.iter().copied()).collect()
    }

    #[test]
    fn what_followed_before_is_proposed() {
        assert_eq!(chain(&counting(&[1, 2]), 64), [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(chain(&counting(&[1, 2]), 4), [3, 4, 5]);
        assert!(chain(&counting(&[1, 2]), 1).is_empty());
        assert!(chain(&counting(&[99]), 64).is_empty());
        assert_eq!(chain(&[7, 1, 2, 3, 1, 2], 64), [3, 1, 2, 3, 1, 2, 3, 1, 2, 3]);
        assert!(chain(&[], 64).is_empty());
    }

    #[test]
    fn a_longer_match_goes_before_an_earlier_one() {
        // The last token is found at the front, the last two only later.
        let mut tokens = vec![5];
        tokens.extend(20..31);
        tokens.extend([4, 5]);
        tokens.extend(40..50);
        tokens.extend([4, 5]);
        assert_eq!(chain(&tokens, 64), (40..50).collect::<Vec<_>>());
    }

    #[test]
    fn tokens_taken_back_are_not_found() {
        let mut drafter = drafter(&counting(&[1, 2]));
        drafter.truncate(2);
        drafter.observe(&[], &[50, 51, 52, 53, 54, 55, 56, 57, 58, 3]).unwrap();
        assert_eq!(drafter.continuation(), (1, vec![50, 51, 52, 53, 54, 55, 56, 57, 58, 3]));
        drafter.truncate(0);
        assert_eq!(drafter.continuation(), (0, vec![]));
    }

    #[test]
    fn probabilities_are_counted() {
        let mut drafter = drafter(&counting(&[1, 2]));
        let budget = Budget::new(Shape { gamma: 64, width: 1, depth: 1 }, 0);
        let sure = drafter.propose(&DraftRequest::new(2, budget)).unwrap().nodes()[1].log_prob;
        assert_eq!(sure, 0.5f32.ln(), "nothing is known yet");
        // Three are right, one is wrong.
        drafter.observe(&[], &[3, 4, 5]).unwrap();
        drafter.observe(&[], &[1, 2]).unwrap();
        let tree = drafter.propose(&DraftRequest::new(2, budget)).unwrap();
        assert!(tree.nodes()[1..].iter().all(|node| node.log_prob == (4.0f32 / 6.0).ln()));
    }

    proptest! {
        /// The literal search: n from 3 to 1, places from the newest, tokens one by one.
        #[test]
        fn proposals_are_those_of_a_plain_search(tokens in prop::collection::vec(0u32..4, 0..60)) {
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
            prop_assert_eq!(chain(&tokens, 64), search());
        }
    }
}
