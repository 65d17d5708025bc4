//! `dovetail ngrams`: makes an n-gram table for a model.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use super::backend;
use super::exit::{Code, CommandResult, Failure, report};
use super::interrupt;
use super::output::stdout;
use super::settings_file::SettingsFile;
use super::train::{Show, failure};
use crate::library::{NGRAMS_END, ngrams_folder, open_target};
use crate::train::TrainError;
use crate::train::ngrams::{NgramRecipe, make_ngrams};
use crate::train::run::TrainEvent;

#[derive(Debug, Args)]
#[command(
    after_help = "Answers that the model itself gave work best: the closer the texts are to its \
                  own, the more of the drafts it accepts. The file has the same format as for \
                  `dovetail train`."
)]
pub struct NgramsArgs {
    /// Target model: a GGUF file, a folder, a hub id or the name of a model on this machine
    /// [default: the bundled model].
    #[arg(long, value_name = "MODEL", env = "DOVETAIL_TARGET", help_heading = "What")]
    pub target: Option<String>,
    /// File of chats to count (JSON lines).
    #[arg(long, value_name = "FILE", help_heading = "What")]
    pub data: PathBuf,
    /// File for the table [default: a file in the data folder, which Dovetail finds by itself].
    #[arg(long, value_name = "FILE", help_heading = "What")]
    pub out: Option<PathBuf>,

    /// What the table is made of.
    #[command(flatten)]
    pub recipe: NgramRecipe,

    /// Compute threads [default: one per fast core].
    #[arg(long, value_name = "N", env = "DOVETAIL_THREADS", help_heading = "Machine")]
    pub threads: Option<NonZeroUsize>,
    /// The settings file, which may name folders of models.
    #[command(flatten)]
    pub file: SettingsFile,
}

/// Makes the table and says how good it is.
pub fn ngrams(args: &NgramsArgs) -> CommandResult {
    let recipe = &args.recipe;
    let spec = args.file.model(args.target.as_deref().unwrap_or("bundled"))?;
    let files = open_target(&spec, &mut |_| {}).map_err(|error| failure(error.into()))?;
    let out = match &args.out {
        Some(out) => out.clone(),
        None => default_place(&files.name)?,
    };
    let stop = interrupt::stop_flag("");
    let threads = backend::compute_threads(args.threads.map(NonZeroUsize::get));
    let mut show = Show::new();
    let take = &mut |event: TrainEvent<'_>| show.take(&event);
    let made = make_ngrams(&files, &args.data, recipe, &out, threads, &stop, take);
    show.clear();
    let made = match made {
        Err(TrainError::Stopped) => {
            report("stopped; nothing was written");
            return Err(Failure::quiet(Code::Interrupted));
        }
        made => made.map_err(failure)?,
    };
    let mut print = stdout()?;
    if made.refused > 0 {
        report(&format!("{} lines could not be used and were skipped", made.refused));
    }
    writeln!(
        print,
        "{} contexts from {} answer tokens in {} chats.",
        made.contexts, made.places, made.chats
    )?;
    if made.held > 0 {
        let share = |right: usize| 100.0 * right as f64 / made.held as f64;
        writeln!(
            print,
            "On {} held-out tokens, the first guess is right {:.1} % of the time, one of the first \
             four {:.1} %.",
            made.held,
            share(made.right.0),
            share(made.right.1)
        )?;
    }
    let used = match &args.out {
        Some(out) => format!("Use it with: --ngrams {}", out.display()),
        None => "Dovetail uses it from now on.".to_owned(),
    };
    Ok(writeln!(print, "The table is in {}. {used}", out.display())?)
}

/// A file of the data folder, named after the model.
fn default_place(model: &str) -> Result<PathBuf, Failure> {
    let none = || anyhow!("this system has no data folder; name a file with --out");
    let folder = ngrams_folder().ok_or_else(none)?;
    let failed =
        |error| anyhow!("cannot make {}: {error}; name a file with --out", folder.display());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = model.chars().map(plain).collect();
    Ok(folder.join(format!("{name}.{NGRAMS_END}")))
}
