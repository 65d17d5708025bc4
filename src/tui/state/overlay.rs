//! What lies over everything else.

use crate::chat::SessionHead;

/// A list of saved conversations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionList {
    /// The latest first.
    pub sessions: Vec<SessionHead>,
    /// The one under the cursor.
    pub selected: usize,
}

/// What lies over everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overlay {
    /// Keys and commands; the first row seen.
    Help {
        /// First row seen.
        top: usize,
    },
    /// What was loaded, what was chosen and why.
    Details,
    /// Something failed.
    Error {
        /// In two or three words.
        title: String,
        /// What to tell the user.
        text: String,
    },
    /// Saved conversations.
    Sessions(SessionList),
    /// The strategies; the one under the cursor.
    Strategies {
        /// Its place in the list.
        selected: usize,
    },
}
