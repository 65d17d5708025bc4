//! Prompt lookup (PLD; DuoDecoding's baseline): where the text's last few tokens have occurred
//! before, what followed them then is proposed. No model, no training, no probabilities.

use super::{Ask, Depths, DraftError, Drafter};
use crate::speculate::Tree;

/// Longest run of last tokens that is looked for; shorter ones follow.
const LONGEST: usize = 3;
/// Most tokens taken over from an occurrence.
const CONTINUATION: usize = 10;

/// Proposes a chain copied from earlier in the conversation.
#[derive(Clone, Debug)]
pub struct PromptLookup {
    /// Every token observed. The very first of a conversation is in no pair and never needed: it
    /// only marks the beginning.
    tokens: Vec<u32>,
    capacity: usize,
}

impl PromptLookup {
    /// A drafter for up to `capacity` positions.
    pub fn new(capacity: usize) -> Self {
        Self { tokens: Vec::new(), capacity }
    }

    /// What followed the leftmost earlier occurrence of the last 3, else 2, else 1 tokens that has
    /// [`CONTINUATION`] tokens behind it; nothing if there is none.
    fn continuation(&self) -> &[u32] {
        let tokens = &self.tokens;
        (1..=LONGEST.min(tokens.len()))
            .rev()
            .find_map(|length| {
                let last = &tokens[tokens.len() - length..];
                let found = tokens.windows(length + CONTINUATION).find(|w| w.starts_with(last))?;
                Some(&found[length..])
            })
            .unwrap_or_default()
    }
}

impl Drafter for PromptLookup {
    fn describe(&self) -> String {
        "prompt lookup".into()
    }

    fn depths(&self) -> Depths {
        Depths::Fixed(0)
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn truncate(&mut self, len: usize) {
        self.tokens.truncate(len);
    }

    fn observe(&mut self, _features: &[f32], tokens: &[u32]) -> Result<(), DraftError> {
        self.tokens.extend_from_slice(tokens);
        Ok(())
    }

    fn propose(&mut self, ask: &Ask<'_>) -> Result<Tree, DraftError> {
        let mut tree = Tree::root(ask.root);
        let room = ask.budget.shape.gamma.saturating_sub(1);
        let chain = self.continuation().iter().take(room);
        // A copied token is proposed as certain: there is nothing to rank it against.
        chain.fold(0, |parent, &token| tree.push(parent, token, 0.0));
        Ok(tree)
    }

    fn device_bytes(&self) -> u64 {
        0
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
        drafter.observe(&[], tokens).unwrap();
        drafter
    }

    fn chain(tokens: &[u32], gamma: usize) -> Vec<u32> {
        let mut drafter = drafter(tokens);
        let budget = Budget::new(Shape { gamma, width: 1, depth: 1 }, 0);
        let root = tokens.last().copied().unwrap_or(7);
        let tree = drafter.propose(&Ask::new(root, &budget)).unwrap();
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
        drafter.truncate(3);
        drafter.observe(&[], &[50, 51, 52, 53, 54, 55, 56, 57, 58, 3]).unwrap();
        assert_eq!(drafter.continuation(), [50, 51, 52, 53, 54, 55, 56, 57, 58, 3]);
        drafter.truncate(0);
        assert_eq!(drafter.continuation(), [0u32; 0]);
    }

    proptest! {
        /// Whatever is proposed did once follow the last token.
        #[test]
        fn proposals_are_quotations(tokens in prop::collection::vec(0u32..4, 0..60)) {
            let found = chain(&tokens, 64);
            if !found.is_empty() {
                prop_assert_eq!(found.len(), CONTINUATION);
                let mut quoted = vec![*tokens.last().unwrap()];
                quoted.extend(&found);
                prop_assert!(tokens.windows(quoted.len()).any(|window| window == quoted));
            } else {
                // Only if the last token did not occur with enough behind it.
                let last = tokens.last();
                let seen = tokens.len().saturating_sub(CONTINUATION);
                prop_assert!(!tokens[..seen].iter().any(|token| Some(token) == last));
            }
        }
    }
}
