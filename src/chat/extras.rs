//! What a saved conversation holds beside its messages: other versions of answers, what was
//! forgotten to make room, where it branched off, what was not sent yet. Must never know the
//! screen.

use serde::{Deserialize, Serialize};

use super::session::SavedTurn;
use super::{Message, Role};

/// The other versions of one answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Which message it is, the system message counted.
    pub message: usize,
    /// How many of `others` come before the one in the conversation.
    pub at: usize,
    /// The others, the oldest first.
    pub others: Vec<Version>,
}

/// One version of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// What it says.
    #[serde(flatten)]
    pub message: Message,
    /// Whether it was stopped before its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// What is done when the context is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// The oldest exchanges are not given to the model any more.
    Forget,
    /// The model says in short what they were about.
    Summarise,
    /// The question comes back.
    Stop,
}

/// The beginning of a conversation, which the model is not given any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// Messages of it, without the system prompt.
    pub messages: usize,
    /// What the model said they were about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

impl Forgotten {
    /// Puts the summary of what was forgotten before the first question that is left: not every
    /// template has a system message.
    pub fn put_before(&self, messages: &mut [Message]) {
        let first = messages.iter_mut().find(|message| message.role == Role::User);
        if let (Some(first), Some(summary)) = (first, &self.summary) {
            first.content =
                format!("(Summary of our conversation so far: {summary})\n\n{}", first.content);
        }
    }
}

/// Where a conversation branched off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchOf {
    /// Title of the other conversation.
    pub title: String,
    /// Messages that both have.
    pub messages: usize,
}

/// Everything beside the messages. A file without it is one of a conversation without any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Extras {
    /// Answers that have several versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<Versions>,
    /// What the model is not given any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<Forgotten>,
    /// The choice that was made for a full context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_full: Option<WhenFull>,
    /// Where it branched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_of: Option<BranchOf>,
    /// The preset that it was led by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The message that was being written when the program was left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsent: Option<String>,
}

impl Extras {
    /// Whether there is nothing to save.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A conversation as it goes to the file and comes from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedChat {
    /// The messages, the system message included.
    pub turns: Vec<SavedTurn>,
    /// Everything else.
    pub extras: Extras,
}

impl From<Vec<SavedTurn>> for SavedChat {
    fn from(turns: Vec<SavedTurn>) -> Self {
        Self { turns, extras: Extras::default() }
    }
}

impl SavedChat {
    /// Whether anybody has asked anything in it.
    pub fn asks(&self) -> bool {
        self.turns.iter().any(|turn| turn.message.role == Role::User)
    }
}
