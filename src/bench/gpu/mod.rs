//! `dovetail bench gpu`: what a GPU is worth here. Times of a block on both devices and of the bus,
//! what is expected of every placement of target and draft, and what the likeliest of them give:
//! T_V, T_D, tokens a second of short answers, and how fast they read a prompt. Must never place
//! anything in use.

mod prompts;
mod report;

use std::time::{Duration, Instant};

use crate::chat::{Message, Role};
use crate::hardware::Machine;
use crate::load::{self, LoadedModels, Placements, StartError};
use crate::messages;
use crate::plan::{DrafterId, LevelCost, PlacementForecast, best_placement};
use crate::settings::{PrefillDevice, Settings};
use crate::worker::{Backend, Controls, Event, Job, SharedControls};

pub use prompts::PromptRun;
pub use report::GpuReport;

/// What the short answers are asked for.
const PROMPTS: [&str; 2] = ["Tell me a story about a fox.", "Why is the sky blue?"];
/// Tokens of each.
const TOKENS: usize = 48;

/// What a placement gave.
#[derive(Clone, Debug)]
pub struct PlacedRun {
    /// What was expected of it.
    pub expected: PlacementForecast,
    /// What came of it; why not, where it could not be loaded.
    pub found: Result<PlacedTimes, String>,
}

/// Measured times of a placement.
#[derive(Clone, Debug)]
pub struct PlacedTimes {
    /// T_V by γ, ms.
    pub verify: Vec<(usize, f64)>,
    /// T_D of a draft pass by M and rows.
    pub level: Option<LevelCost>,
    /// Tokens a second of the answers.
    pub rate: f64,
    /// Tokens a round.
    pub tau: f64,
}

/// Measures for about `limit`: both devices, then placements in the order of what is expected of
/// them, the best without a GPU first. What the time does not suffice for is left out, and the
/// report says so. The inner error says why there is nothing to measure.
///
/// # Errors
/// [`StartError`] if the models cannot be opened.
pub fn run(
    settings: &Settings,
    machine: &Machine,
    limit: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<Result<GpuReport, String>, StartError> {
    let began = Instant::now();
    let found = load::placements(settings, machine, &mut |stage, _| progress(stage))?;
    let found = match found {
        Ok(found) => found,
        Err(why) => return Ok(Err(messages::no_forecast(&why))),
    };
    // Placements are measured without the streaming of prompts, which is measured by itself.
    let settings = &Settings { prefill: PrefillDevice::Cpu, ..settings.clone() };
    let mut measuring = Measuring { settings, machine, found: &found, prompts: Vec::new() };
    let mut runs: Vec<PlacedRun> = Vec::new();
    let order = in_turn(&found);
    for expected in &order {
        // The best of each kind is measured in any case.
        if runs.len() >= 2 && began.elapsed() >= limit {
            break;
        }
        progress(&messages::placement(expected));
        let found = measuring.placed(expected, progress);
        runs.push(PlacedRun { expected: *expected, found });
    }
    progress("a prompt, streamed to the GPU");
    measuring.streamed(&order, progress);
    let prompts = measuring.prompts;
    let left_out = order.len() - runs.len();
    Ok(Ok(GpuReport::new(machine, settings, found, (runs, left_out), prompts)))
}

/// The placements: the best without a GPU, the best of all, the target alone by its blocks on the
/// GPU, then the others from the fastest on.
fn in_turn(found: &Placements) -> Vec<PlacementForecast> {
    let on_cpu: Vec<_> = found.rows.iter().copied().filter(|row| row.is_on_cpu()).collect();
    let mut rest = found.rows.clone();
    rest.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    let first = best_placement(&on_cpu).copied().into_iter().chain([found.best]);
    let mut all: Vec<PlacementForecast> = Vec::new();
    for row in first.chain(found.by_layers.iter().copied()).chain(rest) {
        if !all.contains(&row) {
            all.push(row);
        }
    }
    all
}

/// What is measured with, and the prompts that were read so far.
struct Measuring<'a> {
    settings: &'a Settings,
    machine: &'a Machine,
    found: &'a Placements,
    prompts: Vec<PromptRun>,
}

