use super::*;
use crate::tui::display::Focus;
use crate::tui::state::ScreenState;
use crossterm::event::KeyCode;

#[test]
fn no_key_has_two_actions_in_one_scope() {
    for scope in Scope::ALL {
        let keys: Vec<KeyPress> = BINDINGS
            .iter()
            .filter(|row| row.scope == scope)
            .flat_map(|row| row.keys.iter().copied())
            .collect();
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[index + 1..].contains(key), "{scope:?}: {}", key.name());
        }
    }
}

#[test]
fn keys_that_write_are_never_taken_while_writing() {
    for row in BINDINGS {
        if matches!(row.scope, S::Input | S::Global | S::Completion) {
            for key in row.keys {
                assert!(
                    !matches!(key.code, KeyCode::Char(_)) || !key.modifiers.is_empty(),
                    "{} would swallow a character",
                    key.name()
                );
            }
        }
    }
}

#[test]
fn every_key_is_in_the_help_and_in_the_table() {
    let table = markdown_table();
    for row in BINDINGS {
        let help = help(&Keymap::default(), row.scope);
        for key in row.keys {
            let name = key.name();
            let helped = help.iter().any(|row| !row.words.is_empty() && row.keys.contains(&name));
            assert!(helped, "{:?}: {name} is not in the help", row.scope);
            assert!(table.contains(&format!("`{name}`")), "{name} is not in the table");
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
    let owned: Vec<(&str, Vec<String>)> = changes
        .iter()
        .map(|(name, keys)| (*name, keys.iter().map(|key| (*key).to_string()).collect()))
        .collect();
    let borrowed: Vec<(&str, &[String])> =
        owned.iter().map(|(name, keys)| (*name, keys.as_slice())).collect();
    Keymap::with(&borrowed)
}

fn problem(changes: &[(&str, &[&str])]) -> String {
    with(changes).unwrap_err().1
}

#[test]
fn names_are_unlike_each_other_and_can_stand_in_toml() {
    let mut names: Vec<&str> = BINDINGS.iter().map(|row| row.name).collect();
    assert!(
        names
            .iter()
            .flat_map(|name| name.chars())
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    );
    names.sort();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
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
    state.display.keys = with(&[("help", &["ctrl+h", "f1"]), ("tree", &["alt+t"])]).unwrap();
    let does = |key: &str| lookup(&state, &KeyPress::parse(key).unwrap().event());
    assert_eq!(does("ctrl+h"), Some(A::Help));
    assert_eq!(does("f1"), Some(A::Help));
    assert_eq!((does("alt+t"), does("f2")), (Some(A::Tree), None));
    assert!(hints(&state).contains(&("Ctrl+H".to_string(), "help")));
    let helped = help(&state.display.keys, S::Global);
    let tree = helped.iter().find(|row| row.names == ["tree"]).unwrap();
    assert_eq!(tree.keys, ["Alt+T"]);
    assert_eq!(state.display.keys.name(A::Tree), "Alt+T");
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
    assert!(problem(&[("helpp", &["f1"])]).contains("did you mean `help`?"));
    assert!(problem(&[("zzzzzz", &["f1"])]).contains("dovetail help keys"));
    assert!(problem(&[("help", &["ctlr+h"])]).contains("is not a key; write ctrl+x"));
    assert!(problem(&[("help", &[])]).contains("at least one key"));
    let taken = problem(&[("help", &["ctrl+y"])]);
    assert!(taken.contains("Ctrl+Y is already `copy`"), "{taken}");
    // A nearer scope would hide it.
    assert!(problem(&[("help", &["enter"])]).contains("Enter is already `send`"));
    assert!(
        problem(&[("panel_pause", &["f"])]).contains("F is already `tree_fold`")
            || problem(&[("panel_pause", &["f"])]).contains("f is already `tree_fold`")
    );
    assert!(problem(&[("help", &["h"])]).contains("without ctrl or alt"));
    let place = with(&[("copy", &["f3"]), ("meters", &["f10"]), ("quit", &["f10"])]).unwrap_err().0;
    assert_eq!(place, 1, "the first of the two that collide");
}
