//! The slash commands: one table for completion, help and dispatch. Those that show and set a value
//! come from the table of settings. Must never know the state that they change.

use std::sync::LazyLock;

use crate::nearest::nearest;
use crate::settings::{KEYS, SettingKey};

pub use super::actions::Action;

/// One command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlashCommand {
    /// Without the slash.
    pub name: &'static str,
    /// Other names, as other programs have them.
    pub aliases: &'static [&'static str],
    /// What follows it, for people; empty if nothing does.
    pub argument: &'static str,
    /// What it does, in a few words.
    pub help: &'static str,
    /// What it does.
    pub action: Action,
}

impl SlashCommand {
    /// The command that shows and sets `key`, if it has one.
    fn of_setting(key: &'static SettingKey) -> Option<Self> {
        let shown = key.command?;
        let name = shown.name.trim_start_matches('/');
        Some(command(name, shown.argument, shown.help, Action::Setting(key.name)))
    }

    const fn also(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// All its names, its own first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// The first of its names that begins like this.
    pub fn name_like(&self, begin: &str) -> Option<&'static str> {
        self.names().find(|name| name.starts_with(begin))
    }

    /// Whether `text` is the command without an argument, by any of its names.
    pub fn is_written_out(&self, text: &str) -> bool {
        text.strip_prefix('/').is_some_and(|word| self.names().any(|name| name == word))
    }
}

const fn command(
    name: &'static str,
    argument: &'static str,
    help: &'static str,
    action: Action,
) -> SlashCommand {
    SlashCommand { name, aliases: &[], argument, help, action }
}

use Action as A;

#[rustfmt::skip] // A row per command.
const BEFORE_SETTINGS: &[SlashCommand] = &[
    command("help", "", "show keys and commands", A::Help),
    command("new", "", "start a new conversation, save this one", A::New).also(&["clear"]),
    command("load", "[name]", "open a saved conversation", A::Sessions),
    command("save", "", "save now (every answer is saved anyway)", A::Save),
    command("sessions", "", "find, rename or delete conversations", A::Sessions),
    command("editor", "", "write the message in $VISUAL or $EDITOR", A::Editor),
    command("file", "PATH", "add a text file to the message", A::File),
    command("export", "FILE", "save as .md, .json, .jsonl or .html", A::Export),
    command("import", "FILE", "read a conversation from .md, .json or .jsonl", A::Import),
    command("preset", "[NAME|save NAME]", "system prompt and sampler, by name", A::Preset),
    command("regenerate", "", "answer the last question again", A::Regenerate)
        .also(&["retry"]),
    command("continue", "", "continue an answer that was cut off", A::GoOn),
    command("edit", "", "edit an earlier message", A::EditQuestion),
    command("branch", "", "branch off from an earlier message", A::Branch),
    command("tree", "", "show the branches of this conversation", A::Branches),
    command("delete", "", "delete the last question and answer", A::DeleteExchange),
    command("undo", "", "restore what was deleted", A::Undelete),
    command("when-full", "[forget|summarise|stop|ask]", "what a full context does", A::WhenFull),
    command("copy", "[N|code [N]]", "copy the last answer, message N or code", A::Copy),
    command("find", "[words]", "find words; alone, the match above", A::Find),
];

#[rustfmt::skip]
const AFTER_SETTINGS: &[SlashCommand] = &[
    command("compare", "MODEL", "ask another model the last question too", A::Compare),
    command("race", "", "race the last answer against plain decoding", A::Race),
    command("pause", "", "pause after every round, or resume", A::Pause),
    command("stats", "", "show what was loaded and chosen, and why", A::Details),
    command("quit", "", "save and quit", A::Quit).also(&["exit"]),
];

/// All commands, in the order of the help.
pub static COMMANDS: LazyLock<Vec<SlashCommand>> = LazyLock::new(|| {
    let mut all = BEFORE_SETTINGS.to_vec();
    all.extend(KEYS.iter().filter_map(SlashCommand::of_setting));
    all.extend_from_slice(AFTER_SETTINGS);
    all
});