impl Measuring<'_> {
    /// Times of a placement, and of its target's reading if none has read with as many blocks on
    /// the GPU.
    fn placed(
        &mut self,
        expected: &PlacementForecast,
        progress: &mut dyn FnMut(&str),
    ) -> Result<PlacedTimes, String> {
        let mut loaded = self.load(self.settings, expected, progress)?;
        let layers = expected.layers;
        let is_new = self.prompts.iter().all(|run| run.layers != layers);
        if let Some(forecast) = self.found.prefill.filter(|_| is_new) {
            let tokens = prompts::tokens(&forecast, loaded.setup.context);
            let found = prompts::rate(loaded.target.as_mut(), tokens);
            let found = found.map_err(|error| error.to_string());
            let expected = (layers == 0).then_some(forecast.cpu);
            self.prompts.push(PromptRun { tokens, layers, streamed: false, expected, found });
        }
        answers(loaded)
    }

    /// Reads a prompt with the whole target on the CPU and its blocks streamed to the GPU.
    fn streamed(&mut self, all: &[PlacementForecast], progress: &mut dyn FnMut(&str)) {
        let plain = all.iter().find(|row| row.layers == 0 && row.draft == DrafterId::None);
        let (Some(forecast), Some(plain)) = (self.found.prefill, plain) else { return };
        let settings = Settings { prefill: PrefillDevice::Gpu, ..self.settings.clone() };
        let mut tokens = 0;
        let found = self.load(&settings, plain, progress).and_then(|mut loaded| {
            if loaded.setup.prompts_on.is_none() {
                return Err(messages::notices(&loaded.setup.notices).join(" "));
            }
            tokens = prompts::tokens(&forecast, loaded.setup.context);
            prompts::rate(loaded.target.as_mut(), tokens).map_err(|error| error.to_string())
        });
        let expected = Some(forecast.gpu);
        self.prompts.push(PromptRun { tokens, layers: 0, streamed: true, expected, found });
    }

    /// Target and draft where `placement` has them.
    fn load(
        &self,
        settings: &Settings,
        placement: &PlacementForecast,
        progress: &mut dyn FnMut(&str),
    ) -> Result<LoadedModels, String> {
        let loaded =
            load::load_placed(settings, self.machine, placement, &mut |stage, _| progress(stage));
        let loaded = loaded.map_err(|error| messages::start_error(&error))?;
        match &loaded.misplaced {
            Some(notice) => Err(messages::notice(notice)),
            None => Ok(loaded),
        }
    }
}

/// Times of what was loaded, and of short greedy answers.
fn answers(loaded: LoadedModels) -> Result<PlacedTimes, String> {
    let (verify, levels) = (loaded.setup.verify_times.clone(), loaded.levels.clone());
    let mut backend = Backend::from(loaded);
    let (mut tokens, mut rounds, mut ms) = (0usize, 0usize, 0.0);
    for (number, prompt) in PROMPTS.iter().enumerate() {
        let generation = number as u64 + 1;
        let controls = SharedControls::new(Controls { generation, ..Controls::default() });
        let messages = vec![Message::new(Role::User, (*prompt).to_owned())];
        let job = Job { generation, messages, max_tokens: TOKENS, ..Job::default() };
        let mut failure = None;
        backend.answer(&job, &controls, &mut |event| {
            match event {
                Event::Finished { summary, .. } => {
                    // The prefill gave the first token.
                    tokens += summary.tokens.saturating_sub(1);
                    rounds += summary.rounds;
                    ms += summary.timing.total_ms();
                }
                Event::Failed { error, .. } => failure = Some(error),
                _ => {}
            }
            true
        });
        if let Some(error) = failure {
            return Err(error);
        }
    }
    let rate = if ms > 0.0 { tokens as f64 * 1e3 / ms } else { 0.0 };
    let tau = tokens as f64 / rounds.max(1) as f64;
    let level = levels.into_iter().map(|(_, level)| level).next();
    Ok(PlacedTimes { verify, level, rate, tau })
}
