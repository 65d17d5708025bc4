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
mod estimate;
mod features;
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

pub use decode_eval::{DecodeEval, DecodeRow};
pub use estimate::{RunEstimate, estimate};
pub use recipe::Recipe;
pub use state::{Best, Chats, Spent, Stage, TrainState};
pub(super) use texts::{Drawn, render};

use super::{Measure, Result, StepReport, TrainError};
use crate::chat::today;
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

/// Receives the events of a training.
pub type Reports<'a> = &'a mut dyn FnMut(TrainEvent<'_>);

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

/// The recipe of the training in `out`.
///
/// # Errors
/// [`TrainError::Nothing`] if there is none, [`TrainError::Failed`] if it cannot be read.
pub fn stored(out: &Path) -> Result<Recipe> {
    Ok(RunDir::resume(out)?.1.recipe)
}

/// Trains a head, from its current state to the end.
///
/// # Errors
/// [`TrainError`]: [`TrainError::Stopped`] once `stop` is set. What was done so far is kept.
pub fn train(request: &RunRequest, stop: &AtomicBool, report: Reports<'_>) -> Result<()> {
    let RunRequest { out, recipe, threads, .. } = request;
    recipe.check()?;
    let device = device(request.device)?;
    let stored = if request.resume { Some(RunDir::resume(out)?) } else { None };
    if let Some((_, state)) = &stored {
        let wished = recipe.clone().for_width(state.target.hidden);
        if let Some((name, before, now)) = state.recipe.differences(&wished).into_iter().next() {
            return Err(TrainError::Recipe(format!(
                "the training in {} was started with {name} {before}, not {now}; leave out the \
                 flag, or start over with another --out",
                out.display()
            )));
        }
    }
    let (files, fingerprint) = RunContext::open(&recipe.target, &request.model_folders, report)?;
    let (dir, state) = match stored {
        Some((dir, state)) => {
            if let Some(found) = state.target.difference(&fingerprint) {
                return Err(TrainError::Changed(format!(
                    "this training was started with another target: {} was {}, but is {} in {}; \
                     continue with the same target, or start over with another --out",
                    found.what, found.before, found.now, fingerprint.name
                )));
            }
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

fn device(wish: TrainDevice) -> Result<Device> {
    let found = match wish {
        TrainDevice::Cpu => Ok(Device::Cpu),
        TrainDevice::Cuda => Device::new_cuda(0),
        TrainDevice::Auto => Device::cuda_if_available(0),
    };
    found.map_err(|error| {
        TrainError::Failed(format!("cannot train on {wish:?}: {error}; use --device cpu"))
    })
}
