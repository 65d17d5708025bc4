//! Conversation, chat template, saved sessions. Owns roles, rendering and the format of saved
//! conversations. Must never know models.

mod clock;
mod jinja;
mod json;
mod prompt;
mod session;
mod session_error;
mod store;
mod template;

use serde::{Deserialize, Serialize};

pub use prompt::{Controls, Prompt};
pub use session::{Entry, SavedTurn, Session};
pub use session_error::SessionError;
pub use store::{Found, Listing, OpenSession, Saved, SessionHead, SessionStore};
pub use template::{ChatTemplate, SpecialTokens, TemplateError};

/// Today's date in UTC, as 2026-01-31.
pub fn today() -> String {
    clock::format(clock::now(), "%Y-%m-%d")
}

/// Who speaks.
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

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// Text.
    pub content: String,
}
