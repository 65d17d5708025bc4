//! The list of saved conversations. Must never know how they are saved.

pub(crate) mod update;
pub(crate) mod view;

use super::{FilteredList, Listed};
use crate::chat::SessionHead;

/// Saved conversations, the latest first.
pub type SessionList = FilteredList<SessionHead>;

impl Listed for SessionHead {
    fn words(&self) -> String {
        format!("{} {} {}", self.title, self.date(), self.said)
    }
}

/// A saved conversation that gets another title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renaming {
    /// Its name in the store.
    pub id: String,
    /// What is written so far.
    pub title: String,
}
