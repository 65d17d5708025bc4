//! What a head learns from: a text with the target's features. Must never know where texts come
//! from.

use half::f16;

use super::TrainError;

/// One rendered chat of L tokens as the target saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Example {
    /// The tokens x_0 … x_{L−1}.
    pub tokens: Vec<u32>,
    /// `[L, H]`, row-major: f_i, the output of the target's final norm at position i (method.md,
    /// Features).
    pub features: Vec<f16>,
    /// `[L]`: whether x_i is the assistant's, the token that ends its turn included.
    pub mask: Vec<bool>,
}

impl Example {
    /// Whether its parts fit each other and a target of `hidden` and `vocab`.
    ///
    /// # Errors
    /// What is wrong, a sentence.
    pub fn check(&self, hidden: usize, vocab: usize) -> Result<(), String> {
        let len = self.tokens.len();
        if self.mask.len() != len || self.features.len() != len * hidden {
            return Err(format!(
                "{len} tokens have {} marks and {} features; {len} and {len} × {hidden} are right",
                self.mask.len(),
                self.features.len()
            ));
        }
        match self.tokens.iter().find(|&&token| token as usize >= vocab) {
            Some(token) => Err(format!("token {token} is outside the vocabulary of {vocab}")),
            None => Ok(()),
        }
    }

    /// Keeps the first `window` tokens.
    pub fn cut(&mut self, window: usize, hidden: usize) {
        self.tokens.truncate(window);
        self.mask.truncate(window);
        self.features.truncate(window * hidden);
    }
}

/// Many examples, read one at a time so that they need not fit in memory.
pub trait Examples {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// L of one, without reading it: batches are made of examples of like length.
    fn tokens(&self, index: usize) -> usize;

    /// Reads one.
    ///
    /// # Errors
    /// [`TrainError::Example`] if it cannot be read.
    fn get(&self, index: usize) -> Result<Example, TrainError>;
}

impl Examples for Vec<Example> {
    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn tokens(&self, index: usize) -> usize {
        self[index].tokens.len()
    }

    fn get(&self, index: usize) -> Result<Example, TrainError> {
        Ok(self[index].clone())
    }
}
