//! What is saved of an answer next to its text: why it was cut off, and the figures of the line
//! below it. Must never know how it is drawn.

use serde::{Deserialize, Serialize};

/// Why an answer has no end of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// It reached its limit of so many tokens.
    Limit(usize),
    /// The context had no room left.
    ContextFull,
    /// The user stopped it.
    Stopped,
}

/// What an answer took, all its parts together: an answer that was cut off continues in another
/// job, whose totals start from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AnswerTotals {
    /// Its tokens.
    pub tokens: usize,
    /// Target passes after the prefills.
    pub rounds: usize,
    /// Tokens that rounds gave: the others are the prefills'.
    pub decoded: usize,
    /// Microseconds of all rounds.
    pub micros: u64,
    /// Whether the figures of its beginning are unknown: it was written in another run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lacks_beginning: bool,
}

impl AnswerTotals {
    /// Those of an answer of another run that saved none.
    pub const UNKNOWN: Self =
        Self { tokens: 0, rounds: 0, decoded: 0, micros: 0, lacks_beginning: true };

    /// Committed tokens per second of decoding, prefills excluded.
    pub fn tokens_per_second(&self) -> f64 {
        if self.micros > 0 { self.decoded as f64 * 1e6 / self.micros as f64 } else { 0.0 }
    }
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerEnd {
    /// Why it was cut off; `None` if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// What it took.
    #[serde(flatten)]
    pub totals: AnswerTotals,
    /// Its speed over that of plain decoding in percent, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent_of_plain: Option<u32>,
    /// Whether `percent_of_plain` is an estimate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Whether only its rounds are compared with plain decoding: the demo wrote it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_rounds: bool,
}
