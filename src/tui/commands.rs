//! The slash commands: one table for completion, help and dispatch. Must never know the state that
//! they change.

use super::keymap::Action;
use super::state::Dial;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// The same as a key.
    Act(Action),
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
    /// Switches the colours.
    Theme,
    /// Switches speculation.
    Speculate,
    /// Takes a strategy, or lists them.
    Strategy,
    /// Switches drafting while the target verifies.
    Overlap,
    /// Switches ranking with the target's noise.
    Coupled,
    /// Whether the wheel scrolls.
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
    pub deed: Deed,
}

const fn command(
    name: &'static str,
    argument: &'static str,
    help: &'static str,
    deed: Deed,
) -> SlashCommand {
    SlashCommand { name, argument, help, deed }
}

/// All commands, in the order of the help.
pub const COMMANDS: &[SlashCommand] = &[
    command("help", "", "keys and commands", Deed::Act(Action::Help)),
    command("new", "", "a new conversation; this one stays saved", Deed::New),
    command("load", "[name]", "a saved conversation", Deed::Load),
    command("save", "", "save now (every answer is saved anyway)", Deed::Save),
    command("system", "[text]", "system prompt; without text, remove it", Deed::System),
    command("regenerate", "", "answer the last question again", Deed::Act(Action::Regenerate)),
    command("copy", "", "copy the last answer", Deed::Act(Action::Copy)),
    command("gamma", "N|auto", "γ: most nodes of the draft tree", Deed::Dial(Dial::Gamma)),
    command("blocks", "N|auto", "M: blocks of the draft head", Deed::Dial(Dial::Blocks)),
    command("width", "N|auto", "k: width of the draft tree", Deed::Dial(Dial::Width)),
    command("depth", "N|auto", "D: depth of the draft tree", Deed::Dial(Dial::Depth)),
    command("temperature", "X", "0 is greedy", Deed::Setting("sampler.temperature")),
    command(
        "top-k",
        "N",
        "keep the N likeliest tokens; 0 keeps all",
        Deed::Setting("sampler.top_k"),
    ),
    command("top-p", "X", "keep this share of probability", Deed::Setting("sampler.top_p")),
    command("min-p", "X", "keep tokens this near the likeliest", Deed::Setting("sampler.min_p")),
    command("seed", "N", "one seed gives one text", Deed::Setting("sampler.seed")),
    command("max-tokens", "N", "longest answer", Deed::Setting("max_tokens")),
    command("speculate", "[on|off]", "speculation; the text is the same", Deed::Speculate),
    command("strategy", "[name]", "how is drafted; without a name, a list", Deed::Strategy),
    command("overlap", "[on|off]", "draft on while the target verifies", Deed::Overlap),
    command("coupled", "[on|off]", "rank drafts with the target's noise", Deed::Coupled),
    command("pace", "TIME", "least time a round: 0.5s, 500ms", Deed::Setting("controls.pace")),
    command("pause", "", "hold after every round, or go on", Deed::Act(Action::Pause)),
    command("stats", "", "what was loaded and chosen, and why", Deed::Act(Action::Details)),
    command("theme", "[name]", "colours: dark, light, mono", Deed::Theme),
    command("mouse", "[on|off]", "the wheel scrolls; select text with Shift then", Deed::Mouse),
    command("quit", "", "save and leave", Deed::Act(Action::Quit)),
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
                "no command /{name}; F1 lists them. To say it to the model, begin with a space"
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

    #[test]
    fn names_are_unique_and_may_be_shortened() {
        for (index, command) in COMMANDS.iter().enumerate() {
            assert!(COMMANDS[index + 1..].iter().all(|other| other.name != command.name));
            assert_eq!(parse(command.name).unwrap().0, command);
        }
        assert_eq!(parse("ga 8").unwrap(), (&COMMANDS[7], "8"));
        assert_eq!(parse("system  Be brief. ").unwrap().1, "Be brief.");
    }

    #[test]
    fn errors_name_a_remedy() {
        assert!(parse("foo").unwrap_err().contains("begin with a space"));
        assert!(parse("s").unwrap_err().contains("/save or /system"));
        assert!(parse("quit now").unwrap_err().contains("takes nothing"));
    }
}
