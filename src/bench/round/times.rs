//! Times of real rounds over γ × M: one generation, whose rounds take the budgets in turn. Must
//! never know where the models come from.

use std::time::Instant;

use crate::bench::MeasureError;
use crate::decode::{DecodeError, Engine, Request, RoundOptions, TokenText};
use crate::draft::Budget;
use crate::speculate::{SamplerSettings, Shape};

/// Rounds of each budget that count at most.
const TURNS: usize = 9;

/// What is measured.
#[derive(Clone, Debug)]
pub struct TimesRequest {
    /// The text in front of the rounds.
    pub prompt: Vec<u32>,
    /// Numbers of nodes.
    pub gammas: Vec<usize>,
    /// Numbers of blocks.
    pub blocks: Vec<usize>,
    /// k.
    pub width: usize,
    /// D.
    pub depth: usize,
    /// The drafter's index in the engine.
    pub drafter: usize,
    /// No further turn is begun after this.
    pub until: Instant,
}

/// Medians of one budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundTimes {
    /// γ.
    pub gamma: usize,
    /// M.
    pub blocks: usize,
    /// T_D.
    pub draft_ms: f64,
    /// T_V.
    pub verify_ms: f64,
    /// Acceptance and commit.
    pub other_ms: f64,
}

impl RoundTimes {
    /// A whole round.
    pub fn total_ms(&self) -> f64 {
        self.draft_ms + self.verify_ms + self.other_ms
    }
}

/// Measures every budget. `report` is told M before its rounds.
///
/// # Errors
/// [`MeasureError::Options`] if there is nothing to measure or no room for it;
/// [`MeasureError::Pass`] if the target fails.
pub fn measure(
    engine: &mut Engine,
    names: &dyn TokenText,
    request: &TimesRequest,
    report: &mut dyn FnMut(usize),
) -> Result<Vec<RoundTimes>, MeasureError> {
    if request.gammas.contains(&0) || request.gammas.is_empty() || request.blocks.is_empty() {
        let reason = "γ counts the root, so it is at least 1; give --gammas 1,8,16";
        return Err(MeasureError::Options(reason.to_owned()));
    }
    let mut all = Vec::new();
    let count = request.blocks.len() as u32;
    let begun = Instant::now();
    let share = request.until.saturating_duration_since(begun) / count.max(1);
    for (number, &blocks) in request.blocks.iter().enumerate() {
        report(blocks);
        let until = begun + share * (number as u32 + 1);
        all.extend(of_blocks(engine, names, request, blocks, until)?);
    }
    Ok(all)
}

/// All γ in turn, over and over, so that a change in the machine's state meets all of them.
fn of_blocks(
    engine: &mut Engine,
    names: &dyn TokenText,
    request: &TimesRequest,
    blocks: usize,
    until: Instant,
) -> Result<Vec<RoundTimes>, MeasureError> {
    let mut samples = vec![Vec::new(); request.gammas.len()];
    let options = |gamma: usize| {
        let shape = Shape { gamma, width: request.width, depth: request.depth };
        let sampler = SamplerSettings { temperature: 0.0, ..SamplerSettings::default() };
        RoundOptions {
            drafter: request.drafter,
            ..RoundOptions::new(Budget::new(shape, blocks), sampler)
        }
    };
    // The first turn warms up: blocks that have not read the prompt read it in it.
    let mut turn = 0;
    while turn <= TURNS && (turn < 2 || Instant::now() < until) {
        // The prompt stays in the caches: only what rounds added to it goes.
        let prompt = request.prompt.clone();
        let max_tokens = engine.target().capacity();
        let wanted = Request { prompt, max_tokens, eos: Vec::new(), stop: Vec::new() };
        let mut answer = engine.generate(wanted, names).map_err(failed)?;
        answer.first_token(&options(1)).map_err(failed)?;
        // Once around for the drafter, then until there is no room.
        let mut warm = false;
        let before = turn;
        'turns: while turn <= TURNS && (turn < 2 || Instant::now() < until) {
            for (&gamma, samples) in request.gammas.iter().zip(&mut samples) {
                if !warm {
                    let most = request.gammas.iter().copied().max().unwrap_or(1);
                    if answer.finish().is_none() {
                        answer.step(&options(most)).map_err(failed)?;
                    }
                    warm = true;
                }
                if answer.finish().is_some() {
                    break 'turns;
                }
                let round = answer.step(&options(gamma)).map_err(failed)?;
                // A tree that the end of the context has cut is none of this size.
                if turn > 0 && round.finish.is_none() && round.tree.len() <= gamma {
                    samples.push(round.timing);
                }
            }
            turn += 1;
        }
        if turn == before {
            return Err(MeasureError::Options(format!(
                "a prompt of {} tokens leaves no room for rounds in a context of {}",
                request.prompt.len(),
                engine.target().capacity()
            )));
        }
    }
    let gammas = request.gammas.iter().zip(&samples);
    Ok(gammas
        .map(|(&gamma, samples)| RoundTimes {
            gamma,
            blocks,
            draft_ms: median(samples.iter().map(|timing| timing.draft_ms).collect()),
            verify_ms: median(samples.iter().map(|timing| timing.verify_ms).collect()),
            other_ms: median(samples.iter().map(|timing| timing.other_ms).collect()),
        })
        .collect())
}

fn failed(error: DecodeError) -> MeasureError {
    match error {
        DecodeError::Target(error) => MeasureError::Pass(error),
        other => MeasureError::Options(other.to_string()),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
