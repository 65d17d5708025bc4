//! A training from a file of chats to a head, in stages that can be stopped and resumed. It owns
//! the folder, the order of the stages and their events. It must not depend on terminals.
//!
//! The folder named by `--out` holds the head, its card, the log and the loss curve. Its subfolder
//! `work` holds what is needed to resume: `run.json`, `texts.jsonl`, the shards with the features,
//! the checkpoint.

mod answers;
mod card;
mod context;
mod decode_eval;
mod decoded;
mod estimate;
mod features;
mod fingerprint;
mod learn;
mod log;
mod looks;
mod recipe;
mod run_dir;
mod state;
mod texts;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use candle_core::Device;
use clap::ValueEnum;

pub use decoded::{DecodeEval, DecodeRow};
pub use estimate::{RunEstimate, StageShare, estimate};
pub use recipe::Recipe;
pub(super) use recipe::rank;
pub use state::{Best, Chats, Spent, Stage, TrainState, size};
pub(super) use texts::one as rendered;

use super::shards::{self, ShardError};
use super::{Measure, StepReport, TrainError};
use crate::chat::today;
use crate::decode::DecodeError;
use crate::library::{LibraryError, TokenizerError};
use crate::model::head::HeadError;
use crate::model::{LoadError, TargetError};
use context::RunContext;
use run_dir::RunDir;

/// Events of a training.
#[derive(Debug)]
pub enum TrainEvent<'a> {
    /// A stage begins.
    Stage {
        /// Which stage.
        stage: Stage,
        /// How much there is to do; 0 if that is unknown.
        total: u64,
    },
    /// How much of the stage is done.
    At(u64),
    /// How far a download is.
    Fetching(&'a str),
    /// A notice for the user.
    Note(&'a str),
    /// A line of the data cannot be used.
    Refused {
        /// Its number, starting at 1.
        line: usize,
        /// Why.
        why: &'a str,
    },
    /// The chats are ready.
    Chats(&'a Chats),
    /// A step of the optimiser.
    Step(&'a StepReport),
    /// How good the head currently is on held-out chats.
    Held {
        /// On their texts.
        measures: &'a [Measure],
        /// τ for answers to some of their prompts, if requested.
        tau: Option<f64>,
    },
    /// The results of decoding with the head.
    DecodeEval(&'a DecodeEval),
    /// A stage ended, temporarily or finally.
    Spent(&'a Spent),
}

/// How a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The head is finished.
    Done,
    /// It was stopped; what was done is kept.
    Stopped,
}

/// Where a head is trained; the target runs on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TrainDevice {
    /// An NVIDIA GPU if this build can use one, otherwise the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
}

/// A request to train.
#[derive(Debug)]
pub struct RunRequest {
    /// The head's folder.
    pub out: PathBuf,
    /// Whether to resume the training in that folder.
    pub resume: bool,
    /// The recipe; a resumed training has its own.
    pub recipe: Recipe,
    /// Compute threads.
    pub threads: usize,
    /// Where the head is trained.
    pub device: TrainDevice,
    /// Whether to keep the features and the checkpoint of a finished training.
    pub keep_work: bool,
    /// Folders in which the target is searched for by name, in addition to the stores.
    pub model_folders: Vec<String>,
}

/// Why a training cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The folder contains other things.
    #[error("{} is not an empty folder; name a new one with --out", out.display())]
    Occupied {
        /// The folder.
        out: PathBuf,
    },
    /// The folder contains a training.
    #[error(
        "{} already contains a training; continue it with --resume, or name a new folder with \
         --out",
        out.display()
    )]
    Unfinished {
        /// The folder.
        out: PathBuf,
    },
    /// There is no training to resume.
    #[error(
        "{} contains no training to continue; start one without --resume",
        out.display()
    )]
    Nothing {
        /// The folder.
        out: PathBuf,
    },
    /// The recipe is different.
    #[error(
        "the training in {} was started with {name} {before}, not {now}; leave out the flag, or \
         start over with another --out", out.display()
    )]
    Recipe {
        /// The folder.
        out: PathBuf,
        /// The figure.
        name: String,
        /// Its value then.
        before: String,
        /// Its value now.
        now: String,
    },
    /// The target is different.
    #[error(
        "this training was started with another target: {what} was {before}, but is {now} in \
         {name}; continue with the same target, or start over with another --out"
    )]
    Changed {
        /// What differs.
        what: &'static str,
        /// The target's name now.
        name: String,
        /// Then.
        before: String,
        /// Now.
        now: String,
    },
    /// The state of a training cannot be used.
    #[error("cannot use {}: {reason}; start over with another --out", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The chats cannot be read.
    #[error("cannot read the chats in {}: {source}", path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// There is too little to learn from.
    #[error(
        "{}: {usable} of {lines} lines can be used, but at least 2 are needed{fault}",
        path.display()
    )]
    NoChats {
        /// The file.
        path: PathBuf,
        /// How many lines there are.
        lines: usize,
        /// How many of them are chats.
        usable: usize,
        /// The first fault.
        fault: String,
    },
    /// The result cannot be written.
    #[error(
        "cannot write {}: {source}; name another file with --out, or free some disk space",
        path.display()
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The disk is too small.
    #[error(
        "{} needs {} of disk space, but only {} is free; use fewer chats (--limit), a shorter \
         --window or an --out on a larger disk, or free some space and continue with --resume",
        out.display(), size(*needed), size(*free)
    )]
    Room {
        /// The folder.
        out: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes there are.
        free: u64,
    },
    /// The device does not exist, or this build cannot use it.
    #[error("cannot train on {wish:?}: {reason}; use --device cpu")]
    Device {
        /// What was requested.
        wish: TrainDevice,
        /// Why not.
        reason: String,
    },
    /// The curve could not be drawn.
    #[error("cannot draw the loss curve: {0}")]
    Curve(String),
    /// It was stopped.
    #[error("stopped")]
    Stopped,
    /// A shard cannot be written or read.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// The learning failed.
    #[error(transparent)]
    Train(TrainError),
    /// The target's files cannot be used.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The target's tokenizer failed.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The target cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A pass of the target failed.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The finished head cannot be used.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// An answer failed.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl From<TrainError> for RunError {
    fn from(error: TrainError) -> Self {
        match error {
            // A full disk has a remedy here: what is already on it is enough to resume.
            TrainError::Io { path, source } if shards::is_full(&source) => {
                Self::Shard(ShardError::Write { path, source })
            }
            other => Self::Train(other),
        }
    }
}

