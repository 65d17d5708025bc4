//! From settings to a running worker: models, or a recorded script in their place.

use std::path::Path;
use std::sync::mpsc;

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};

use super::exit::{Code, CommandResult, Failure};
use super::interrupt;
use super::shared_args::SharedArgs;
use crate::chat::{Message, Role};
use crate::decode::snapshot_folder;
use crate::files::cache_folder;
use crate::hardware::{Cpu, Machine};
use crate::library::Downloading;
use crate::load::{self, LoadedModels, Loading, Purpose, StartError};
use crate::printable::printable_line;
use crate::record::{Recording, Script, recorded};
use crate::settings::{Override, Settings};
use crate::worker::{
    self, Command, Controls, Event, Job, Ready, SettingsLoader, SharedControls, Sink, Worker,
};

/// Reads the settings with the flags laid over them, and refuses what contradicts itself.
pub fn settings(shared: &SharedArgs, overrides: &[Override]) -> Result<Settings, Failure> {
    let settings = shared.file.settings(overrides)?;
    settings.check().map_err(|why| Failure::usage(anyhow!(why)))?;
    Ok(settings)
}

/// The controls at the start.
pub fn controls(settings: &Settings) -> SharedControls {
    let mut controls = Controls::default();
    controls.take(settings);
    SharedControls::new(controls)
}

/// The prompt after the system prompt, as a question to the worker.
pub fn job(settings: &Settings, prompt: &str, generation: u64, max_tokens: usize) -> Job {
    let system = settings.system.iter().map(|text| Message::new(Role::System, text));
    let messages = system.chain([Message::new(Role::User, prompt)]).collect();
    Job { generation, messages, max_tokens, thinking: settings.thinking, ..Job::default() }
}

/// Fails if nothing can be drafted for the target.
pub fn needs_drafts(ready: &Ready) -> CommandResult {
    ready.lacks_drafts().map_or(Ok(()), |missing| {
        let error = anyhow!("nothing can be drafted for {}: {missing}", ready.target);
        Err(Failure::new(Code::Model, error))
    })
}

/// The failure of an answer, or of the models if it belongs to none.
pub fn failure(generation: Option<u64>, error: &str) -> Failure {
    let code = if generation.is_none() { Code::Model } else { Code::Failed };
    Failure::new(code, anyhow!("{error}"))
}

/// Compute threads: the given number, or one per fast core. This thread, which computes too, and
/// those that it starts are bound to the fast cores if they all fit there.
pub fn compute_threads(asked: Option<usize>) -> usize {
    let cpu = Cpu::probe();
    let threads = cpu.threads(asked);
    cpu.prefer_fast(threads);
    threads
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
    let done = work(&|stage, fraction| show_stage(&bar, stage, fraction));
    bar.finish_and_clear();
    done
}

/// Shows how far a download is, on a terminal.
pub fn with_download<T>(download: impl FnOnce(Downloading<'_>) -> T) -> anyhow::Result<T> {
    let style = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    let bar = ProgressBar::new(0).with_style(ProgressStyle::with_template(style)?);
    let done = download(&mut |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        let doing = if progress.checking { "checking " } else { "" };
        bar.set_message(format!("{doing}{}", printable_line(&progress.file)));
    });
    bar.finish_and_clear();
    Ok(done)
}

/// Shows what is being loaded, and how much of it is.
pub fn show_stage(bar: &ProgressBar, stage: &str, fraction: Option<f32>) {
    let percent = fraction.map(|part| format!(" {:.0} %", part * 100.0)).unwrap_or_default();
    bar.set_message(printable_line(&format!("{stage}{percent}")).into_owned());
    bar.tick();
}

/// Starts the worker on a thread of its own, with the script if one is named, else with models;
/// events go to `sink`. All that happens is recorded in a new file if one is named.
pub fn start(
    shared: &SharedArgs,
    settings: Settings,
    purpose: Purpose,
    controls: SharedControls,
    sink: Sink,
    record: Option<&Path>,
) -> anyhow::Result<Worker> {
    if let Some(path) = record {
        let recording = Recording::create(path, &settings, &controls)?;
        let (sink, tap) = recorded(recording, sink);
        return Ok(start(shared, settings, purpose, controls, sink, None)?.tapped(tap));
    }
    if let Some(script) = &shared.script {
        return Ok(Script::read(script)?.play(controls, sink)?);
    }
    let snapshots = if purpose == Purpose::Chat { snapshot_folder() } else { None };
    let settings = Settings { learned: cache_folder("learned"), snapshots, ..settings };
    let worker = worker::spawn(controls, sink, SettingsLoader::new(settings, purpose));
    Ok(worker?)
}

/// A worker whose events are read one by one, until Ctrl-C.
pub struct WatchedWorker {
    worker: Worker,
    /// `None` for Ctrl-C.
    events: mpsc::Receiver<Option<Event>>,
}

impl WatchedWorker {
    /// Starts it as [`start`] does, with the controls of the settings.
    pub fn start(
        shared: &SharedArgs,
        settings: &Settings,
        purpose: Purpose,
        record: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let (sender, events) = mpsc::channel();
        let interrupts = sender.clone();
        interrupt::watch(move || interrupts.send(None).is_ok());
        let sink = Box::new(move |event| sender.send(Some(event)).is_ok());
        let worker = start(shared, settings.clone(), purpose, controls(settings), sink, record)?;
        Ok(Self { worker, events })
    }

    pub fn controls(&self) -> &SharedControls {
        self.worker.controls()
    }

    /// Waits for the next event. With [`Event::Ready`], the controls have the sampler of the model.
    ///
    /// # Errors
    /// The user interrupted the command, or the worker ended.
    pub fn next(&self) -> Result<Event, Failure> {
        let ended = |_| anyhow!("the model stopped without an answer; the log file may say why");
        let event = self.events.recv().map_err(ended)?;
        let event = event.ok_or_else(|| Failure::quiet(Code::Interrupted))?;
        if let Event::Ready(ready) = &event
            && let Some(sampler) = ready.sampler
        {
            self.controls().update(|controls| controls.sampler = sampler);
        }
        Ok(event)
    }

    /// Asks it; the models must be loaded.
    ///
    /// # Errors
    /// It has ended.
    pub fn ask(&self, job: Job) -> Result<(), Failure> {
        if self.worker.send(Command::Generate(job)) {
            return Ok(());
        }
        Err(anyhow!("the model stopped before the answer; the log file may say why").into())
    }
}
