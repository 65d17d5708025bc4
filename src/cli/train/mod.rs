//! `dovetail train`: trains a draft head for any target, from a file of chats.

mod args;
mod show;

use std::io::Write;
use std::num::NonZeroUsize;

use super::backend;
use super::exit::{Code, CommandResult, Failure, report};
use super::interrupt;
use super::output::stdout;
use crate::train::TrainError;
use crate::train::run::{self, RunRequest};

pub use args::TrainArgs;
pub(super) use show::Show;

/// Trains a head, or continues its training.
pub fn train(args: &TrainArgs) -> CommandResult {
    let base = if args.resume { run::stored(&args.out).map_err(failure)? } else { args.preset() };
    let recipe = args.over(base).map_err(Failure::usage)?;
    let request = RunRequest {
        out: args.out.clone(),
        resume: args.resume,
        recipe,
        threads: backend::compute_threads(args.threads.map(NonZeroUsize::get)),
        device: args.device,
        keep_work: args.keep_work,
        model_folders: args.file.settings(&[])?.model_folders,
    };
    let said = "stopping and saving the training; press Ctrl-C again to quit at once";
    let stop = interrupt::stop_flag(said);
    let mut show = Show::new();
    if args.dry_run {
        let found = run::estimate(&request, &stop, &mut |event| show.take(&event));
        show.clear();
        let lines = show::estimate_lines(&found.map_err(failure)?);
        return Ok(stdout()?.write_all((lines.join("\n") + "\n").as_bytes())?);
    }
    let end = run::train(&request, &stop, &mut |event| show.take(&event));
    show.clear();
    match end {
        Ok(()) => Ok(writeln!(
            stdout()?,
            "The head is in {out}, and {out}/README.md describes it. Try it: dovetail --target {} \
             --draft {out}",
            request.recipe.target,
            out = request.out.display(),
        )?),
        Err(TrainError::Stopped) => {
            let out = request.out.display();
            report(&format!("stopped; continue with: dovetail train --resume --out {out}"));
            Err(Failure::quiet(Code::Interrupted))
        }
        Err(error) => Err(failure(error)),
    }
}

/// A failure to train, with its exit code.
pub(super) fn failure(error: TrainError) -> Failure {
    let code = match &error {
        TrainError::Occupied(_)
        | TrainError::Unfinished(_)
        | TrainError::Nothing(_)
        | TrainError::Recipe(_)
        | TrainError::Chats(..)
        | TrainError::Option(..) => Code::Usage,
        TrainError::Library(_) | TrainError::Load(_) | TrainError::Changed(_) => Code::Model,
        _ => Code::Failed,
    };
    Failure::new(code, error)
}
