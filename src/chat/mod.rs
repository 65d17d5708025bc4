//! Conversation, chat template, thoughts, saved sessions. It owns roles, rendering and the format
//! of saved conversations. It must not depend on models.

mod answer_end;
mod clock;
mod exchange;
mod extras;
mod given;
mod jinja;
mod json;
mod models;
mod prompt;
mod session;
mod session_error;
mod store;
mod template;
mod thoughts;

use serde::{Deserialize, Serialize};

pub use answer_end::{AnswerEnd, AnswerTotals, Cut};
pub use exchange::{Exchange, LeftOut};
pub use extras::{BranchOf, Extras, Forgotten, SavedChat, Versions, WhenFull};
pub use given::Given;
pub use models::{AnsweredBy, ModelChoice};
pub use prompt::{FindControls, Prompt};
pub use session::{SavedMessage, SavedTurn, Session, alternating, messages_given};
pub use session_error::SessionError;
pub use store::{Listing, OpenSession, Saved, SessionHead, SessionMatch, SessionStore, branches};
pub use template::{ChatTemplate, SpecialTokens, TemplateError};
pub use thoughts::{Opened, Split, ThoughtSplitter};

/// Today's date, as 2026-01-31.
pub fn today() -> String {
    clock::local(clock::now(), "%Y-%m-%d")
}

/// The speaker of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions that precede the conversation.
    System,
    /// The person.
    User,
    /// The target model.
    Assistant,
}

impl Role {
    /// The role for any of the names used in published chats, in upper or lower case.
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "system" | "developer" => Some(Self::System),
            "user" | "human" => Some(Self::User),
            "assistant" | "gpt" | "chatgpt" | "model" => Some(Self::Assistant),
            _ => None,
        }
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The speaker.
    pub role: Role,
    /// The text.
    pub content: String,
    /// What the model thought before it, separate from the text: the template decides whether later
    /// prompts repeat it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<String>,
}

impl Message {
    /// A message without thoughts.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), thought: None }
    }

    /// All texts in it.
    fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.content.as_str()).chain(self.thought.as_deref())
    }
}
