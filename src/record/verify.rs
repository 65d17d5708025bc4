//! Decodes a recorded question again without speculation and compares the tokens. It must not
//! depend on files.

use super::RecordedAnswer;
use crate::decode::{Committed, Finish};
use crate::plan::Strategy;
use crate::speculate::SamplerSettings;
use crate::worker::{Backend, Controls, Event, Job, SharedControls};

/// The result of checking an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Every recorded token is the target's, except for those that the user forced.
    Same {
        /// How many, forced ones included.
        tokens: usize,
    },
    /// The same of the tokens from the latest forced one on, but not of those before it: they come
    /// from a version that was sampled otherwise.
    SameAfter {
        /// How many tokens come before.
        begun: usize,
        /// How many follow, the forced one included.
        tokens: usize,
    },
    /// A token differs.
    Differs {
        /// Which one, starting at 0.
        at: usize,
        /// Its recorded text; `None` if the record ends before it.
        recorded: Option<String>,
        /// The target's token there; `None` if its answer ends before it.
        plain: Option<String>,
    },
    /// It could not be decoded again.
    Failed(String),
    /// The user stopped it.
    Stopped,
}

/// Decodes the question of `answer` without speculation, with the forced tokens in their places.
/// `generation` must be new to `controls`; setting another number there stops it.
pub fn verify_answer(
    backend: &mut Backend,
    controls: &SharedControls,
    generation: u64,
    answer: &RecordedAnswer,
) -> Finding {
    let begun = answer.question.begun.len();
    match verify_from(0, backend, controls, generation, answer) {
        Finding::Differs { at, .. } if at < begun => {
            match verify_from(begun, backend, controls, generation, answer) {
                Finding::Same { tokens } => Finding::SameAfter { begun, tokens },
                other => other,
            }
        }
        other => other,
    }
}

/// The same for the tokens from number `from` on; those before it are given.
fn verify_from(
    from: usize,
    backend: &mut Backend,
    controls: &SharedControls,
    generation: u64,
    answer: &RecordedAnswer,
) -> Finding {
    let question = &answer.question;
    let (begun, rest) = question.begun.split_at(from);
    let tokens = [rest, &answer.tokens].concat();
    let job = Job {
        generation,
        messages: question.messages.clone(),
        // An answer that was cut off is compared as far as it goes.
        max_tokens: match answer.complete {
            true => question.max_tokens.saturating_add(rest.len()),
            false => tokens.len().max(1),
        },
        thinking: question.thinking,
        begun: begun.to_vec(),
        forced: question.forced.clone(),
        ..Job::default()
    };
    let mut plain: Vec<Committed> = Vec::new();
    let hear = &mut |tokens: &[Committed]| plain.extend_from_slice(tokens);
    let decoded = decode_plainly(backend, controls, &job, question.sampler, hear);
    if controls.get().generation != generation {
        return Finding::Stopped;
    }
    if let Err(error) = decoded {
        return Finding::Failed(error);
    }
    if !answer.complete {
        plain.truncate(tokens.len());
    }
    let same = plain.iter().zip(&tokens).take_while(|(plain, own)| plain.token == **own);
    let alike = same.count();
    if alike == plain.len() && alike == tokens.len() {
        return Finding::Same { tokens: alike };
    }
    Finding::Differs {
        at: from + alike,
        recorded: alike.checked_sub(rest.len()).and_then(|at| answer.texts.get(at).cloned()),
        plain: plain.get(alike).map(|committed| committed.text.clone()),
    }
}

/// Decodes a job with the target alone, as long as its generation is that of `controls`; `hear`
/// gets the tokens as they come. Why the answer ended, if it did.
///
/// # Errors
/// It failed.
pub fn decode_plainly(
    backend: &mut Backend,
    controls: &SharedControls,
    job: &Job,
    sampler: SamplerSettings,
    hear: &mut dyn FnMut(&[Committed]),
) -> Result<Option<Finish>, String> {
    let strategy = Strategy::named("plain");
    let generation = job.generation;
    controls.update(|controls| {
        let speculate = false;
        *controls = Controls { speculate, strategy, sampler, generation, ..Controls::default() };
    });
    let mut ended = Ok(None);
    backend.answer(job, controls, &mut |event| {
        hear(event.committed());
        match event {
            Event::Finished { summary, .. } => ended = Ok(summary.finish),
            Event::Failed { error, .. } => ended = Err(error),
            _ => {}
        }
        true
    });
    ended
}
