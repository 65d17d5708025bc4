//! Themes, and screens without colours.

use ratatui::style::{Color, Modifier};

use super::{answering, check, check_styles};
use crate::tui::tests::drawn;
use crate::tui::theme::ThemeName;

#[test]
fn other_themes() {
    let mut state = answering(120, 40, 16);
    state.display.theme = ThemeName::Light;
    check("light_120", &mut state);
    let mut state = answering(120, 40, 16);
    state.display.theme = ThemeName::Mono;
    check("mono_120", &mut state);
}

#[test]
fn without_colours_origin_is_still_marked() {
    let mut state = answering(80, 24, 16);
    state.display.colours = false;
    let buffer = drawn(&mut state);
    assert!(buffer.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(buffer.content.iter().any(|cell| cell.modifier.contains(Modifier::UNDERLINED)));
    check_styles("no_color_80", &buffer);
    state.display.marks = false;
    let buffer = drawn(&mut state);
    assert!(!buffer.content.iter().any(|cell| cell.modifier.contains(Modifier::UNDERLINED)));
}
