//! What a model was given for an answer, so that the answer can be checked later. It must not
//! depend on files.

use serde::{Deserialize, Serialize};

use super::Message;
use crate::files::checksum;
use crate::speculate::SamplerSettings;

/// What a model was given for an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Given {
    /// How many messages of the saved conversation it was not given any more, the system prompt not
    /// counted: the context was full.
    pub forgotten: usize,
    /// The checksum of the messages.
    messages: u64,
    /// Whether it was to think; `None` left that to the template.
    pub thinking: Option<bool>,
    /// How its tokens were drawn.
    pub sampler: SamplerSettings,
}

impl Given {
    /// For an answer to `messages`.
    pub fn new(
        forgotten: usize,
        messages: &[Message],
        thinking: Option<bool>,
        sampler: SamplerSettings,
    ) -> Self {
        Self { forgotten, messages: checksum_of(messages), thinking, sampler }
    }

    /// Whether these are the messages that it was given.
    pub fn is_to(&self, messages: &[Message]) -> bool {
        self.messages == checksum_of(messages)
    }
}

fn checksum_of(messages: &[Message]) -> u64 {
    checksum(&serde_json::to_vec(messages).unwrap_or_default())
}
