//! How the screen is divided and looks, and where keys go. Must never know what the panels hold.

use super::keymap::Keymap;
use super::theme::ThemeName;

/// Where keys go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// The message being written.
    Input,
    /// The conversation, for scrolling.
    Chat,
    /// The draft tree.
    Tree,
    /// The meters (narrow screens, where they replace another panel).
    Meters,
    Controls,
}

impl Focus {
    /// What the keys go to, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "the message",
            Self::Chat => "the conversation",
            Self::Tree => "the tree panel",
            Self::Meters => "the meters panel",
            Self::Controls => "the controls panel",
        }
    }
}

/// A panel that a key shows: below the chat on a narrow screen, larger on a wide one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The draft tree.
    Tree,
    Meters,
    Controls,
}

impl Side {
    /// The focus that belongs to it.
    pub fn focus(self) -> Focus {
        match self {
            Self::Tree => Focus::Tree,
            Self::Meters => Focus::Meters,
            Self::Controls => Focus::Controls,
        }
    }
}

/// How the screen is divided and looks.
#[derive(Clone, Debug)]
pub struct Display {
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// Where keys go.
    pub focus: Focus,
    /// The panel that a key has shown.
    pub side: Option<Side>,
    /// Colours.
    pub theme: ThemeName,
    /// Whether colours may be shown at all.
    pub colours: bool,
    /// Whether the origin of tokens is marked.
    pub marks: bool,
    /// Whether the mouse is the program's: wheel, click and selection.
    pub mouse: bool,
    /// The keys in force.
    pub keys: Keymap,
}

impl Display {
    /// Columns from which panels are next to the chat.
    const WIDE: u16 = 120;
    /// Rows from which they are.
    const HIGH: u16 = 16;

    /// Whether panels are next to the chat, if there is height for them.
    pub fn wide(&self) -> bool {
        self.size.0 >= Self::WIDE
    }

    /// Whether panels are next to the chat.
    pub fn beside(&self) -> bool {
        self.wide() && self.size.1 >= Self::HIGH
    }
}
