//! From settings to a running worker: models, or a recorded script in their place.

use std::path::Path;

use indicatif::ProgressBar;

use super::exit::Failure;
use super::shared_args::SharedArgs;
use crate::chat::{Message, Role};
use crate::decode::snapshot_folder;
use crate::files::cache_folder;
use crate::hardware::Machine;
use crate::load::{self, LoadedModels, Loading, Purpose, StartError};
use crate::printable::printable_line;
use crate::record::{Recording, Script, recorded};
use crate::settings::{Override, Settings};
use crate::worker::{self, Controls, Job, SettingsLoader, SharedControls, Sink, Worker};

/// Reads the settings with the flags laid over them, and refuses what contradicts itself.
pub fn settings(shared: &SharedArgs, overrides: &[Override]) -> Result<Settings, Failure> {
    let settings = shared.file.settings(overrides)?;
    settings.check().map_err(|why| Failure::usage(anyhow::anyhow!(why)))?;
    Ok(settings)
}

/// The controls at the start.
pub fn controls(settings: &Settings) -> SharedControls {
    SharedControls::new(Controls {
        speculate: settings.speculate,
        strategy: settings.strategy,
        overlap: settings.overlap,
        coupled: settings.coupled,
        pace: settings.pace,
        tree: settings.controls,
        sampler: settings.sampler,
        ..Controls::default()
    })
}

/// The prompt after the system prompt, as a question to the worker.
pub fn job(settings: &Settings, prompt: &str, generation: u64, max_tokens: usize) -> Job {
    let system = settings.system.iter().map(|text| Message::new(Role::System, text));
    let messages = system.chain([Message::new(Role::User, prompt)]).collect();
    Job { generation, messages, max_tokens, thinking: settings.thinking, ..Job::default() }
}

/// Asks a worker whose models are loaded.
///
/// # Errors
/// It has ended.
pub fn ask(worker: &Worker, job: Job) -> Result<(), Failure> {
    if worker.generate(job) {
        return Ok(());
    }
    Err(anyhow::anyhow!("the model stopped before the answer; the log file may say why").into())
}

/// Loads the models of `settings`, with progress.
pub fn load(
    settings: &Settings,
    machine: &Machine,
    purpose: Purpose,
) -> Result<LoadedModels, StartError> {
    with_progress(|progress| load::load(settings, machine, purpose, progress))
}

/// Shows what `work` reports of its progress.
pub fn with_progress<T>(work: impl FnOnce(Loading<'_>) -> T) -> T {
    let bar = ProgressBar::new_spinner();
    let done = work(&mut |stage, fraction| show_stage(&bar, stage, fraction));
    bar.finish_and_clear();
    done
}

/// Shows what is being loaded, and how much of it is.
pub fn show_stage(bar: &ProgressBar, stage: &str, fraction: Option<f32>) {
    let percent = fraction.map(|part| format!(" {:.0} %", part * 100.0)).unwrap_or_default();
    bar.set_message(printable_line(&format!("{stage}{percent}")).into_owned());
    bar.tick();
}

/// [`start`], with all that happens recorded in a new file if one is named.
pub fn start_recorded(
    shared: &SharedArgs,
    settings: Settings,
    purpose: Purpose,
    controls: SharedControls,
    sink: Sink,
    record: Option<&Path>,
) -> anyhow::Result<Worker> {
    let Some(path) = record else { return start(shared, settings, purpose, controls, sink) };
    let recording = Recording::create(path, &settings, &controls)?;
    let (sink, tap) = recorded(recording, sink);
    Ok(start(shared, settings, purpose, controls, sink)?.tapped(tap))
}

/// Starts the worker on a thread of its own, with the script if one is named, else with models;
/// events go to `sink`.
pub fn start(
    shared: &SharedArgs,
    settings: Settings,
    purpose: Purpose,
    controls: SharedControls,
    sink: Sink,
) -> anyhow::Result<Worker> {
    if let Some(script) = &shared.script {
        return Ok(Script::read(script)?.play(controls, sink)?);
    }
    let snapshots = if purpose == Purpose::Chat { snapshot_folder() } else { None };
    let settings = Settings { learned: cache_folder("learned"), snapshots, ..settings };
    let worker = worker::spawn(controls, sink, SettingsLoader::new(settings, purpose));
    Ok(worker?)
}
