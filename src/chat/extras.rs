//! What a saved conversation holds in addition to its messages: other versions of answers, what was
//! forgotten to make room, where it branched off, and unsent text. It must not depend on the
//! screen.

use serde::{Deserialize, Serialize};

use super::models::AnsweredBy;
use super::session::SavedTurn;
use super::{Message, Role};

/// The other versions of one answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Versions {
    /// The index of the message, counting the system message.
    pub message: usize,
    /// How many of `others` come before the version in the conversation.
    pub at: usize,
    /// The other versions, the oldest first.
    pub others: Vec<SavedTurn>,
}

/// What is done when the context is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// The oldest exchanges are no longer given to the model.
    Forget,
    /// The model summarises them.
    Summarise,
    /// The question is returned to the user.
    Stop,
}

/// The beginning of a conversation, which is no longer given to the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// How many messages it has, without the system prompt.
    pub messages: usize,
    /// The model's summary of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

impl Forgotten {
    /// Puts the summary of what was forgotten before the first remaining question, because not
    /// every template has a system message.
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
    /// The title of the other conversation.
    pub title: String,
    /// The name of its file; none in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How many messages both have.
    pub messages: usize,
}

/// Everything in addition to the messages. A file without it belongs to a conversation that has
/// none of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Extras {
    /// Answers that have several versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<Versions>,
    /// What is no longer given to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<Forgotten>,
    /// The user's choice for a full context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_full: Option<WhenFull>,
    /// Where it branched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_of: Option<BranchOf>,
    /// The preset that it used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The message that was being written when the program was closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsent: Option<String>,
}

impl Extras {
    /// Whether there is nothing to save.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A conversation as it is written to a file and read from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SavedChat {
    /// The messages, including the system message.
    pub turns: Vec<SavedTurn>,
    /// Everything else.
    pub extras: Extras,
    /// The models that answered last; `None` if that is not known.
    pub answered_by: Option<AnsweredBy>,
    /// The name of its file, if it has one.
    pub name: Option<String>,
    /// What to tell of the file it was read from, if that is damaged and this is not all of it.
    pub damage: Option<String>,
}

impl From<Vec<SavedTurn>> for SavedChat {
    fn from(turns: Vec<SavedTurn>) -> Self {
        Self { turns, ..Self::default() }
    }
}

impl SavedChat {
    /// Whether it contains a question.
    pub fn asks(&self) -> bool {
        self.turns.iter().any(|turn| turn.message.role == Role::User)
    }
}
