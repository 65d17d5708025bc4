//! `completions` and `man`, generated from the definition of the command line. Must never name a
//! flag.

use std::io::{self, Write};

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::args::Cli;
use super::exit::CommandResult;
use super::output::stdout;

/// Prints the completion script of a shell.
pub fn completions(shell: Shell) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "dovetail", &mut script);
    Ok(stdout()?.write_all(&script)?)
}

/// Prints the manual page, its commands' flags included.
pub fn man() -> CommandResult {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for sub in
        command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set())
    {
        section(sub, &mut page)?;
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
