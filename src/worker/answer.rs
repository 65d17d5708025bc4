//! One answer, from a job to its last event: the code that the thread, `run` and `bench` share. It
//! must not depend on who receives the events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::gate::RoundGate;
use super::repetition::RepetitionDetector;
use super::thoughts::{Begun, Thoughts};
use super::{Backend, Controls, Event, Job, Planner, PromptTokens, RoundPlan, SharedControls};
use crate::chat::{Message, Role};
use crate::decode::{Committed, DecodeError, Generation, Request, RoundOptions, Summary};
use crate::overlap::{PassListener, TellTimes};
use crate::plan::{DraftKind, Schedule};
use crate::speculate::SamplerSettings;

/// The numbers in the planner's reasons change with every round; they are sent again after this
/// time, and when an answer has ended.
const REASONS_AGE: Duration = Duration::from_secs(1);

/// When a round that is being verified is reported: until then the result of the previous round
/// stays visible, and a screen shows at most 30 frames per second.
const TELL_TIMES: TellTimes =
    TellTimes { after: Duration::from_millis(100), every: Duration::from_millis(33) };

/// Receives events while the decode thread works for the target. It is called on the drafter's
/// thread, which it must not block.
pub(super) type Watcher = Arc<dyn Fn(Event) + Send + Sync>;

/// Why an answer ended without a summary.
enum AnswerError {
    Failed(String),
    /// The receiver of the events is gone.
    ReceiverGone,
}

