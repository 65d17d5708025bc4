//! Recorded runs: a file of trace lines with each question before its answer, so that a run can be
//! shown again without models and its text checked with them. It must not depend on a screen.
//!
//! The first line is [`RecordHead`]; then come the [`Line`]s in order, with a [`Question`]
//! before each answer, and a line where the sampler was changed in the middle of an answer.

mod page;
mod read;
mod scripted;
mod trace;
mod verify;
mod write;

pub use read::{Record, RecordedAnswer};
pub use scripted::Script;
pub use trace::{Line, Recorder};
pub use verify::{Finding, decode_plainly, verify_answer};
pub use write::{Recording, recorded};

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::chat::{Message, Role};
use crate::speculate::SamplerSettings;

/// The current format. Format 2 added [`crate::decode::Round::ahead`], the sequences of
/// DuoDecoding, [`crate::decode::Round::outcomes`], and the passes that were timed during loading.
/// Format 3 added what the target thought of every token
/// ([`crate::decode::Committed::logprobs`]), and forced tokens.
pub const FORMAT: u32 = 3;

/// The oldest format that is read: what is missing in it is optional.
pub const OLDEST_FORMAT: u32 = 1;

/// Why nothing can be recorded, or a file cannot be used as a record or as a script.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file to record to already exists.
    #[error("the record {} already exists; choose another file with --record", .0.display())]
    Exists(PathBuf),
    /// Its first line is not that of a record.
    #[error(
        "{} is not a record: its first line is not from `dovetail run --record FILE` or `dovetail \
         chat --record FILE`",
        .0.display()
    )]
    None(PathBuf),
    /// A line differs from what was written, or the system refused: which file or line, and why.
    #[error("{0}")]
    Failed(String),
}

/// The first line of a record: what determines the text in addition to model and question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordHead {
    /// [`FORMAT`].
    pub format: u32,
    /// Version of the program.
    pub program: String,
    /// The precision of the target's KV cache, as in the settings.
    pub kv: String,
    /// Blocks of the target on a GPU, as in the settings.
    pub gpu_layers: String,
    /// The user's texts that end an answer.
    #[serde(default)]
    pub stop: Vec<String>,
}

/// A question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The conversation up to and including the user's last message.
    pub messages: Vec<Message>,
    /// The most tokens of the answer.
    pub max_tokens: usize,
    /// Whether the model should think.
    #[serde(default)]
    pub thinking: Option<bool>,
    /// How it was sampled.
    pub sampler: SamplerSettings,
    /// The tokens with which the answer begins: those before a forced token, from another version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begun: Vec<u32>,
    /// The tokens that the user forced, by their number in the answer, `begun` included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forced: Vec<(usize, u32)>,
    /// Whether it is one of the two answers of a race, which belong to no conversation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub race: bool,
}

impl Question {
    /// The messages, and after them the beginning of an answer that continues.
    pub fn parts(&self) -> (&[Message], Option<&Message>) {
        match self.messages.split_last() {
            Some((begun, asked)) if begun.role == Role::Assistant => (asked, Some(begun)),
            _ => (&self.messages, None),
        }
    }
}
