//! The tables of the guide that come from tables in the code, and what has to agree with them.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{CommandFactory, Parser};

use super::args::Cli;
use crate::model::ARCHITECTURES;
use crate::plan::Strategy;
use crate::settings::{KEYS, SettingKey};
use crate::tui::commands::{COMMANDS, SlashAction};
use crate::tui::keymap::{self, BINDINGS};

fn settings() -> String {
    // Two columns, so that a row also reads well in a narrow terminal.
    let mut table = String::from("| Key | What it sets |\n|---|---|\n");
    for key in KEYS {
        let SettingKey { name, what, more, default, flag, live, .. } = key;
        let what = format!("{what}. {more}");
        let mut cell = format!("{} Values: {}. ", what.trim_end(), key.values());
        cell += &format!("Default: {default}.");
        let flag = flag.map_or("", |flag| flag.name);
        for (title, name) in [("Flag", flag), ("In the chat", *live)] {
            if !name.is_empty() {
                cell += &format!(" {title}: `{name}`.");
            }
        }
        table += &format!("| `{name}` | {cell} |\n");
    }
    table
}

fn architectures() -> String {
    let mut table = String::from("| Architecture | GGUF | safetensors |\n|---|---|---|\n");
    for row in ARCHITECTURES {
        table += &format!("| {} | `{}` | `{}` |\n", row.title, row.gguf, row.model_type);
    }
    table
}

/// The page with `table` in the place of the one that has the same head.
fn with_table(page: &str, table: &str) -> Option<String> {
    let head = table.lines().next()?;
    let begin = page.find(&format!("{head}\n"))?;
    let rows = page[begin..].split_inclusive('\n').take_while(|line| line.starts_with('|'));
    let end = begin + rows.map(str::len).sum::<usize>();
    Some(format!("{}{table}{}", &page[..begin], &page[end..]))
}

#[test]
fn the_tables_of_the_guide_are_those_of_the_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/docs");
    let rewrite = std::env::var_os("UPDATE_GUIDE").is_some();
    for (name, table) in [
        ("settings", settings()),
        ("keys", keymap::markdown_table()),
        ("architectures", architectures()),
        ("strategies", Strategy::markdown_table()),
    ] {
        let path = folder.join(format!("{name}.md"));
        let page = std::fs::read_to_string(&path).unwrap();
        let head = table.lines().next().unwrap();
        let updated = with_table(&page, &table);
        let updated = updated.unwrap_or_else(|| panic!("{name}.md has no table {head}"));
        if updated == page {
            continue;
        }
        assert!(rewrite, "{name}.md differs from the code; UPDATE_GUIDE=1 rewrites it");
        std::fs::write(&path, updated).unwrap();
    }
}

#[test]
fn a_table_is_put_in_the_place_of_the_old_one() {
    let page = "# A\n\n| x |\n|---|\n| 1 |\n\nAfter.\n";
    let want = "# A\n\n| x |\n|---|\n| 2 |\n| 3 |\n\nAfter.\n";
    assert_eq!(with_table(page, "| x |\n|---|\n| 2 |\n| 3 |\n").as_deref(), Some(want));
    assert_eq!(with_table(page, "| y |\n"), None);
}

#[test]
fn flags_agree_with_the_table_of_settings() {
    let command = Cli::command();
    let mut all = vec!["dovetail"];
    for (key, flag) in KEYS.iter().filter_map(|key| Some((key, key.flag?.name))) {
        let name = flag.trim_start_matches('-');
        let arg = command.get_arguments().find(|arg| arg.get_long() == Some(name));
        let arg = arg.unwrap_or_else(|| panic!("{flag} is not a flag of the chat"));
        // A flag with an optional value takes it after `=`.
        let valued = arg.get_action().takes_values() && !arg.is_require_equals_set();
        let words = if valued { vec![flag, "x"] } else { vec![flag] };
        let given = Cli::try_parse_from([&["dovetail"][..], &words].concat()).unwrap();
        let set = given.chat.overrides();
        let names: Vec<(&str, &str)> = set.iter().map(|set| (set.flag, set.key)).collect();
        assert_eq!(names, [(flag, key.name)]);
        all.extend(words);
    }
    let flags = KEYS.iter().filter(|key| key.flag.is_some()).count();
    let set = Cli::try_parse_from(all).unwrap().chat.overrides();
    assert_eq!(set.iter().map(|set| set.key).collect::<BTreeSet<_>>().len(), flags);
    assert!(KEYS.iter().all(|key| !key.what.is_empty() && !key.default.is_empty()));
}

#[test]
fn commands_and_keys_agree_with_the_table_of_settings() {
    for key in KEYS.iter().filter(|key| !key.live.is_empty()) {
        let known = match key.live.strip_prefix('/') {
            Some(name) => COMMANDS.iter().any(|command| command.name == name),
            None => BINDINGS.iter().flat_map(|row| row.keys).any(|key_| key_.name() == key.live),
        };
        assert!(known, "{}: there is no {}", key.name, key.live);
    }
    for command in COMMANDS.iter() {
        let live = format!("/{}", command.name);
        let named = |name: &str| SettingKey::named(name).is_some_and(|key| key.live == live);
        if let SlashAction::Setting(key) = command.action {
            assert!(named(key), "{live} sets {key}");
        }
    }
}
