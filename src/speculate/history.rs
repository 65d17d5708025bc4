//! The tokens for whose use a draw may be penalised. It must not depend on what a penalty is.

use std::collections::HashMap;

/// How often each token occurs in the text before the token to be drawn: in the prompt, in the
/// answer, and inside a tree in the node's own path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenUses {
    counts: HashMap<u32, u32>,
}

impl TokenUses {
    /// The history of a text.
    pub fn new(tokens: &[u32]) -> Self {
        let mut history = Self::default();
        for &token in tokens {
            history.push(token);
        }
        history
    }

    /// Appends a token.
    pub fn push(&mut self, token: u32) {
        *self.counts.entry(token).or_insert(0) += 1;
    }

    /// How often a token was used; `None` if it was not.
    pub fn uses_of(&self, token: u32) -> Option<u32> {
        self.counts.get(&token).copied()
    }

    /// Each used token with its number of uses, in no particular order.
    pub fn uses(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.counts.iter().map(|(&token, &count)| (token, count))
    }
}
