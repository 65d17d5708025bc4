//! `dovetail bench gpu`: what a GPU is worth here. Times of a block on both devices and of the bus,
//! what is expected of every placement of target and draft, and what the likeliest of them give:
//! T_V, T_D and tokens a second of short answers. Must never place anything in use.

mod report;

use std::time::{Duration, Instant};

use crate::chat::{Message, Role};
use crate::hardware::Machine;
use crate::plan::{LevelCost, PlacementForecast, best_placement};
use crate::settings::Settings;
use crate::worker::{
    self, Backend, Controls, Event, Job, Loaded, Placements, SharedControls, StartError,
};

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
    let found = worker::placements(settings, machine, &mut |stage, _| progress(stage))?;
    let found = match found {
        Ok(found) => found,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut runs: Vec<PlacedRun> = Vec::new();
    let order = in_turn(&found);
    for expected in &order {
        // The best of each kind is measured in any case.
        if runs.len() >= 2 && began.elapsed() >= limit {
            break;
        }
        progress(&expected.name());
        let loaded =
            worker::load_placed(settings, machine, expected, &mut |stage, _| progress(stage));
        let found = loaded.map_err(|error| error.to_string()).and_then(measure);
        runs.push(PlacedRun { expected: *expected, found });
    }
    let left_out = order.len() - runs.len();
    Ok(Ok(GpuReport::new(machine, settings, found, runs, left_out)))
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

/// Times of what was loaded, and of short greedy answers.
fn measure(loaded: Loaded) -> Result<PlacedTimes, String> {
    let (verify, levels) = (loaded.verify_times.clone(), loaded.levels.clone());
    if let Some(notice) = loaded.notices.first() {
        // It does not run where it was to.
        return Err(notice.clone());
    }
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
