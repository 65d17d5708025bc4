//! Recorded runs: a file of trace lines with each question before its answer, so that a run can be
//! shown again without models and its text checked with them. Must never know a screen.
//!
//! The first line is [`RecordHead`]; then come the lines of [`super::Line`] as they happened, a
//! [`Question`] before each answer, and a line where the sampler was turned in the middle of one.

mod read;
mod verify;
mod what_if;
mod write;

pub use read::{Record, RecordError, RecordedAnswer};
pub use verify::{Finding, verify_answer};
pub use what_if::{NextRound, WhatIf};
pub use write::{Recording, RecordingError, recorded};

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::chat::Message;
use crate::speculate::SamplerSettings;

/// The format that is written. Format 2 added [`crate::decode::Round::ahead`], the sequences of
/// DuoDecoding, [`crate::decode::Round::outcomes`], and the passes that were timed while loading.
pub const FORMAT: u32 = 2;

/// The oldest format that is read: what it lacks is optional.
pub const OLDEST_FORMAT: u32 = 1;

/// The first line of a record: what decides the text beside model and question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordHead {
    /// [`FORMAT`].
    pub format: u32,
    /// Version of the program.
    pub program: String,
    /// Precision of the target's KV cache, as the settings name it.
    pub kv: String,
    /// Blocks of the target on a GPU, as the settings name them.
    pub gpu_layers: String,
    /// Texts of the user's that end an answer.
    #[serde(default)]
    pub stop: Vec<String>,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The conversation up to and including the user's last message.
    pub messages: Vec<Message>,
    /// Most tokens of the answer.
    pub max_tokens: usize,
    /// Whether the model was to think.
    #[serde(default)]
    pub thinking: Option<bool>,
    /// How it was sampled.
    pub sampler: SamplerSettings,
}
