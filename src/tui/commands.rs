//! The slash commands: one table for completion, help and dispatch. Must never know the state that
//! they change.

use super::actions::{Action, Dial, ModelPart};

/// What a command does; its argument is given when it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlashAction {
    /// The same as a key.
    Key(Action),
    /// Sets a dial: a number or `auto`.
    Dial(Dial),
    /// Sets a key of the settings for this run.
    Setting(&'static str),
    /// Sets the system prompt.
    System,
    /// Begins a new conversation.
    New,
    /// Lists saved conversations, or loads the one named.
    Load,
    /// Saves now.
    Save,
    /// What is done when the context is full.
    WhenFull,
    /// Copies the last answer, another message, or code of the answer.
    Copy,
    /// Looks for words in the conversation.
    Find,
    /// Puts a file into the message.
    File,
    /// Writes the conversation to a file.
    Export,
    /// Reads one from a file.
    Import,
    /// Takes, keeps or lists presets.
    Preset,
    /// Switches the colours.
    Theme,
    /// Switches speculation.
    Speculate,
    /// Shows or folds thoughts, or switches them.
    Think,
    /// Takes a strategy, or lists them.
    Strategy,
    /// Lists models to choose from, those first whose names have these words.
    Models(ModelPart),
    /// Switches drafting while the target verifies.
    Overlap,
    /// Switches ranking with the target's noise.
    Coupled,
    /// Whether the mouse is the program's.
    Mouse,
}

/// One command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlashCommand {
    /// Without the slash.
    pub name: &'static str,
    /// What follows it, for people; empty if nothing does.
    pub argument: &'static str,
    /// What it does, in a few words.
    pub help: &'static str,
    /// What it does.
    pub action: SlashAction,
}

const fn command(
    name: &'static str,
    argument: &'static str,
    help: &'static str,
    action: SlashAction,
) -> SlashCommand {
    SlashCommand { name, argument, help, action }
}