/// The recipe of the training in `out`.
///
/// # Errors
/// [`RunError::Nothing`] if there is none, [`RunError::State`] if it cannot be read.
pub fn stored(out: &Path) -> Result<Recipe, RunError> {
    Ok(RunDir::resume(out)?.1.recipe)
}

/// Trains a head, from its current state to the end or until `stop` is set.
///
/// # Errors
/// [`RunError`]; what was done so far is kept.
pub fn train(
    request: &RunRequest,
    stop: &AtomicBool,
    report: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<End, RunError> {
    match stages(request, stop, report) {
        Ok(()) => Ok(End::Done),
        Err(RunError::Stopped) => Ok(End::Stopped),
        Err(error) => Err(error),
    }
}

fn stages(
    request: &RunRequest,
    stop: &AtomicBool,
    report: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<(), RunError> {
    let RunRequest { out, recipe, threads, .. } = request;
    recipe.check()?;
    let device = device(request.device)?;
    let stored = if request.resume { Some(RunDir::resume(out)?) } else { None };
    if let Some((_, state)) = &stored {
        let wished = recipe.clone().for_width(state.target.hidden);
        if let Some((name, before, now)) = state.recipe.differences(&wished).into_iter().next() {
            return Err(RunError::Recipe { out: out.clone(), name, before, now });
        }
    }
    let (files, fingerprint) = RunContext::open(&recipe.target, &request.model_folders, report)?;
    let (dir, state) = match stored {
        Some((dir, state)) => {
            fingerprint::check(&state.target, &fingerprint)?;
            (dir, state)
        }
        None => {
            let recipe = recipe.clone().for_width(files.config.hidden);
            (RunDir::begin(out)?, TrainState::new(recipe, fingerprint))
        }
    };
    dir.save(&state)?;
    let mut run = RunContext::new(dir, state, files, *threads, stop, report);
    let texts = texts::texts(&mut run)?;
    if let Some(chats) = &run.state.chats {
        (run.report)(TrainEvent::Chats(chats));
    }
    let examples = features::features(&mut run, &texts)?;
    learn::learn(&mut run, &texts, &examples, &device)?;
    drop(examples);
    decode_eval::decode(&mut run, &texts)?;
    card::write(&run.dir, &run.state, &today())?;
    if request.keep_work { Ok(()) } else { run.dir.clear() }
}

fn device(wish: TrainDevice) -> Result<Device, RunError> {
    let found = match wish {
        TrainDevice::Cpu => Ok(Device::Cpu),
        TrainDevice::Cuda => Device::new_cuda(0),
        TrainDevice::Auto => Device::cuda_if_available(0),
    };
    found.map_err(|error| RunError::Device { wish, reason: error.to_string() })
}
