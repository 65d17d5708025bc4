//! Overlays: help, details, failures and lists. Must never know how they are drawn.

use crate::chat::SessionHead;

/// A list of saved conversations that is filtered as one types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionList {
    /// The latest first.
    sessions: Vec<SessionHead>,
    filter: String,
    /// The one under the cursor, among those shown.
    pub selected: usize,
}

impl SessionList {
    /// All of them, the latest first.
    pub fn new(sessions: Vec<SessionHead>) -> Self {
        Self { sessions, ..Self::default() }
    }

    /// How many there are, shown or not.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are none at all.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// What was typed.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// Shows those that have every word of `filter` in title or date, upper case or lower.
    pub fn filter_by(&mut self, filter: String) {
        self.filter = filter;
        self.selected = 0;
    }

    /// Those that fit the filter.
    pub fn shown(&self) -> Vec<&SessionHead> {
        let filter = self.filter.to_lowercase();
        let fits = |session: &&SessionHead| {
            let text = format!("{} {}", session.title, session.date()).to_lowercase();
            filter.split_whitespace().all(|word| text.contains(word))
        };
        self.sessions.iter().filter(fits).collect()
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
    /// The strategies; the one under the cursor.
    Strategies {
        /// Its place in the list.
        selected: usize,
    },
}