/// The command that `text` is, without its slash; `None` for a message. One that begins with a
/// path, `/etc/hosts is what?`, is a message.
pub fn command_in(text: &str) -> Option<&str> {
    let line = text.trim_end().strip_prefix('/')?;
    let word = line.split(char::is_whitespace).next().unwrap_or_default();
    (!word.contains('/')).then_some(line)
}

/// What the user typed after a slash: the command and its argument.
///
/// # Errors
/// There is no such command; names the nearest.
pub fn parse(line: &str) -> Result<(&'static SlashCommand, &str), String> {
    let (word, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    let exact = COMMANDS.iter().find(|command| command.names().any(|name| name == word));
    let mut begun = COMMANDS.iter().filter_map(|command| Some((command, command.name_like(word)?)));
    let command = match (exact, begun.next(), begun.next()) {
        (Some(command), _, _) => command,
        (None, Some((only, _)), None) if !word.is_empty() => only,
        (None, Some((_, first)), Some((_, second))) if !word.is_empty() => {
            return Err(format!("/{word} could be /{first} or /{second}: type more of it"));
        }
        _ => return Err(unknown(word)),
    };
    let SlashCommand { name, argument: wanted, help, .. } = command;
    match (*wanted, argument) {
        ("", argument) if !argument.is_empty() => Err(format!("/{name} takes nothing after it")),
        // What may be left out is in brackets.
        (wanted, "") if wanted.starts_with(char::is_uppercase) => {
            Err(format!("/{name} {wanted}: {help}"))
        }
        _ => Ok((command, argument)),
    }
}

/// There is no such command: the nearest one, if one is near, and how to say it to the model.
fn unknown(word: &str) -> String {
    let names = COMMANDS.iter().flat_map(SlashCommand::names);
    let remedy = match nearest(word, names, 0.6) {
        Some(near) => format!("did you mean /{near}?"),
        None => "/help lists all commands.".to_string(),
    };
    let word: String = word.chars().take(40).collect();
    format!("No command /{word}: {remedy} To send it as a message, type a space before it")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn command_named(name: &str) -> &'static SlashCommand {
        COMMANDS.iter().find(|command| command.name == name).unwrap()
    }

    #[test]
    fn names_are_unique_and_may_be_shortened() {
        let mut names = BTreeSet::new();
        for command in COMMANDS.iter() {
            for name in command.names() {
                let required = command.argument.starts_with(char::is_uppercase);
                let line = if required { format!("{name} it") } else { name.to_string() };
                assert_eq!(parse(&line).unwrap().0, command);
                assert!(names.insert(name), "{name}");
            }
        }
        assert_eq!(parse("ga 8").unwrap(), (command_named("gamma"), "8"));
        assert_eq!(parse("system  Be brief. ").unwrap().1, "Be brief.");
        // The names of other programs work too.
        for (typed, name) in
            [("clear", "new"), ("exit", "quit"), ("retry", "regenerate"), ("cl", "new")]
        {
            assert_eq!(parse(typed).unwrap().0, command_named(name), "{typed}");
        }
    }

    #[test]
    fn a_path_is_no_command() {
        assert_eq!(command_in("/gamma 8 "), Some("gamma 8"));
        assert_eq!(command_in("/export /tmp/a.md"), Some("export /tmp/a.md"));
        for message in ["/etc/hosts is what?", "/usr/bin/", "//", "hello", " /quit"] {
            assert_eq!(command_in(message), None, "{message}");
        }
    }

    #[test]
    fn errors_name_a_remedy() {
        for (typed, says) in [
            ("foo", "/help lists all commands. To send it as a message, type a space before it"),
            ("gama 3", "did you mean /gamma?"),
            ("s", "/save or /sessions"),
            ("quit now", "/quit takes nothing"),
            ("file", "/file PATH: add a text file to the message"),
            ("ex", "/export or /exit"),
            // Two names of one command are not two commands.
            ("re", "/re could be /regenerate or /repetition-penalty: type more of it"),
        ] {
            let why = parse(typed).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
    }
}