impl From<DecodeError> for AnswerError {
    fn from(error: DecodeError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Backend {
    /// Generates the answer to `job` and sends every step to `sink`; the last event is `Finished`
    /// or `Failed`. Stops between prefill slices and rounds when `Controls::generation` is not the
    /// job's, so set it first. Returns `false` if `sink` did, that is, if the receiver is gone.
    pub fn answer(
        &mut self,
        job: &Job,
        controls: &SharedControls,
        sink: &mut dyn FnMut(Event) -> bool,
    ) -> bool {
        self.answer_watched(job, controls, sink, None)
    }

    /// As [`Self::answer`], but also reports rounds to `watcher` while the target verifies them and
    /// `Controls::watched` is set.
    pub(super) fn answer_watched(
        &mut self,
        job: &Job,
        controls: &SharedControls,
        sink: &mut dyn FnMut(Event) -> bool,
        watcher: Option<Watcher>,
    ) -> bool {
        let generation = job.generation;
        let listener = watcher.map(|watcher| {
            let tell =
                move |round| watcher(Event::Verifying { generation, round: Box::new(round) });
            let names = Arc::clone(&self.names);
            PassListener::new(move |token| names.label(token), TELL_TIMES, tell)
        });
        let worked = self.work(job, controls, sink, listener);
        self.planner.answered();
        let last = match worked {
            Ok(summary) => Event::Finished { generation, summary: Box::new(summary) },
            Err(AnswerError::Failed(error)) => {
                Event::Failed { generation: Some(generation), error }
            }
            Err(AnswerError::ReceiverGone) => return false,
        };
        sink(last)
    }

    fn work(
        &mut self,
        job: &Job,
        controls: &SharedControls,
        sink: &mut dyn FnMut(Event) -> bool,
        listener: Option<PassListener>,
    ) -> Result<Summary, AnswerError> {
        let generation = job.generation;
        let mut send = |event| if sink(event) { Ok(()) } else { Err(AnswerError::ReceiverGone) };
        let mut gate = RoundGate::new(generation, controls);
        if job.afresh {
            self.engine.start_over();
        }
        let prompt = (self.prompter)(&job.messages, job.thinking).map_err(AnswerError::Failed)?;
        let PromptTokens { tokens, opened, begun, asked } = prompt;
        if let Some(keeper) = &mut self.snapshots {
            keeper.begin(job.conversation.as_deref());
            if !job.afresh {
                keeper.recall(&mut self.engine, &tokens);
            }
        }
        let names = self.names.as_ref();
        let mut thoughts = Thoughts::new(opened);
        let begun = match job.messages.last().filter(|last| last.role == Role::Assistant) {
            Some(message) => {
                // Other tokens may spell the same text; those that were decoded take precedence.
                let kept = self.engine.text_after(&tokens).and_then(|kept| {
                    Some(&kept[..Begun::length_of(message, kept, names, opened)?])
                });
                let begun = kept.map_or(begun, <[u32]>::to_vec);
                thoughts = Begun::read(&begun, names, opened).thoughts;
                begun
            }
            None => Vec::new(),
        };
        let request = Request {
            prompt: [tokens.as_slice(), begun.as_slice()].concat(),
            max_tokens: job.max_tokens,
            eos: self.eos.clone(),
            stop: self.stop.clone(),
            asked,
        };
        let planner = self.planner.as_mut();
        let mut answer = match self.engine.generate(request, names) {
            Ok(answer) => answer,
            Err(error) => {
                // The screen shows by how much the prompt is too long, and what would help.
                if let DecodeError::PromptTooLong { tokens: total, .. } = error {
                    let alone = (self.prompter)(&alone(&job.messages), job.thinking);
                    let alone = alone.ok().map(|alone| alone.tokens.len() + alone.begun.len());
                    send(Event::TooLong { generation, total, alone })?;
                }
                return Err(error.into());
            }
        };
        answer.go_on_from(&begun);
        let Summary { prompt_tokens, reused_tokens, .. } = *answer.summary();
        planner.begin_answer(prompt_tokens, reused_tokens);
        let cancelled = |mut answer: Generation<'_>| {
            answer.cancel();
            Ok(answer.summary().clone())
        };

        let mut progress = answer.progress();
        loop {
            let done = progress.done;
            let total = progress.total;
            send(Event::Prefill { generation, done, total })?;
            if gate.cancelled(controls) {
                return cancelled(answer);
            }
            if progress.is_complete() {
                break;
            }
            progress = answer.prefill()?;
            notices(&mut answer, &mut send)?;
        }
        let mut token = answer.first_token(&options(planner, &controls.get()))?;
        let mut repetition = RepetitionDetector::new();
        repetition.push(token.token, &token.text);
        thoughts.split(std::slice::from_mut(&mut token), answer.finish().is_some(), names);
        let summary = Box::new(answer.summary().clone());
        send(Event::First { generation, token, summary })?;

        let mut told = Instant::now();
        while answer.finish().is_none() {
            gate.keep_pace(controls);
            let Some(now) = gate.pass(controls) else { return cancelled(answer) };
            let planning = Instant::now();
            let options = options(planner, &now);
            let chosen = planning.elapsed();
            answer.watch(if now.watched { listener.clone() } else { None });
            let mut round = answer.step(&options)?;
            // Before the thoughts lose their text, because a model may also think in circles.
            let repeats = noticed(&mut repetition, &round.committed);
            thoughts.split(&mut round.committed, round.finish.is_some(), names);
            let learning = Instant::now();
            planner.observe(&round);
            round.timing.plan_ms = (chosen + learning.elapsed()).as_secs_f64() * 1e3;
            answer.count_planning(round.timing.plan_ms);
            if round.finish.is_some() || told.elapsed() >= REASONS_AGE {
                planner.repeat_reasons();
                told = Instant::now();
            }
            if let Some(reasons) = planner.take_new_reasons() {
                send(Event::Reasons(reasons))?;
            }
            notices(&mut answer, &mut send)?;
            send(Event::Round { generation, round: Box::new(round) })?;
            if repeats {
                send(Event::Notice(repetition_remedy(&now.sampler)))?;
            }
        }
        Ok(answer.summary().clone())
    }
}

/// The conversation without what was said before the last message: its system prompt, and the last
/// question with the beginning of the answer to it, if there is one.
fn alone(messages: &[Message]) -> Vec<Message> {
    let asked = messages.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
    let kept = |(at, message): &(usize, &Message)| *at >= asked || message.role == Role::System;
    messages.iter().enumerate().filter(kept).map(|(_, message)| message.clone()).collect()
}

fn options(planner: &mut dyn Planner, controls: &Controls) -> RoundOptions {
    let RoundPlan { strategy, drafter, budget, verify_times, rival } = planner.choose(controls);
    RoundOptions {
        budget,
        speculate: controls.speculate && drafter.is_some(),
        sampler: controls.sampler,
        drafter: drafter.unwrap_or_default(),
        strategy: strategy.name,
        schedule: match strategy.draft {
            // The first drafter takes no time that could be saved; its rival has its own schedule.
            DraftKind::Auto => Schedule::Alternate,
            _ => strategy.schedule_with(controls.overlap),
        },
        coupled: controls.coupled,
        verify_times,
        rival,
    }
}

/// Whether the answer begins to repeat itself with these tokens.
fn noticed(repetition: &mut RepetitionDetector, tokens: &[Committed]) -> bool {
    tokens.iter().any(|next| repetition.push(next.token, &next.text))
}

/// What to change if an answer repeats itself.
fn repetition_remedy(sampler: &SamplerSettings) -> String {
    let SamplerSettings { temperature, repetition_penalty, .. } = sampler;
    let penalty = (repetition_penalty + 0.1).max(1.1);
    let warmer = (temperature + 0.3).max(0.7);
    format!(
        "The answer repeats itself. Raise `repetition_penalty` (now {repetition_penalty}) or \
         `temperature` (now {temperature}): in the chat, /repetition-penalty {penalty:.1} or \
         /temperature {warmer:.1}."
    )
}

fn notices(
    answer: &mut Generation<'_>,
    send: &mut impl FnMut(Event) -> Result<(), AnswerError>,
) -> Result<(), AnswerError> {
    answer.take_notices().into_iter().try_for_each(|text| send(Event::Notice(text)))
}
