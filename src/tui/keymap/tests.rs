use std::collections::BTreeSet;

use super::*;
use crate::tui::display::Focus;
use crate::tui::state::ScreenState;

#[test]
fn the_keys_of_the_table_do_not_collide_and_swallow_no_character() {
    for scope in Scope::ALL {
        let rows = BINDINGS.iter().filter(|row| row.scope == scope);
        let keys: Vec<KeyPress> = rows.flat_map(|row| row.keys).copied().collect();
        let writing = matches!(scope, S::Input | S::Global | S::Completion);
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[index + 1..].contains(key), "{scope:?}: {}", key.name());
            assert!(!writing || !key.writes(), "{} would swallow a character", key.name());
        }
    }
    let names: BTreeSet<&str> = BINDINGS.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), BINDINGS.len());
    let stands = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    assert!(names.iter().all(|name| name.chars().all(stands)), "TOML takes them");
}

#[test]
fn every_key_is_in_the_help() {
    for row in BINDINGS {
        let help = help(&Keymap::default(), row.scope);
        for key in row.keys {
            let name = key.name();
            let helped = help.iter().any(|row| !row.words.is_empty() && row.keys.contains(&name));
            assert!(helped, "{:?}: {name} is not in the help", row.scope);
        }
    }
}

#[test]
fn hints_are_keys_of_their_scope() {
    let mut state = crate::tui::tests::loaded(80, 24);
    for focus in [Focus::Input, Focus::Chat, Focus::Tree, Focus::Meters, Focus::Controls] {
        state.display.focus = focus;
        let hints = hints(&state);
        assert!(hints.len() >= 4, "{focus:?}: {hints:?}");
        assert!(hints.iter().any(|hint| hint.1 == "help"), "{focus:?}: {hints:?}");
    }
}

#[test]
fn how_to_quit_stands_on_the_key_line_while_the_key_does_that() {
    let quits = |state: &ScreenState| hints(state).contains(&("Ctrl+C".to_string(), "quit"));
    let mut state = crate::tui::tests::loaded(80, 24);
    assert!(quits(&state));
    state.input.set("half");
    assert!(!quits(&state) && hints(&state).contains(&("Ctrl+Q".to_string(), "quit")));
    state.input.set("");
    crate::tui::tests::type_keys(&mut state, "one<enter>");
    assert!(state.answering() && !quits(&state));
}

fn with(changes: &[(&str, &[&str])]) -> Result<Keymap, (usize, String)> {
    let owned = |keys: &[&str]| keys.iter().map(|key| (*key).to_string()).collect::<Vec<_>>();
    let keys: Vec<Vec<String>> = changes.iter().map(|(_, keys)| owned(keys)).collect();
    let changes = changes.iter().zip(&keys).map(|((name, _), keys)| (*name, keys.as_slice()));
    Keymap::with(&changes.collect::<Vec<_>>())
}

#[test]
fn keys_are_read_as_they_are_named() {
    // Every key of the table, by the name that people read.
    for row in BINDINGS {
        for key in row.keys {
            let arrows = [("↑", "up"), ("↓", "down"), ("←", "left"), ("→", "right")];
            let name =
                arrows.iter().fold(key.name(), |name, (sign, word)| name.replace(sign, word));
            assert_eq!(KeyPress::parse(&name), Ok(*key), "{name}");
        }
    }
    assert_eq!(KeyPress::parse("CTRL+ALT+F5").unwrap().name(), "Ctrl+Alt+F5");
    assert_eq!(KeyPress::parse("shift+g").unwrap().name(), "G");
    assert_eq!(KeyPress::parse("ctrl++").unwrap().name(), "Ctrl++");
    for wrong in ["", "ctrl+", "hyper+x", "f99", "enterr", "ctrl+shift+x", "ctrl+i", "ctrl+["] {
        let why = KeyPress::parse(wrong).unwrap_err();
        assert!(why.contains(&format!("\"{wrong}\"")), "{why}");
    }
}

#[test]
fn a_change_is_in_force_everywhere() {
    let mut state = crate::tui::tests::loaded(80, 24);
    state.display.keys = with(&[("help", &["ctrl+h", "f1"]), ("layout", &["alt+t"])]).unwrap();
    let does = |key: &str| lookup(&state, &KeyPress::parse(key).unwrap().event());
    assert_eq!(does("ctrl+h"), Some(A::Help));
    assert_eq!(does("f1"), Some(A::Help));
    assert_eq!((does("alt+t"), does("f2")), (Some(A::Layout), None));
    assert!(hints(&state).contains(&("Ctrl+H".to_string(), "help")));
    let helped = help(&state.display.keys, S::Global);
    let layout = helped.iter().find(|row| row.names == ["layout"]).unwrap();
    assert_eq!(layout.keys, ["Alt+T"]);
    assert_eq!(state.display.keys.name(A::Layout), "Alt+T");
}

#[test]
fn two_actions_may_change_places() {
    let swapped = with(&[("copy", &["ctrl+o"]), ("thoughts", &["ctrl+y"])]).unwrap();
    assert_eq!(swapped.name(A::Copy), "Ctrl+O");
    // Panels have letters of their own.
    with(&[("panel_pause", &["z"]), ("tree_fold", &["x"]), ("panel_strategy_up", &["v"])]).unwrap();
}

#[test]
fn what_is_wrong_is_named_with_its_remedy() {
    for (name, keys, says) in [
        ("helpp", &["f1"][..], "did you mean `help`?"),
        ("zzzzzz", &["f1"], "dovetail help keys"),
        ("help", &["ctlr+h"], "is not a key; write ctrl+x"),
        ("help", &[], "at least one key"),
        ("help", &["ctrl+y"], "Ctrl+Y is already `copy`"),
        // A nearer scope would hide it.
        ("help", &["enter"], "Enter is already `send`"),
        ("panel_pause", &["f"], "f is already `tree_fold`"),
        ("help", &["h"], "without ctrl or alt"),
    ] {
        let why = with(&[(name, keys)]).unwrap_err().1;
        assert!(why.contains(says), "{why}");
    }
    let place = with(&[("copy", &["f3"]), ("meters", &["f10"]), ("quit", &["f10"])]).unwrap_err().0;
    assert_eq!(place, 1, "the first of the two that collide");
}
