//! The command line agrees with README, guide and the tables in the code.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Command, CommandFactory, Parser};

use super::args::Cli;
use crate::guide::{TOPICS, Topic};
use crate::model::{ARCHITECTURES, CANDLE_CHECKPOINTS};
use crate::plan::{DrafterId, STRATEGIES, Strategy};
use crate::settings::{KEYS, SettingKey};
use crate::tui::commands::{Action, COMMANDS};
use crate::tui::keymap::{self, BINDINGS, Keymap, Scope};

/// The README and the pages of the guide.
fn texts() -> Vec<&'static str> {
    let pages = TOPICS.iter().map(|topic| topic.text);
    [include_str!("../../README.md")].into_iter().chain(pages).collect()
}

/// Flags of cargo that the README names.
const CARGO: [&str; 3] = ["release", "features", "path"];

/// The lines of a text's shell blocks without their comments.
fn shell_lines(text: &str) -> Vec<&str> {
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines);
    lines.filter_map(|line| line.split("  #").next()).map(str::trim).collect()
}

/// Commands of the program within a pipeline, or in a code span.
fn commands(text: &str) -> Vec<Vec<String>> {
    let spans = text.split('`').skip(1).step_by(2).filter(|span| !span.contains('\n'));
    let all = shell_lines(text).into_iter().flat_map(|line| line.split('|')).chain(spans);
    all.map(str::trim).filter(|command| command.starts_with("dovetail ")).map(words).collect()
}

/// A command's words; double quotes hold them together.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (index, part) in command.split('"').enumerate() {
        if index % 2 == 1 {
            words.last_mut().unwrap().push_str(part);
            continue;
        }
        for (index, word) in part.split(' ').enumerate() {
            if index > 0 {
                words.push(String::new());
            }
            // A number in an example.
            let word = if word == "N" { "7" } else { word };
            words.last_mut().unwrap().push_str(word);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn flags(command: &Command, all: &mut BTreeSet<String>) {
    all.extend(command.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned));
    for command in command.get_subcommands() {
        flags(command, all);
    }
}

#[test]
fn every_command_parses() {
    let commands: Vec<_> = texts().into_iter().flat_map(commands).collect();
    assert!(commands.len() >= 10, "{commands:?}");
    for command in commands {
        // A command may be named without what it needs.
        let bare = command.len() == 2 && Cli::command().find_subcommand(&command[1]).is_some();
        if !bare && let Err(error) = Cli::try_parse_from(&command) {
            panic!("{command:?}: {error}");
        }
    }
}

#[test]
fn every_topic_that_is_named_exists() {
    let commands = texts().into_iter().flat_map(commands);
    let mut seen = 0;
    for command in commands.filter(|command| command[1] == "help" && command.len() > 2) {
        let name = &command[2];
        let known = Topic::named(name).is_some() || Cli::command().find_subcommand(name).is_some();
        assert!(known, "there is no topic {name}");
        seen += 1;
    }
    assert!(seen > 0);
}

#[test]
fn every_flag_exists() {
    let mut known: BTreeSet<String> = CARGO.map(str::to_owned).into();
    flags(&Cli::command(), &mut known);
    let mut seen = 0;
    for (text, (at, _)) in texts()
        .into_iter()
        .flat_map(|text| text.match_indices("--").map(move |found| (text, found)))
    {
        let free = !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '-');
        let rest = &text[at + 2..];
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(rest.len());
        let flag = &rest[..end];
        if free && flag.starts_with(|c: char| c.is_ascii_lowercase()) {
            assert!(known.contains(flag), "the guide names --{flag}, which does not exist");
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen}");
}

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

fn candle_architectures() -> String {
    let mut table = String::from("| Family | safetensors |\n|---|---|\n");
    for row in CANDLE_CHECKPOINTS {
        table += &format!("| {} | `{}` |\n", row.title, row.model_type);
    }
    table
}

/// The keys in force unless the settings change them, and the names by which they do.
fn keys() -> String {
    let code = |words: &[String]| {
        words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" ")
    };
    let mut table =
        String::from("| Where | Key | What it does | In `[keys]` |\n|---|---|---|---|\n");
    for scope in Scope::ALL {
        for row in keymap::help(&Keymap::default(), scope) {
            let names: Vec<String> = row.names.iter().map(ToString::to_string).collect();
            let keys = code(&row.keys);
            table +=
                &format!("| {} | {keys} | {} | {} |\n", scope.title(), row.words, code(&names));
        }
    }
    table
}

fn strategies() -> String {
    let mut table = String::from("| Name | What it does | Needs | From |\n|---|---|---|---|\n");
    for Strategy { name, summary, origin, draft, gpu_layers, streamed, .. } in STRATEGIES {
        let needs = match draft {
            DrafterId::Head if *gpu_layers => "a draft head and a GPU",
            _ if *gpu_layers || *streamed => "a GPU",
            DrafterId::Head => "a draft head",
            DrafterId::Dflash => "a DFlash drafter",
            DrafterId::SmallModel => "a small model",
            DrafterId::Retrieval => "a text (`--rest-text`)",
            _ => "",
        };
        table += &format!("| `{name}` | {summary} | {needs} | {origin} |\n");
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
        ("keys", keys()),
        ("architectures", architectures()),
        ("architectures", candle_architectures()),
        ("strategies", strategies()),
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
        if let Action::Setting(key) = command.action {
            assert!(named(key), "{live} sets {key}");
        }
    }
}
