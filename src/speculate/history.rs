//! The tokens a draw may be penalised for having used. Must never know what a penalty is.

use std::collections::HashMap;

/// How often each token occurs in the text before the one to be drawn: the prompt, the answer, and
/// inside a tree the node's own path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    counts: HashMap<u32, u32>,
}

impl History {
    /// The history of a text.
    pub fn new(tokens: &[u32]) -> Self {
        let mut history = Self::default();
        tokens.iter().for_each(|&token| history.push(token));
        history
    }

    /// Appends a token.
    pub fn push(&mut self, token: u32) {
        *self.counts.entry(token).or_insert(0) += 1;
    }

    /// Each token used with its number of uses, in no order.
    pub fn uses(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.counts.iter().map(|(&token, &count)| (token, count))
    }
}
