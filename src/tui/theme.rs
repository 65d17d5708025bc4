//! Colours with meaning. Owns every style of the screen; nothing else names a colour. Must never
//! know where a style is used.
//!
//! Origin is never told by colour alone: accepted tokens are underlined in every theme, tree
//! nodes have a glyph each.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};

pub use crate::settings::ThemeName;

/// The theme after this, and its name in settings and commands.
pub fn next(theme: ThemeName) -> (ThemeName, &'static str) {
    match theme {
        ThemeName::Auto => (ThemeName::Dark, "dark"),
        ThemeName::Dark => (ThemeName::Light, "light"),
        ThemeName::Light => (ThemeName::Mono, "mono"),
        ThemeName::Mono => (ThemeName::Auto, "auto"),
    }
}

/// The styles of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Code: what is behind it.
    pub code: Style,
}

/// The styles of a theme, by colours of the 256-colour table, which all current terminals have.
pub fn styles(theme: ThemeName) -> Styles {
    use ThemeName::{Auto, Dark, Light, Mono};
    let painted = |paint: fn(Style, Color) -> Style, dark, light, mono| match theme {
        Auto | Dark => paint(Style::new(), Color::Indexed(dark)),
        Light => paint(Style::new(), Color::Indexed(light)),
        Mono => Style::new().add_modifier(mono),
    };
    let fg = |dark, light, mono| painted(Style::fg, dark, light, mono);
    let bg = |dark, light, mono| painted(Style::bg, dark, light, mono);
    let none = Modifier::empty();
    let bold = Modifier::BOLD;
    let dim = Modifier::DIM;
    let reversed = Modifier::REVERSED;
    Styles {
        text: Style::new(),
        strong: Style::new().add_modifier(bold),
        dim: fg(246, 242, dim),
        faint: fg(240, 249, dim),
        accent: fg(111, 25, bold),
        accepted: fg(115, 29, bold),
        target: fg(223, 130, none),
        rejected: fg(246, 242, dim),
        warning: fg(215, 130, bold),
        error: fg(210, 160, bold),
        selected: bg(237, 254, reversed),
        lit: bg(24, 153, reversed).add_modifier(bold),
        keyword: fg(147, 55, bold),
        // Of other hues than the marks of origin.
        literal: fg(181, 89, none),
        code: bg(235, 255, none),
    }
}

impl Styles {
    /// Accepted tokens in running text: bold is left to the text's own emphasis.
    pub fn accepted_text(&self) -> Style {
        self.accepted.remove_modifier(Modifier::BOLD).add_modifier(Modifier::UNDERLINED)
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
