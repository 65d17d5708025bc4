//! Colours with meaning. Owns every style of the screen; nothing else names a colour. Must never
//! know where a style is used.
//!
//! Origin is never told by colour alone: accepted tokens are underlined in every theme, tree
//! nodes have a glyph each.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};

pub use crate::settings::ThemeName;

/// The name in settings and commands.
pub fn name(theme: ThemeName) -> &'static str {
    match theme {
        ThemeName::Dark => "dark",
        ThemeName::Light => "light",
        ThemeName::Mono => "mono",
    }
}

/// The one after this.
pub fn next(theme: ThemeName) -> ThemeName {
    match theme {
        ThemeName::Dark => ThemeName::Light,
        ThemeName::Light => ThemeName::Mono,
        ThemeName::Mono => ThemeName::Dark,
    }
}

pub fn styles(theme: ThemeName) -> Styles {
    match theme {
        ThemeName::Dark => Styles::coloured(&DARK),
        ThemeName::Light => Styles::coloured(&LIGHT),
        ThemeName::Mono => Styles::mono(),
    }
}

/// Colours of the 256-colour table, which all current terminals have.
struct Palette {
    dim: u8,
    faint: u8,
    accent: u8,
    accepted: u8,
    target: u8,
    warning: u8,
    error: u8,
    keyword: u8,
    literal: u8,
    selection: u8,
    lit: u8,
}

const DARK: Palette = Palette {
    dim: 246,
    faint: 240,
    accent: 111,
    accepted: 115,
    target: 223,
    warning: 215,
    error: 210,
    keyword: 147,
    literal: 151,
    selection: 237,
    lit: 24,
};

const LIGHT: Palette = Palette {
    dim: 242,
    faint: 249,
    accent: 25,
    accepted: 29,
    target: 130,
    warning: 130,
    error: 160,
    keyword: 55,
    literal: 28,
    selection: 254,
    lit: 153,
};

/// The styles of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Styles {
    /// Running text.
    pub text: Style,
    /// Emphasised text.
    pub strong: Style,
    /// Secondary text: labels, hints.
    pub dim: Style,
    /// Borders and marks.
    pub faint: Style,
    /// Focus, keys, the product's name.
    pub accent: Style,
    /// Proposed by the draft and accepted.
    pub accepted: Style,
    /// Chosen by the target.
    pub target: Style,
    /// Drafted and rejected.
    pub rejected: Style,
    /// Paused, fixed, stopped.
    pub warning: Style,
    /// Failures.
    pub error: Style,
    /// The row under the cursor of a list.
    pub selected: Style,
    /// The words of the round that is looked at.
    pub lit: Style,
    /// Code: keywords.
    pub keyword: Style,
    /// Code: strings and numbers.
    pub literal: Style,
}

impl Styles {
    fn coloured(palette: &Palette) -> Self {
        let fg = |index| Style::new().fg(Color::Indexed(index));
        Self {
            text: Style::new(),
            strong: Style::new().add_modifier(Modifier::BOLD),
            dim: fg(palette.dim),
            faint: fg(palette.faint),
            accent: fg(palette.accent),
            accepted: fg(palette.accepted),
            target: fg(palette.target),
            rejected: fg(palette.dim),
            warning: fg(palette.warning),
            error: fg(palette.error),
            selected: Style::new().bg(Color::Indexed(palette.selection)),
            lit: Style::new().bg(Color::Indexed(palette.lit)).add_modifier(Modifier::BOLD),
            keyword: fg(palette.keyword),
            literal: fg(palette.literal),
        }
    }

    /// Accepted tokens in running text: bold is left to the text's own emphasis.
    pub fn accepted_text(&self) -> Style {
        self.accepted.remove_modifier(Modifier::BOLD).add_modifier(Modifier::UNDERLINED)
    }

    fn mono() -> Self {
        let style = Style::new();
        let dim = style.add_modifier(Modifier::DIM);
        let bold = style.add_modifier(Modifier::BOLD);
        Self {
            text: style,
            strong: bold,
            dim,
            faint: dim,
            accent: bold,
            accepted: bold,
            target: style,
            rejected: dim,
            warning: bold,
            error: bold,
            selected: style.add_modifier(Modifier::REVERSED),
            lit: style.add_modifier(Modifier::REVERSED | Modifier::BOLD),
            keyword: bold,
            literal: style,
        }
    }
}

/// Takes every colour out of a finished screen. Done here and not left to the terminal library,
/// whose own handling of `NO_COLOR` would take the underlines with it.
pub fn strip_colours(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        cell.fg = Color::Reset;
        cell.bg = Color::Reset;
    }
}
