//! The commands: one file each. Owns flags, exit codes and what is printed without a screen.

mod args;
mod backend;
mod bench;
mod chat;
mod doctor;
mod exit;
mod help;
mod interrupt;
mod logging;
mod manual;
mod models;
mod ngrams;
mod output;
mod pager;
mod pull;
mod race;
mod replay;
mod run;
mod settings_file;
mod shared_args;
#[cfg(test)]
mod tests;
mod train;
mod verify;

use anyhow::anyhow;
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};
use std::process::ExitCode;

use args::{Cli, CliCommand};
use exit::{CommandResult, Failure};

use crate::tui::faults;

/// Runs the program; the returned code is the process's exit code.
pub fn main() -> ExitCode {
    let parsed = without_empty(Cli::command()).try_get_matches().and_then(|given| {
        let verbose = is_verbose(&given);
        Cli::from_arg_matches(&given).map(|cli| (cli, verbose))
    });
    let (cli, verbose) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version come this way too, with code 0.
            let code = u8::try_from(error.exit_code()).unwrap_or(exit::Code::Usage as u8);
            return match error.print() {
                Ok(()) => ExitCode::from(code),
                Err(error) => exit::conclude(Err(error.into())),
            };
        }
    };
    let _log = logging::start(verbose);
    #[cfg(unix)]
    if let Err(error) = faults::watch(|| std::process::exit(truncated().report() as i32)) {
        tracing::warn!("a truncated model will end the program at once: {error}");
    }
    let outcome = dispatch(&cli);
    exit::conclude(if faults::truncated() { outcome.and(Err(truncated())) } else { outcome })
}

/// The command with the variables of the environment that are set to nothing left out: they count
/// as not set.
fn without_empty(command: Command) -> Command {
    let is_empty =
        |arg: &Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    command
        .mut_args(|arg| if is_empty(&arg) { arg.env(None) } else { arg })
        .mut_subcommands(without_empty)
}

/// A model changed while it was in use.
fn truncated() -> Failure {
    Failure::model(anyhow!(faults::TRUNCATED_FILE))
}

/// Whether the command in use writes more to the log.
fn is_verbose(given: &ArgMatches) -> bool {
    matches!(given.try_get_one("verbose"), Ok(Some(true)))
        || given.subcommand().is_some_and(|(_, given)| is_verbose(given))
}

fn dispatch(cli: &Cli) -> CommandResult {
    match &cli.command {
        None => chat::chat(&cli.chat),
        Some(CliCommand::Chat(args)) => chat::chat(args),
        Some(CliCommand::Run(args)) => run::run(args),
        Some(CliCommand::Race(args)) => race::race(args),
        Some(CliCommand::Doctor(args)) => doctor::doctor(args),
        Some(CliCommand::Models(args)) => models::models(args),
        Some(CliCommand::Pull(args)) => pull::pull(args),
        Some(CliCommand::Train(args)) => train::train(args),
        Some(CliCommand::Ngrams(args)) => ngrams::ngrams(args),
        Some(CliCommand::Bench(command)) => bench::bench(command),
        Some(CliCommand::Verify(args)) => verify::verify(args),
        Some(CliCommand::Replay(args)) => replay::replay(args),
        Some(CliCommand::Completions { shell }) => manual::completions(*shell),
        Some(CliCommand::Help { words }) => help::help(words),
        Some(CliCommand::Man) => manual::man(),
    }
}
