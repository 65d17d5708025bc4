//! The results of decoding with a trained head, saved with the state of the training. It must never
//! decode.

use serde::{Deserialize, Serialize};

/// The results of decoding with the head. τ = committed tokens / target passes, without the
/// prompt's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecodeEval {
    /// How many prompts were answered.
    pub prompts: usize,
    /// How many of these gave the same text as plain decoding at every m.
    pub same: usize,
    /// Plain decoding, then each m.
    pub rows: Vec<DecodeRow>,
}

/// One way of decoding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecodeRow {
    /// m: how many blocks are used; 0 without a draft.
    pub blocks: usize,
    /// How many tokens follow the first one of each answer.
    pub tokens: usize,
    /// How many passes the target made.
    pub rounds: usize,
    /// The time, including drafting.
    pub seconds: f64,
}

impl DecodeRow {
    /// Tokens per pass.
    pub fn tau(&self) -> f64 {
        self.tokens as f64 / self.rounds.max(1) as f64
    }

    /// Tokens per second.
    pub fn speed(&self) -> f64 {
        if self.seconds > 0.0 { self.tokens as f64 / self.seconds } else { 0.0 }
    }
}
