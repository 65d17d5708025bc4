//! The models that a conversation was held with, as flags name them. Must never know how they are
//! loaded.

use serde::{Deserialize, Serialize};

/// The models of a session, as flags name them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelChoice {
    /// The target; `None` is the bundled one.
    pub target: Option<String>,
    /// A draft head, or `lookup`; `None` is the bundled one where the target is, else `lookup`.
    pub draft: Option<String>,
    /// A small language model to draft with.
    pub draft_model: Option<String>,
}

impl ModelChoice {
    /// Whether the target is the bundled one, which has a name as well.
    pub fn is_bundled(&self) -> bool {
        self.target.as_deref().is_none_or(|target| target == "bundled")
    }

    /// Whether both have the same target.
    pub fn same_target(&self, other: &Self) -> bool {
        self.target == other.target || self.is_bundled() && other.is_bundled()
    }
}

/// The models that gave the last answer of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnsweredBy {
    /// Name of the target, for people.
    pub target: String,
    /// How to load them; `None` where an earlier version saved the conversation.
    pub models: Option<ModelChoice>,
    /// Whether the target is not on this machine any more.
    pub gone: bool,
}
