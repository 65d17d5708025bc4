//! What a head learns from: a text with the target's features. It must not depend on where texts
//! come from.

use std::ops::Range;

use half::f16;

use super::Result;
use crate::model::head::HeadConfig;

/// Which numbers of a position a head reads, and which are the target's feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The numbers that the head reads.
    pub read: Range<usize>,
    /// f_i: the same numbers, or those after them.
    pub feature: Range<usize>,
}

impl Columns {
    /// The columns for a head of this configuration.
    pub fn of(config: &HeadConfig) -> Self {
        let read = config.feature_width();
        let hidden = config.target_hidden();
        match config.kind.eagle3() {
            None => Self { read: 0..read, feature: 0..read },
            Some(_) => Self { read: 0..read, feature: read..read + hidden },
        }
    }

    /// How many numbers a position has.
    pub fn width(&self) -> usize {
        self.feature.end
    }
}

/// One rendered chat of L tokens as the target saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Example {
    /// The tokens x_0 … x_{L−1}.
    pub tokens: Vec<u32>,
    /// `[L, width]`, row-major: f_i, the output of the target's final norm at position i
    /// (method.md, Features); for a head over tapped states these states and then f_i
    /// ([`Columns`]).
    pub features: Vec<f16>,
    /// `[L]`: whether x_i is the assistant's, including the token that ends its turn.
    pub mask: Vec<bool>,
}

impl Example {
    /// Checks that its parts fit together and match a target of `hidden` and `vocab`.
    ///
    /// # Errors
    /// What is wrong, in a sentence.
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
    /// How many examples there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// L of one example, without reading it: batches are made of examples of similar length.
    fn tokens(&self, index: usize) -> usize;

    /// Reads one example.
    ///
    /// # Errors
    /// [`TrainError::Example`](super::TrainError::Example) if it cannot be read.
    fn get(&self, index: usize) -> Result<Example>;
}

impl Examples for Vec<Example> {
    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn tokens(&self, index: usize) -> usize {
        self[index].tokens.len()
    }

    fn get(&self, index: usize) -> Result<Example> {
        Ok(self[index].clone())
    }
}
