//! How the screen is divided and looks, and where keys go. Must never know what the panels hold.

use std::time::Duration;

use super::keymap::Keymap;
use super::theme::ThemeName;
use crate::settings::{Alert, Layout, Settings};

/// Where keys go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// The message being written.
    Input,
    /// The conversation, for scrolling.
    Chat,
    /// The draft tree.
    Tree,
    /// The meters (narrow screens, where they replace the tree).
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

/// When the origin of tokens is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    Never,
    /// While an answer comes, and a little longer.
    WhileNew,
    Always,
}

/// How the screen is divided and looks.
#[derive(Clone, Debug)]
pub struct Display {
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// Where keys go.
    pub focus: Focus,
    /// The layout that was chosen; `None` is what the width has room for.
    pub layout: Option<Layout>,
    /// The panel that a key has opened in addition to those of the layout: on a narrow screen, in
    /// their place.
    pub side: Option<Focus>,
    /// Whether a key has shown or hidden the meters, against the layout.
    pub meters: bool,
    /// Colours.
    pub theme: ThemeName,
    /// The colours that the terminal's background asks for.
    pub background: ThemeName,
    /// Whether the terminal's window has the focus; those that do not say so always have it.
    pub focused: bool,
    /// What the terminal does when a long answer ends without the focus.
    pub alert: Alert,
    /// Whether the message has the keys of vi.
    pub vi: bool,
    /// Whether colours may be shown at all.
    pub colours: bool,
    /// When the origin of tokens is marked.
    pub marks: Marks,
    /// When the marks of the answer that has just ended fade.
    pub fades: Option<Duration>,
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
        Self {
            size: (80, 24),
            focus: Focus::Input,
            layout: settings.layout,
            side: None,
            meters: false,
            theme: settings.theme,
            background: ThemeName::Dark,
            focused: true,
            alert: settings.alert,
            vi: settings.vi,
            colours,
            marks: if settings.marks { Marks::WhileNew } else { Marks::Never },
            fades: None,
            heat: false,
            mouse: settings.mouse,
            keys,
        }
    }

    /// How long the marks of an answer stay after its end.
    pub const FADE: Duration = Duration::from_secs(2);
    /// Columns from which panels are next to the chat.
    const WIDE: u16 = 110;
    /// Rows from which they are.
    const HIGH: u16 = 16;

    /// Whether panels are next to the chat, not below it.
    pub fn beside(&self) -> bool {
        self.size.0 >= Self::WIDE && self.size.1 >= Self::HIGH
    }

    /// The layout in force.
    pub fn layout(&self) -> Layout {
        self.layout.unwrap_or(if self.beside() { Layout::Tree } else { Layout::Chat })
    }
}
