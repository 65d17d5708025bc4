//! The commands: one file each. Owns flags, exit codes and what is printed without a screen.

mod args;
mod backend;
mod bench;
mod chat;
mod doctor;
mod download_bar;
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
mod threads;
mod train;
mod verify;

use clap::Parser;
use std::process::ExitCode;

use args::{Cli, Command};
use exit::CommandResult;

/// Runs the program; the returned code is the process's exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way too, with code 0.
            let code = u8::try_from(error.exit_code()).unwrap_or(exit::Code::Usage as u8);
            return match error.print() {
                Ok(()) => ExitCode::from(code),
                Err(error) => exit::conclude(Err(error.into())),
            };
        }
    };
    let _log = logging::start(cli.verbose());
    exit::conclude(dispatch(&cli))
}

fn dispatch(cli: &Cli) -> CommandResult {
    match &cli.command {
        None => chat::chat(&cli.chat),
        Some(Command::Chat(args)) => chat::chat(args),
        Some(Command::Run(args)) => run::run(args),
        Some(Command::Race(args)) => race::race(args),
        Some(Command::Doctor(args)) => doctor::doctor(args),
        Some(Command::Models(args)) => models::models(args),
        Some(Command::Pull(args)) => pull::pull(args),
        Some(Command::Train(args)) => train::train(args),
        Some(Command::Ngrams(args)) => ngrams::ngrams(args),
        Some(Command::Bench(command)) => bench::bench(command),
        Some(Command::Verify(args)) => verify::verify(args),
        Some(Command::Replay(args)) => replay::replay(args),
        Some(Command::Completions { shell }) => manual::completions(*shell),
        Some(Command::Help { words }) => help::help(words),
        Some(Command::Man) => manual::man(),
    }
}
