use super::*;

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
        let help = help(row.scope);
        for key in row.keys {
            let name = key.name();
            let helped = help.iter().any(|(keys, words)| {
                !words.is_empty() && keys.split_whitespace().any(|key| key == name)
            });
            assert!(helped, "{:?}: {name} is not in the help", row.scope);
            assert!(table.contains(&format!("`{name}`")), "{name} is not in the table");
        }
    }
}

#[test]
fn hints_are_keys_of_their_scope() {
    let mut state = crate::tui::testing::loaded(80, 24);
    for focus in [Focus::Input, Focus::Chat, Focus::Tree, Focus::Meters, Focus::Controls] {
        state.focus = focus;
        let hints = hints(&state);
        assert!(hints.len() >= 4, "{focus:?}: {hints:?}");
        assert!(hints.iter().any(|hint| hint.1 == "help"), "{focus:?}: {hints:?}");
    }
}

#[test]
fn the_readme_has_the_table() {
    let readme = include_str!("../../../README.md");
    let table = markdown_table();
    assert!(readme.contains(&table), "put this into README.md, under Keys:\n\n{table}");
}
