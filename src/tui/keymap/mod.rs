//! Every key of the program: one table for dispatch, the hints line, the help and the guide, and
//! what the settings change of it.

mod groups;
mod in_force;
mod lookup;
mod press;
mod table;

pub use self::groups::{KeyGroup, first_keys, help};
pub use self::in_force::Keymap;
pub use self::lookup::{hints, lookup, writes};
pub use self::press::KeyPress;
pub use self::table::{BINDINGS, EDITING};
pub use crate::tui::actions::Action;

use Action as A;
use Scope as S;

/// Where a key works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everywhere.
    Global,
    /// While writing.
    Input,
    /// While commands are suggested.
    Completion,
    /// While an empty chat offers questions.
    Starters,
    /// In any panel.
    Panel,
    /// In the conversation.
    Chat,
    Tree,
    Controls,
    /// In the list of saved conversations.
    Sessions,
    Overlay,
}

impl Scope {
    /// All, in the order of the help.
    pub const ALL: [Self; 10] = [
        Self::Input,
        Self::Starters,
        Self::Global,
        Self::Panel,
        Self::Tree,
        Self::Controls,
        Self::Chat,
        Self::Completion,
        Self::Sessions,
        Self::Overlay,
    ];

    /// Heading in the help.
    pub fn title(self) -> &'static str {
        match self {
            Self::Global => "Everywhere",
            Self::Input => "Message",
            Self::Completion => "Suggestions",
            Self::Starters => "New chat",
            Self::Panel => "In any panel",
            Self::Chat => "Conversation",
            Self::Tree => "Draft tree",
            Self::Controls => "Controls",
            Self::Sessions => "Saved conversations",
            Self::Overlay => "Help and lists",
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// Where it works.
    pub scope: Scope,
    /// Its name in the table `[keys]` of the settings, unlike any other.
    pub name: &'static str,
    /// Any of these.
    pub keys: &'static [KeyPress],
    /// What it does.
    pub action: Action,
    /// What it does, for the help; empty where the row above says it for both.
    pub help: &'static str,
    /// Its place in the hints line (small first) and its one or two words there; rank 0 is left
    /// out.
    pub hint: (u8, &'static str),
    /// Its place among the keys that a beginner needs, from 1 on; 0 is none.
    pub first: u8,
}

#[cfg(test)]
mod tests;
