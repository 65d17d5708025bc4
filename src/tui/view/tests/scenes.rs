//! Screens that keys lead to.

use ratatui::style::{Color, Modifier};

use super::{answering, check, check_styles};
use crate::settings::Layout;
use crate::tui::display::Marks;
use crate::tui::state::ScreenState;
use crate::tui::tests::{answer, drawn, loaded, say_all, type_keys};
use crate::tui::theme::ThemeName;
use crate::worker::Event;

#[test]
fn keys_lead_to_these_screens() {
    const WITHOUT: Option<usize> = None;
    const ANSWER: Option<usize> = Some(16);
    const LARGE_TREES: Option<usize> = Some(64);
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
        ("details_80", 80, 24, ANSWER, "/stats<enter>"),
        ("strategies_80", 80, 24, ANSWER, "<c-p><down>"),
        ("models_searching_80", 80, 24, ANSWER, "<esc><c-n>"),
        ("meters_80", 80, 24, ANSWER, "<f3>"),
        ("controls_80", 80, 24, ANSWER, "<f3>|<f4><tab><down><right>"),
        ("look_back_120", 120, 40, ANSWER, "<f5><f2><tab><left><left>"),
        // The words of the round that is looked at stand out.
        ("lit_80", 80, 24, ANSWER, "<f2><tab><left><left><left>"),
        ("tree_120", 120, 40, LARGE_TREES, "<f2><tab>"),
        ("tree_all_120", 120, 40, LARGE_TREES, "<f2><tab>|f<pgdn>"),
    ] {
        let mut state =
            trees.map_or_else(|| loaded(width, height), |nodes| answering(width, height, nodes));
        look(&mut state, keys);
        check(name, &mut state);
    }
}

/// Types keys; where there is a bar, and before the first, a frame is drawn.
fn look(state: &mut ScreenState, keys: &str) {
    for keys in keys.split('|') {
        drawn(state);
        type_keys(state, keys);
    }
}

#[test]
fn answers_lead_to_these_screens() {
    const TOO_LONG: &str = "The prompt has 3,120 tokens, but the context of dovetail-demo 6M holds \
        2,048. Shorten it, or begin anew with /new.";
    const WIDE: &str = "狐は 海辺 の小さな家に 住んでいました。 毎晩、灯りをともして、 船を待ちました。 🦊🏮 \
        それから、 とても 長い夜が 来ました。 cafe\u{301} ok";
    const CODE: &str = "Here it is:\n\n```rust\nfn main() {\n    let x = 42; // the answer\n    \
        println!(\"{x}\");\n}\n```\n\nAnd a quote:\n\n> Everything is real.\n\n1. one\n2. two\n3. \
        three\n4. four\n5. five";
    let reading = vec![Event::Prefill { generation: 1, done: 600, total: 1800 }];
    let failed = vec![Event::Failed { generation: Some(1), error: TOO_LONG.to_string() }];
    let code = answer(1, CODE, 16);
    let mut wide = answer(1, WIDE, 16);
    wide.pop();
    for (name, question, events, keys) in [
        ("prefill_80", "A long question", reading, ""),
        ("error_80", "Hello", failed, ""),
        ("code_80", "Show code", code.clone(), "<pgup>"),
        ("code_unmarked_80", "Show code", code, "<pgup>|<f9><c-end>"),
        ("wide_80", "日本語で答えて 👩‍👩‍👧 e\u{301}", wide, "<f2>漢字もここに書けます👍"),
    ] {
        let mut state = loaded(80, 24);
        type_keys(&mut state, &format!("{question}<enter>"));
        say_all(&mut state, events);
        look(&mut state, keys);
        check(name, &mut state);
    }
}

#[test]
fn without_a_theme() {
    let mut state = answering(120, 36, 16);
    state.display.theme = ThemeName::Mono;
    check_styles("mono_120", &drawn(&mut state));
}

#[test]
fn layouts() {
    for (width, height) in [(80, 24), (120, 36), (200, 50)] {
        for layout in [Layout::Chat, Layout::Tree, Layout::Lab] {
            let mut state = answering(width, height, 16);
            state.display.layout = Some(layout);
            let name = format!("layout_{}_{width}", layout.name());
            check(&name, &mut state);
        }
    }
    // The lab has every colour of the others.
    let mut state = answering(120, 36, 16);
    state.display.layout = Some(Layout::Lab);
    state.display.theme = ThemeName::Light;
    check_styles("layout_lab_120_light", &drawn(&mut state));
}

#[test]
fn without_colours_origin_is_still_marked() {
    let mut state = answering(80, 24, 16);
    state.display.colours = false;
    let buffer = drawn(&mut state);
    assert!(buffer.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(buffer.content.iter().any(|cell| cell.modifier.contains(Modifier::UNDERLINED)));
    check_styles("no_color_80", &buffer);
    state.display.marks = Marks::Never;
    let buffer = drawn(&mut state);
    assert!(!buffer.content.iter().any(|cell| cell.modifier.contains(Modifier::UNDERLINED)));
}
