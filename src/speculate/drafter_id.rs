//! The drafters: one table of their names. It must not depend on a drafter.

use serde::{Deserialize, Serialize};

/// Who drafts, or who proposed a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrafterId {
    /// The target's draft head.
    Head,
    /// A DFlash drafter.
    Dflash,
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
    /// Only of a token: an MTP head or Gemma 4's assistant, which is a draft head among drafters.
    Mtp,
}

impl DrafterId {
    /// Every drafter in the order of its variants, with its name.
    const ROWS: [(Self, &'static str); 14] = [
        (Self::Head, "head"),
        (Self::Dflash, "dflash"),
        (Self::SmallModel, "small model"),
        (Self::Lookup, "lookup"),
        (Self::Retrieval, "retrieval"),
        (Self::Lookahead, "lookahead"),
        (Self::Suffix, "suffix"),
        (Self::Recycling, "recycling"),
        (Self::History, "earlier chats"),
        (Self::Ngram, "n-gram table"),
        (Self::Context, "context"),
        (Self::Auto, "auto"),
        (Self::None, "none"),
        (Self::Mtp, "mtp"),
    ];

    /// Every drafter.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ROWS.into_iter().map(|row| row.0)
    }

    /// Its name for display.
    pub const fn name(self) -> &'static str {
        Self::ROWS[self as usize].1
    }

    /// Whether it is a model, which takes time to draft and has weights to place.
    pub const fn is_model(self) -> bool {
        matches!(self, Self::Head | Self::Dflash | Self::SmallModel)
    }
}
