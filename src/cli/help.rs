//! `dovetail help`: the pages of the guide and the commands' own help.

use anyhow::anyhow;
use clap::builder::StyledStr;
use clap::{CommandFactory, Parser};

use super::args::Cli;
use super::exit::{CommandResult, Failure};
use super::pager;
use crate::decode::BothMinds;
use crate::guide::{TOPICS, Topic};
use crate::nearest::nearest;
use crate::tui::markdown::{Document, Logical, Look, SpanRole, StyledSpan, TextRow, text_of, wrap};

/// Shows the list of topics, a topic, or a command's help.
pub fn help(words: &[String]) -> CommandResult {
    let named = match words {
        [] => return pager::show(&index(usize::MAX, plain), |width| index(width, styled)),
        [word] => Topic::named(word),
        _ => None,
    };
    if let Some(topic) = named {
        let page = |text: String| text + &flags_of(topic.name);
        return pager::show(&page(topic.text.to_owned()), |width| {
            laid_out(&page(topic.with_addresses()), width).iter().map(|row| styled(row)).collect()
        });
    }
    let text = command_help(words).ok_or_else(|| unknown(&words.join(" ")))?;
    pager::show(&text.to_string(), |_| text.ansi().to_string())
}

/// The rows of a page at a width, without the names of its examples' languages.
pub(super) fn laid_out(text: &str, width: usize) -> Vec<TextRow> {
    let is_name = |span: &StyledSpan| {
        span.look.code && span.look.role == SpanRole::Markup && !span.text.trim().is_empty()
    };
    let mut document = Document::default();
    let rows = document.lay_out(text, &BothMinds::default(), width).iter();
    rows.filter(|row| !row.last().is_some_and(is_name)).cloned().collect()
}

/// The help of the command that these words call, as its `--help` prints it.
fn command_help(words: &[String]) -> Option<StyledStr> {
    let root = Cli::command();
    words.iter().try_fold(&root, |command, word| command.find_subcommand(word))?;
    let line = ["dovetail"].into_iter().chain(words.iter().map(String::as_str)).chain(["--help"]);
    Some(Cli::try_parse_from(line).err()?.render())
}

/// The commands that have help.
fn commands() -> Vec<String> {
    let root = Cli::command();
    let shown = root.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_owned()).collect()
}

/// Where a topic has the name of a command, the way to that command's help.
fn flags_of(name: &str) -> String {
    match commands().iter().any(|command| command == name) {
        true => format!("\nThe flags of the command: `dovetail {name} --help`.\n"),
        false => String::new(),
    }
}

fn unknown(given: &str) -> Failure {
    let topics: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
    let commands = commands();
    let all = topics.iter().copied().chain(commands.iter().map(String::as_str));
    let near = nearest(given, all, 0.5)
        .map(|name| format!("; did you mean \"{name}\"?"))
        .unwrap_or_default();
    let topics = topics.join(", ");
    let commands = commands.join(", ");
    let words = format!(
        "\"{given}\" is neither a topic nor a command{near}\ntopics: {topics}\ncommands: {commands}"
    );
    Failure::usage(anyhow!(words))
}

/// The topics with their summaries, each row of at most `width` columns.
fn index(width: usize, row: impl Fn(&[StyledSpan]) -> String) -> String {
    let span = |text: &str, look| StyledSpan { look, ..StyledSpan::plain(text, None) };
    let heading = Look { role: SpanRole::Heading, ..Look::default() };
    let strong = Look { strong: true, ..Look::default() };
    let name_width = TOPICS.iter().map(|topic| topic.name.len()).max().unwrap_or(0) + 4;
    let mut lines = vec![Logical::from(span("Topics of the guide", heading))];
    lines.extend(TOPICS.iter().map(|topic| Logical {
        first: vec![span(&format!("{:<name_width$}", format!("  {}", topic.name)), strong)],
        rest: vec![span(&" ".repeat(name_width), Look::default())],
        text: vec![span(&topic.summary().replace('`', ""), Look::default())],
        ..Logical::default()
    }));
    let usage = [
        "",
        "dovetail help TOPIC      read a topic",
        "dovetail help COMMAND    what a command does, and its flags",
        "dovetail --help          the commands, and the flags of the chat",
    ];
    lines.extend(usage.map(|text| StyledSpan::plain(text, None).into()));
    lines.iter().flat_map(|line| wrap(line, width)).map(|spans| row(&spans)).collect()
}

/// A row without styles.
pub(super) fn plain(row: &[StyledSpan]) -> String {
    text_of(row) + "\n"
}

/// A row with the terminal's codes for its styles.
fn styled(row: &[StyledSpan]) -> String {
    let span = |span: &StyledSpan| {
        let mut codes = match span.look.role {
            SpanRole::Text => vec![],
            SpanRole::Heading => vec!["1"],
            SpanRole::Comment | SpanRole::Markup => vec!["2"],
            _ => vec!["36"],
        };
        codes.extend(span.look.strong.then_some("1"));
        codes.extend(span.look.emphasis.then_some("3"));
        if super::settings_file::no_color() {
            codes.retain(|code| *code != "36");
        }
        match codes.as_slice() {
            [] => span.text.clone(),
            codes => format!("\x1b[{}m{}\x1b[0m", codes.join(";"), span.text),
        }
    };
    row.iter().map(span).collect::<String>() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_their_words() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for found in ["run", "bench quality", "man"] {
            let help = command_help(&words(found)).unwrap().to_string();
            assert!(help.contains(&format!("Usage: dovetail {found}")), "{help}");
        }
        assert!(command_help(&words("run quality")).is_none());
    }

    #[test]
    fn the_list_names_every_topic_within_the_width() {
        for width in [40, 80, usize::MAX] {
            let list = index(width, plain);
            for topic in TOPICS {
                assert!(list.contains(&format!("\n  {} ", topic.name)), "{list}");
            }
            assert!(list.lines().all(|line| line.chars().count() <= width), "{list}");
        }
        assert!(index(usize::MAX, plain).contains(TOPICS[0].summary()));
    }

    #[test]
    fn a_page_is_styled_and_fits() {
        let rows = laid_out("# Title\n\nSome `code` in a **long** line of words.\n", 20);
        let shown: String = rows.iter().map(|row| styled(row)).collect();
        assert!(shown.starts_with("\x1b[1mTitle\x1b[0m\n\nSome "), "{shown:?}");
        assert!(shown.contains("\x1b[1mlong\x1b[0m"), "{shown:?}");
        assert!(rows.iter().all(|row| plain(row).trim_end().len() <= 20));
    }

    #[test]
    fn a_topic_with_a_commands_name_leads_to_its_flags() {
        assert!(flags_of("models").contains("dovetail models --help"));
        assert_eq!(flags_of("exactness"), "");
    }
}
