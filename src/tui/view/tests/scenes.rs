//! Screens that keys lead to.

use ratatui::style::{Color, Modifier};

use super::{answering, check, check_styles};
use crate::tui::tests::{drawn, loaded, type_keys};
use crate::tui::theme::ThemeName;

#[test]
fn keys_lead_to_these_screens() {
    const WITHOUT: Option<usize> = None;
    const ANSWER: Option<usize> = Some(16);
    const LARGE_TREES: Option<usize> = Some(64);
    // A bar stands where a frame is drawn before the next key.
    for (name, width, height, trees, keys) in [
        ("empty_80", 80, 24, WITHOUT, ""),
        ("empty_120", 120, 40, WITHOUT, ""),
        ("empty_200", 200, 50, WITHOUT, ""),
        ("suggestions_80", 80, 24, WITHOUT, "/s<down>"),
        ("complaint_80", 80, 24, WITHOUT, "/gamma 999<enter>"),
        ("help_40", 40, 24, WITHOUT, "<f1>"),
        ("help_80", 80, 24, WITHOUT, "<f1>"),
        ("help_200", 200, 50, WITHOUT, "<f1>"),
        ("tiny_30x8", 30, 8, ANSWER, ""),
        ("answer_80", 80, 24, ANSWER, ""),
        ("answer_120", 120, 40, ANSWER, ""),
        ("answer_200", 200, 50, ANSWER, ""),
        ("details_80", 80, 24, ANSWER, "/stats<enter>"),
        ("strategies_80", 80, 24, ANSWER, "<c-p><down>"),
        ("models_searching_80", 80, 24, ANSWER, "<esc><c-n>"),
        ("meters_80", 80, 24, ANSWER, "<f3>"),
        ("controls_80", 80, 24, ANSWER, "<f3>|<f4><tab><down><right>"),
        ("look_back_120", 120, 40, ANSWER, "<f5><f2><tab><left><left>"),
        // The words of the round that is looked at stand out.
        ("lit_80", 80, 24, ANSWER, "<f2><tab><left><left><left>"),
        ("tree_80", 80, 24, LARGE_TREES, "<f2>"),
        ("tree_120", 120, 40, LARGE_TREES, "<f2><tab>"),
        ("tree_all_120", 120, 40, LARGE_TREES, "<f2><tab>|f<pgdn>"),
    ] {
        let mut state =
            trees.map_or_else(|| loaded(width, height), |nodes| answering(width, height, nodes));
        for keys in keys.split('|') {
            drawn(&mut state);
            type_keys(&mut state, keys);
        }
        check(name, &mut state);
    }
}

#[test]
fn other_themes() {
    for (name, theme) in [("light_120", ThemeName::Light), ("mono_120", ThemeName::Mono)] {
        let mut state = answering(120, 40, 16);
        state.display.theme = theme;
        check(name, &mut state);
    }
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
