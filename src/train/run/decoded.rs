//! What decoding with a trained head gave, kept with the state of the training. Must never decode.

use serde::{Deserialize, Serialize};

/// What decoding with the head gave. τ = committed tokens / target passes, the prompt's excluded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecodeEval {
    /// Prompts answered.
    pub prompts: usize,
    /// Of these, those whose text was plain decoding's at every m.
    pub same: usize,
    /// Plain decoding, then each m.
    pub rows: Vec<DecodeRow>,
}

/// One way of decoding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecodeRow {
    /// m: blocks in use; 0: no draft.
    pub blocks: usize,
    /// Tokens after each answer's first.
    pub tokens: usize,
    /// Passes of the target.
    pub rounds: usize,
    /// Time, drafting included.
    pub seconds: f64,
}

impl DecodeRow {
    /// Tokens a pass.
    pub fn tau(&self) -> f64 {
        self.tokens as f64 / self.rounds.max(1) as f64
    }

    /// Tokens a second.
    pub fn speed(&self) -> f64 {
        if self.seconds > 0.0 { self.tokens as f64 / self.seconds } else { 0.0 }
    }
}
