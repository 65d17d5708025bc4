//! The drafters: one table of their names and needs. It must not depend on a drafter.

use serde::{Deserialize, Serialize};

/// Who drafts, or who proposed a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrafterId {
    /// The target's draft head (DGF or EAGLE).
    Head,
    /// A small language model.
    #[serde(alias = "small")]
    SmallModel,
    /// Prompt lookup: the conversation itself.
    Lookup,
    /// Retrieval from a text that the user names (REST).
    #[serde(alias = "rest")]
    Retrieval,
    /// Lookahead decoding: the target's own guesses in earlier passes.
    Lookahead,
    /// What followed the same phrase in the conversation.
    Suffix,
    /// What the target considered likely in the same context.
    Recycling,
    /// What followed the same phrase in earlier chats.
    History,
    /// What the target considered likely after the same tokens in its own texts, from a table.
    Ngram,
    /// Suffix, recycling, earlier chats and the n-gram table, in one tree.
    Context,
    /// The drafter that pays best in a round: the context, the head, the small model or none.
    Auto,
    /// Nothing is drafted.
    None,
}

impl DrafterId {
    /// Every drafter.
    pub const ALL: [Self; 12] = [
        Self::Head,
        Self::SmallModel,
        Self::Lookup,
        Self::Retrieval,
        Self::Lookahead,
        Self::Suffix,
        Self::Recycling,
        Self::History,
        Self::Ngram,
        Self::Context,
        Self::Auto,
        Self::None,
    ];

    /// Its name for display, and what it needs in addition to the target: nothing, if empty.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Head => ("head", "a draft head"),
            Self::SmallModel => ("small model", "a small model"),
            Self::Lookup => ("lookup", ""),
            Self::Retrieval => ("retrieval", "a text (`--rest-text`)"),
            Self::Lookahead => ("lookahead", ""),
            Self::Suffix => ("suffix", ""),
            Self::Recycling => ("recycling", ""),
            Self::History => ("earlier chats", ""),
            Self::Ngram => ("n-gram table", ""),
            Self::Context => ("context", ""),
            Self::Auto => ("auto", ""),
            Self::None => ("none", ""),
        }
    }

    /// Its name for display.
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    /// What it needs in addition to the target; empty if nothing.
    pub const fn needs(self) -> &'static str {
        self.words().1
    }

    /// Whether it is a model, which takes time to draft and has weights to place.
    pub const fn is_model(self) -> bool {
        matches!(self, Self::Head | Self::SmallModel)
    }
}
