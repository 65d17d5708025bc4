//! Decodes recorded questions for real under settings that a prediction was made for, as the bench
//! does: every answer reads its prompt anew, and counts from its first token to its end. Must never
//! predict.

use std::time::Instant;

use super::accept::AcceptanceProfile;
use super::predict::{Check, Prediction};
use super::turned::Turned;
use crate::plan::Strategy;
use crate::worker::record::Question;
use crate::worker::{Backend, Controls, Event, Job, SharedControls};

/// How many settings are decoded.
const SETTINGS: usize = 5;
/// How often each question is answered under each.
const PASSES: usize = 2;

/// γ and M or k of the settings to decode: those that the profile tells of without having been recorded,
/// spread over the range.
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
    let mut sums = vec![(0.0, 0.0); settings.len()];
    let mut generation = 0;
    // The first pass warms up.
    for pass in 0..=PASSES {
        for question in questions {
            for (&(gamma, turned), (tokens, seconds)) in settings.iter().zip(&mut sums) {
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
                let (mut first, mut last, mut count, mut failed) = (None, None, 0usize, None);
                backend.engine.forget();
                backend.answer(&job, controls, &mut |event| {
                    match event {
                        Event::First { .. } => first = Some(Instant::now()),
                        Event::Round { round, .. } => count += round.committed.len(),
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
                    *tokens += count as f64;
                    *seconds += last.duration_since(first).as_secs_f64();
                }
            }
        }
    }
    let check = |(&(gamma, turned), (tokens, seconds)): (&(usize, Turned), &(f64, f64))| {
        let predicted = prediction.at(gamma, turned)?.tokens_s?;
        (*seconds > 0.0).then(|| Check { gamma, turned, predicted, measured: tokens / seconds })
    };
    Ok(settings.iter().zip(&sums).filter_map(check).collect())
}
