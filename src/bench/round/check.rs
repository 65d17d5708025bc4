//! Decodes recorded questions for real under settings that a prediction was made for, as the bench
//! does: every answer reads its prompt anew, and counts from its first token to its end. Must never
//! predict.

use std::time::Instant;

use super::accept::AcceptanceProfile;
use super::predict::{Check, Prediction, Won};
use super::turned::Turned;
use crate::plan::Strategy;
use crate::record::Question;
use crate::worker::{Backend, Controls, Event, Job, SharedControls};

/// How many settings are decoded.
const SETTINGS: usize = 5;
/// How often each question is answered under each.
const PASSES: usize = 2;

/// What the answers under one setting came to.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    tokens: f64,
    rounds: f64,
    seconds: f64,
}

/// γ and M or k of the settings to decode: those that the profile tells of without having been
/// recorded, spread over the range.
pub fn check_settings(
    prediction: &Prediction,
    profile: &AcceptanceProfile,
) -> Vec<(usize, Turned)> {
    let told = prediction.drafting().filter(|point| point.tokens_s.is_some());
    let settings = told.filter_map(|point| Some((point.gamma, point.turned?)));
    let other = settings.filter(|(gamma, turned)| profile.most_gamma(*turned) != *gamma);
    let all: Vec<(usize, Turned)> = other.collect();
    let count = all.len().min(SETTINGS);
    (0..count).map(|at| all[at * all.len() / count]).collect()
}

/// Tokens a second of every setting over all `questions`, each setting in turn, under a strategy
/// with this width and depth beside what is turned, beside what was predicted. `wanted` is false
/// once the user has had enough.
///
/// # Errors
/// What the first answer that failed says.
pub fn decode(
    backend: &mut Backend,
    controls: &SharedControls,
    questions: &[Question],
    (strategy, shape): (&'static Strategy, (usize, usize)),
    (prediction, settings): (&Prediction, &[(usize, Turned)]),
    wanted: &dyn Fn() -> bool,
) -> Result<Vec<Check>, String> {
    let mut sums = vec![Sums::default(); settings.len()];
    let mut generation = 0;
    // The first pass warms up.
    for pass in 0..=PASSES {
        for question in questions {
            for (&(gamma, turned), sums) in settings.iter().zip(&mut sums) {
                let Some(budget) = turned.budget(strategy, gamma, shape) else { continue };
                if !wanted() {
                    return Ok(Vec::new());
                }
                generation += 1;
                let tree = turned.overrides(&budget);
                let sampler = question.sampler;
                controls.update(|controls| {
                    let strategy = Some(strategy);
                    *controls =
                        Controls { strategy, tree, sampler, generation, ..Controls::default() };
                });
                let job = Job {
                    generation,
                    messages: question.messages.clone(),
                    max_tokens: question.max_tokens,
                    thinking: question.thinking,
                    ..Job::default()
                };
                let (mut first, mut last, mut failed) = (None, None, None);
                let (mut count, mut rounds) = (0usize, 0usize);
                backend.engine.forget();
                backend.answer(&job, controls, &mut |event| {
                    match event {
                        Event::First { .. } => first = Some(Instant::now()),
                        Event::Round { round, .. } => {
                            count += round.committed.len();
                            rounds += 1;
                        }
                        Event::Finished { .. } => last = Some(Instant::now()),
                        Event::Failed { error, .. } => failed = Some(error),
                        _ => {}
                    }
                    true
                });
                if let Some(error) = failed {
                    return Err(error);
                }
                if let (Some(first), Some(last), true) = (first, last, pass > 0) {
                    sums.tokens += count as f64;
                    sums.rounds += rounds as f64;
                    sums.seconds += last.duration_since(first).as_secs_f64();
                }
            }
        }
    }
    let check = |(&(gamma, turned), sums): (&(usize, Turned), &Sums)| {
        let point = prediction.at(gamma, turned)?;
        let expected = Won { tau: 1.0 + point.accepted?, round_ms: point.round_ms };
        let Sums { tokens, rounds, seconds } = *sums;
        let decoded = Won { tau: tokens / rounds, round_ms: 1e3 * seconds / rounds };
        let (predicted, measured) = (point.tokens_s?, tokens / seconds);
        let counts = seconds > 0.0 && rounds > 0.0;
        counts.then_some(Check { gamma, turned, predicted, measured, expected, decoded })
    };
    Ok(settings.iter().zip(&sums).filter_map(check).collect())
}
