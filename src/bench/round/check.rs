//! Decodes recorded questions for real under settings that a prediction was made for, as the bench
//! does: every answer reads its prompt anew, and counts from its first token to its end. Must never
//! predict.

use std::time::Instant;

use super::accept::AcceptanceProfile;
use super::predict::{Check, Prediction};
use crate::plan::{Setting, Strategy, TreeOverrides};
use crate::worker::record::Question;
use crate::worker::{Backend, Controls, Event, Job, SharedControls};

/// How many settings are decoded.
const SETTINGS: usize = 5;
/// How often each question is answered under each.
const PASSES: usize = 2;

/// γ and M of the settings to decode: those that the profile tells of without having been recorded,
/// spread over the range.
pub fn check_settings(prediction: &Prediction, profile: &AcceptanceProfile) -> Vec<(usize, usize)> {
    let told = prediction.drafting().filter(|point| point.tokens_s.is_some());
    let settings = told.filter_map(|point| Some((point.gamma, point.blocks?)));
    let other = settings.filter(|(gamma, blocks)| profile.most_gamma(*blocks) != *gamma);
    let all: Vec<(usize, usize)> = other.collect();
    let count = all.len().min(SETTINGS);
    (0..count).map(|at| all[at * all.len() / count]).collect()
}

/// Tokens a second of every setting over all `questions`, each setting in turn, under a strategy
/// with trees of this width and depth, beside what was predicted. `wanted` is false
/// once the user has had enough.
///
/// # Errors
/// What the first answer that failed says.
pub fn decode(
    backend: &mut Backend,
    controls: &SharedControls,
    questions: &[Question],
    (strategy, (width, depth)): (&'static Strategy, (usize, usize)),
    (prediction, settings): (&Prediction, &[(usize, usize)]),
    wanted: &dyn Fn() -> bool,
) -> Result<Vec<Check>, String> {
    let mut sums = vec![(0.0, 0.0); settings.len()];
    let mut generation = 0;
    // The first pass warms up.
    for pass in 0..=PASSES {
        for question in questions {
            for (&(gamma, blocks), (tokens, seconds)) in settings.iter().zip(&mut sums) {
                if !wanted() {
                    return Ok(Vec::new());
                }
                generation += 1;
                let fixed = Setting::Fixed;
                let tree = TreeOverrides {
                    gamma: fixed(gamma),
                    blocks: if blocks == 0 { Setting::Auto } else { fixed(blocks) },
                    width: fixed(width),
                    depth: fixed(depth),
                };
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
    let check = |(&(gamma, blocks), (tokens, seconds)): (&(usize, usize), &(f64, f64))| {
        let predicted = prediction.at(gamma, blocks)?.tokens_s?;
        (*seconds > 0.0).then(|| Check { gamma, blocks, predicted, measured: tokens / seconds })
    };
    Ok(settings.iter().zip(&sums).filter_map(check).collect())
}
