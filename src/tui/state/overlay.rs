//! Overlays: help, details, failures and lists. Must never know how they are drawn.

use super::list::{FilteredList, Listed};
use super::models::ModelPicker;
use crate::chat::SessionHead;

/// Saved conversations, the latest first.
pub type SessionList = FilteredList<SessionHead>;

impl Listed for SessionHead {
    fn words(&self) -> String {
        format!("{} {}", self.title, self.date())
    }
}

/// An overlay.
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
    /// Models to choose from.
    Models(ModelPicker),
    /// The strategies; the one under the cursor.
    Strategies {
        /// Its place in the list.
        selected: usize,
    },
}
