//! `completions` and `man`, generated from the definition of the command line and the guide. Must
//! never name a flag.

use std::io::{self, Write};

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::args::Cli;
use super::exit::CommandResult;
use super::help::{laid_out, plain};
use super::output::stdout;
use crate::guide::{TOPICS, Topic};
use crate::tui::markdown::SpanRole;

/// Columns of the guide's text, which `man` indents.
const WIDTH: usize = 72;

/// Prints the completion script of a shell.
pub fn completions(shell: Shell) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "dovetail", &mut script);
    Ok(stdout()?.write_all(&script)?)
}

/// Prints the manual page, with the flags of every command and the pages of the guide.
pub fn man() -> CommandResult {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        section(sub, &mut page)?;
    }
    for topic in TOPICS {
        guide(topic, &mut page)?;
    }
    Ok(stdout()?.write_all(&page)?)
}

/// A command's own synopsis and flags below the main page.
fn section(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let title = command.get_display_name().unwrap_or(command.get_name()).replace('-', " ");
    writeln!(page, ".SH \"{}\"", title.to_uppercase())?;
    let man = clap_mangen::Man::new(command.clone());
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)
}

/// A page of the guide, its rows as they are: tables stay aligned.
fn guide(topic: &Topic, page: &mut Vec<u8>) -> io::Result<()> {
    writeln!(page, ".SH \"GUIDE: {}\"\n.nf", topic.title().to_uppercase())?;
    // The first row is the title.
    for row in laid_out(&topic.with_addresses(), WIDTH).iter().skip(2) {
        let heading = row.iter().any(|span| span.look.role == SpanRole::Heading);
        let text = escaped(plain(row).trim_end());
        if heading { writeln!(page, "\\fB{text}\\fR")? } else { writeln!(page, "{text}")? }
    }
    writeln!(page, ".fi")
}

/// A line of text as roff reads it: a point or a quote at its beginning would be a request.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_the_guide_is_a_section_of_plain_lines() {
        let text = "# Title\n\nWhat it is.\n\n## Part\n\n```sh\n.run --x 'a\\b'\n```\n";
        let mut page = Vec::new();
        guide(&Topic { name: "x", text }, &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        let want = ".SH \"GUIDE: TITLE\"\n.nf\nWhat it is.\n\n\\fBPart\\fR\n\n  \
                    .run \\-\\-x 'a\\eb'\n.fi\n";
        assert_eq!(page, want);
        assert_eq!(escaped(".SH"), "\\&.SH");
    }
}
