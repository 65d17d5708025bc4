//! Tests that the commands of README and guide and flags are those of the command line.

use std::collections::BTreeSet;

use clap::{Command, CommandFactory, Parser};

use super::args::Cli;
use crate::guide::{TOPICS, Topic};

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
