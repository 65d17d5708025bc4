//! Decodes a recorded question again without speculation and compares the tokens. It must not
//! depend on files.

use super::RecordedAnswer;
use crate::decode::Committed;
use crate::plan::Strategy;
use crate::worker::{Backend, Controls, Event, Job, SharedControls};

/// The result of checking an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Every recorded token is the target's.
    Same {
        /// How many.
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

/// Decodes the question of `answer` without speculation. `generation` must be new to `controls`;
/// setting another number there stops it.
pub fn verify_answer(
    backend: &mut Backend,
    controls: &SharedControls,
    generation: u64,
    answer: &RecordedAnswer,
) -> Finding {
    let question = &answer.question;
    controls.update(|controls| {
        *controls = Controls {
            speculate: false,
            strategy: Strategy::named("plain"),
            sampler: question.sampler,
            generation,
            ..Controls::default()
        };
    });
    let job = Job {
        generation,
        messages: question.messages.clone(),
        // An answer that was cut off is compared as far as it goes.
        max_tokens: if answer.complete { question.max_tokens } else { answer.tokens.len().max(1) },
        thinking: question.thinking,
        ..Job::default()
    };
    let mut plain: Vec<Committed> = Vec::new();
    let mut failed = None;
    backend.answer(&job, controls, &mut |event| {
        match event {
            Event::First { token, .. } => plain.push(token),
            Event::Round { round, .. } => plain.extend(round.committed),
            Event::Failed { error, .. } => failed = Some(error),
            _ => {}
        }
        true
    });
    if controls.get().generation != generation {
        return Finding::Stopped;
    }
    if let Some(error) = failed {
        return Finding::Failed(error);
    }
    if !answer.complete {
        plain.truncate(answer.tokens.len());
    }
    let same = plain.iter().zip(&answer.tokens).take_while(|(plain, own)| plain.token == **own);
    let alike = same.count();
    if alike == plain.len() && alike == answer.tokens.len() {
        return Finding::Same { tokens: alike };
    }
    Finding::Differs {
        at: alike,
        recorded: answer.texts.get(alike).cloned(),
        plain: plain.get(alike).map(|committed| committed.text.clone()),
    }
}