/// All commands, in the order of the help.
pub const COMMANDS: &[SlashCommand] = &[
    command("help", "", "keys and commands", SlashAction::Key(Action::Help)),
    command("new", "", "a new conversation; this one stays saved", SlashAction::New),
    command("load", "[name]", "a saved conversation", SlashAction::Load),
    command("save", "", "save now (every answer is saved anyway)", SlashAction::Save),
    command(
        "sessions",
        "",
        "saved conversations: find, rename, delete",
        SlashAction::Key(Action::Sessions),
    ),
    command(
        "editor",
        "",
        "write the message in $VISUAL or $EDITOR",
        SlashAction::Key(Action::Editor),
    ),
    command("file", "PATH", "put a text file into the message", SlashAction::File),
    command("export", "FILE", "write this one to .md, .json or .jsonl", SlashAction::Export),
    command("import", "FILE", "read one from .md, .json or .jsonl", SlashAction::Import),
    command("preset", "[NAME|save NAME]", "system prompt and sampler by name", SlashAction::Preset),
    command("system", "[text]", "system prompt; without text, remove it", SlashAction::System),
    command(
        "regenerate",
        "",
        "answer the last question again",
        SlashAction::Key(Action::Regenerate),
    ),
    command(
        "continue",
        "",
        "go on with an answer that was cut off",
        SlashAction::Key(Action::GoOn),
    ),
    command("edit", "", "write one of your messages anew", SlashAction::Key(Action::EditQuestion)),
    command("branch", "", "go on from an earlier message", SlashAction::Key(Action::Branch)),
    command(
        "delete",
        "",
        "the last question and its answer",
        SlashAction::Key(Action::DeleteExchange),
    ),
    command("undo", "", "bring back what was deleted", SlashAction::Key(Action::Undelete)),
    command(
        "when-full",
        "forget|summarise|stop|ask",
        "what a full context does",
        SlashAction::WhenFull,
    ),
    command("copy", "[N|code [N]]", "the last answer, message N, or code", SlashAction::Copy),
    command("find", "[words]", "go to words; without, the match above", SlashAction::Find),
    command("gamma", "N|auto", "γ: most nodes of the draft tree", SlashAction::Dial(Dial::Gamma)),
    command("blocks", "N|auto", "M: blocks of the draft head", SlashAction::Dial(Dial::Blocks)),
    command("width", "N|auto", "k: width of the draft tree", SlashAction::Dial(Dial::Width)),
    command("depth", "N|auto", "D: depth of the draft tree", SlashAction::Dial(Dial::Depth)),
    command("temperature", "X", "0 is greedy", SlashAction::Setting("sampler.temperature")),
    command(
        "top-k",
        "N",
        "keep the N likeliest tokens; 0 keeps all",
        SlashAction::Setting("sampler.top_k"),
    ),
    command("top-p", "X", "keep this share of probability", SlashAction::Setting("sampler.top_p")),
    command(
        "min-p",
        "X",
        "keep tokens this near the likeliest",
        SlashAction::Setting("sampler.min_p"),
    ),
    command(
        "repetition-penalty",
        "X",
        "divide the logits of used tokens by X",
        SlashAction::Setting("sampler.repetition_penalty"),
    ),
    command("seed", "N", "one seed gives one text", SlashAction::Setting("sampler.seed")),
    command(
        "think",
        "[on|off|show|hide]",
        "thoughts: whether to have, to show them",
        SlashAction::Think,
    ),
    command(
        "max-tokens",
        "N|auto",
        "longest answer; auto is the room left in the context",
        SlashAction::Setting("max_tokens"),
    ),
    command("speculate", "[on|off]", "speculation; the text is the same", SlashAction::Speculate),
    command("strategy", "[name]", "how is drafted; without a name, a list", SlashAction::Strategy),
    command(
        "model",
        "[name]",
        "another model, in this chat",
        SlashAction::Models(ModelPart::Target),
    ),
    command("draft", "[name]", "another draft for it", SlashAction::Models(ModelPart::Draft)),
    command("overlap", "[on|off]", "draft on while the target verifies", SlashAction::Overlap),
    command("coupled", "[on|off]", "rank drafts with the target's noise", SlashAction::Coupled),
    command(
        "pace",
        "TIME",
        "least time a round: 0.5s, 500ms",
        SlashAction::Setting("controls.pace"),
    ),
    command(
        "race",
        "",
        "the last question plain and speculatively",
        SlashAction::Key(Action::Race),
    ),
    command("pause", "", "hold after every round, or go on", SlashAction::Key(Action::Pause)),
    command("stats", "", "what was loaded and chosen, and why", SlashAction::Key(Action::Details)),
    command("theme", "[name]", "colours: dark, light, mono", SlashAction::Theme),
    command(
        "mouse",
        "[on|off]",
        "wheel, click, selection; off: the terminal's own",
        SlashAction::Mouse,
    ),
    command("quit", "", "save and leave", SlashAction::Key(Action::Quit)),
];

/// What the user typed after a slash: the command and its argument.
///
/// # Errors
/// There is no such command; names the nearest.
pub fn parse(line: &str) -> Result<(&'static SlashCommand, &str), String> {
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    let exact = COMMANDS.iter().find(|command| command.name == name);
    let mut begun = COMMANDS.iter().filter(|command| command.name.starts_with(name));
    let command = match (exact, begun.next(), begun.next()) {
        (Some(command), _, _) => command,
        (None, Some(only), None) if !name.is_empty() => only,
        (None, Some(first), Some(second)) if !name.is_empty() => {
            return Err(format!("/{name} could be /{} or /{}", first.name, second.name));
        }
        _ => {
            return Err(format!(
                "no command /{name}; /help lists them. To say it to the model, begin with a space"
            ));
        }
    };
    if command.argument.is_empty() && !argument.is_empty() {
        return Err(format!("/{} takes nothing after it", command.name));
    }
    Ok((command, argument))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command_named(name: &str) -> &'static SlashCommand {
        COMMANDS.iter().find(|command| command.name == name).unwrap()
    }

    #[test]
    fn names_are_unique_and_may_be_shortened() {
        for (index, command) in COMMANDS.iter().enumerate() {
            assert!(COMMANDS[index + 1..].iter().all(|other| other.name != command.name));
            assert_eq!(parse(command.name).unwrap().0, command);
        }
        assert_eq!(parse("ga 8").unwrap(), (command_named("gamma"), "8"));
        assert_eq!(parse("system  Be brief. ").unwrap().1, "Be brief.");
    }

    #[test]
    fn errors_name_a_remedy() {
        assert!(parse("foo").unwrap_err().contains("begin with a space"));
        assert!(parse("s").unwrap_err().contains("/save or /sessions"));
        assert!(parse("quit now").unwrap_err().contains("takes nothing"));
    }
}
