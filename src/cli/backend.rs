//! From settings to a running worker: models, or a recorded script in their place.

use std::path::Path;

use super::exit::{Code, Failure};
use super::shared_args::SharedArgs;
use crate::decode::snapshot_folder;
use crate::files::cache_folder;
use crate::load::Purpose;
use crate::record::{Recording, Script, recorded};
use crate::settings::{Override, Settings};
use crate::worker::{self, Controls, SettingsLoader, SharedControls, Sink, Worker};

/// Reads the settings with the flags laid over them, and refuses what contradicts itself.
pub fn settings(shared: &SharedArgs, overrides: &[Override]) -> Result<Settings, Failure> {
    let settings = shared.file.settings(overrides)?;
    settings.check().map_err(|error| Failure::new(Code::Usage, error))?;
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
    let worker = worker::spawn_with(controls, sink, SettingsLoader::new(settings, purpose));
    Ok(worker?)
}
