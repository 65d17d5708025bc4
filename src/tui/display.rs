//! How the screen is divided and looks, and where keys go. Must never know what the panels hold.

use super::keymap::Keymap;
use super::theme::ThemeName;
use crate::settings::Settings;

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

/// How the screen is divided and looks.
#[derive(Clone, Debug)]
pub struct Display {
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// Where keys go.
    pub focus: Focus,
    /// The panel that a key has shown: below the chat on a narrow screen, larger on a wide one.
    pub side: Option<Focus>,
    /// Colours.
    pub theme: ThemeName,
    /// Whether colours may be shown at all.
    pub colours: bool,
    /// Whether the origin of tokens is marked.
    pub marks: bool,
    /// Whether a line below each answer shows how surprising its tokens were.
    pub heat: bool,
    /// Whether the mouse is the program's: wheel, click and selection.
    pub mouse: bool,
    /// The keys in force.
    pub keys: Keymap,
}

impl Display {
    /// As the settings want it, before the size is known.
    pub fn new(settings: &Settings, colours: bool, keys: Keymap) -> Self {
        let Settings { theme, marks, mouse, .. } = *settings;
        let size = (80, 24);
        let heat = false;
        Self { size, focus: Focus::Input, side: None, theme, colours, marks, heat, mouse, keys }
    }

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
