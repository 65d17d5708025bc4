//! One answer, from a job to its last event: the code that the thread, `run` and `bench` share. It
//! must not depend on who receives the events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::gate::RoundGate;
use super::repetition::RepetitionDetector;
use super::thoughts::{Thoughts, length_of};
use super::{Backend, Controls, Event, Job, Planner, PromptTokens, SharedControls};
use crate::chat::{Message, Role};
use crate::decode::{DecodeError, Generation, PrefillProgress, Request, Summary, TokenText};
use crate::overlap::{PassListener, TellTimes};
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
        let mut gate = RoundGate::new(job.generation, controls);
        let prompt = self.prompt(job)?;
        let mut running = self.begin(job, prompt, sink)?;
        if !running.prefill(&gate)? {
            return Ok(running.cancel());
        }
        running.first_token(&gate.now())?;
        while running.answer.finish().is_none() {
            let Some(now) = gate.pass() else { return Ok(running.cancel()) };
            running.answer.watch(if now.watched { listener.clone() } else { None });
            running.round(&now)?;
        }
        Ok(running.answer.summary().clone())
    }

    /// The prompt of the job, with whose saved beginning the engine continues.
    fn prompt(&mut self, job: &Job) -> Result<BegunPrompt, AnswerError> {
        if job.afresh {
            self.engine.start_over();
        }
        let prompt = (self.prompter)(&job.messages, job.thinking).map_err(AnswerError::Failed)?;
        let PromptTokens { tokens, opened, mut begun, asked } = prompt;
        if let Some(keeper) = &mut self.snapshots {
            keeper.begin(job.conversation.as_deref());
            if !job.afresh {
                keeper.recall(&mut self.engine, &tokens);
            }
        }
        let names = self.names.as_ref();
        match job.messages.last() {
            Some(message) if message.role == Role::Assistant => {
                // Other tokens may spell the same text; those that were decoded take precedence.
                let decoded = self
                    .engine
                    .text_after(&tokens)
                    .and_then(|decoded| decoded.get(..length_of(message, decoded, names, opened)?));
                begun = decoded.map_or(begun, <[u32]>::to_vec);
            }
            _ => begun.clone_from(&job.begun),
        }
        let thoughts = Thoughts::after(&begun, names, opened);
        let forced = job.forced.iter();
        let forced = forced.filter_map(|&(at, token)| Some((at.checked_sub(begun.len())?, token)));
        let request = Request {
            prompt: [tokens, begun.clone()].concat(),
            max_tokens: job.max_tokens,
            eos: self.eos.clone(),
            stop: self.stop.clone(),
            asked,
            forced: forced.collect(),
        };
        Ok(BegunPrompt { request, begun, thoughts })
    }

    fn begin<'a>(
        &'a mut self,
        job: &Job,
        prompt: BegunPrompt,
        sink: &'a mut dyn FnMut(Event) -> bool,
    ) -> Result<RunningAnswer<'a>, AnswerError> {
        let generation = job.generation;
        let BegunPrompt { request, begun, thoughts } = prompt;
        let names = self.names.as_ref();
        let mut answer = match self.engine.generate(request, names) {
            Ok(answer) => answer,
            Err(error) => {
                // The screen shows by how much the prompt is too long, and what would help.
                if let DecodeError::PromptTooLong { tokens: total, .. } = error {
                    let alone = (self.prompter)(&alone(&job.messages), job.thinking);
                    let alone = alone.ok().map(|alone| alone.tokens.len() + alone.begun.len());
                    if !sink(Event::TooLong { generation, total, alone }) {
                        return Err(AnswerError::ReceiverGone);
                    }
                }
                return Err(error.into());
            }
        };
        answer.go_on_from(&begun);
        let planner = self.planner.as_mut();
        let Summary { prompt_tokens, reused_tokens, .. } = *answer.summary();
        planner.begin_answer(prompt_tokens, reused_tokens);
        let repetition = RepetitionDetector::new();
        let told = Instant::now();
        Ok(RunningAnswer { generation, answer, planner, names, sink, thoughts, repetition, told })
    }
}

/// A prompt with the beginning of the answer to it, if there is one.
struct BegunPrompt {
    request: Request,
    /// The last tokens of the prompt, which are the beginning of the answer.
    begun: Vec<u32>,
    /// The thoughts of the answer after its beginning.
    thoughts: Thoughts,
}

/// An answer that is being generated, and what the receiver of events learns about it.
struct RunningAnswer<'a> {
    generation: u64,
    answer: Generation<'a>,
    planner: &'a mut dyn Planner,
    names: &'a dyn TokenText,
    sink: &'a mut dyn FnMut(Event) -> bool,
    thoughts: Thoughts,
    repetition: RepetitionDetector,
    /// When the planner's reasons were last sent.
    told: Instant,
}

impl RunningAnswer<'_> {
    fn send(&mut self, event: Event) -> Result<(), AnswerError> {
        if (self.sink)(event) { Ok(()) } else { Err(AnswerError::ReceiverGone) }
    }

    fn send_notices(&mut self) -> Result<(), AnswerError> {
        for text in self.answer.take_notices() {
            self.send(Event::Notice(text))?;
        }
        Ok(())
    }

    fn cancel(mut self) -> Summary {
        self.answer.cancel();
        self.answer.summary().clone()
    }

    /// Reads the prompt. Returns `false` if the answer is no longer wanted.
    fn prefill(&mut self, gate: &RoundGate) -> Result<bool, AnswerError> {
        let generation = self.generation;
        self.answer.read_beside(&self.planner.choose(&gate.now()));
        let mut progress = self.answer.progress();
        loop {
            let PrefillProgress { done, total } = progress;
            self.send(Event::Prefill { generation, done, total })?;
            if gate.cancelled() {
                return Ok(false);
            }
            if progress.is_complete() {
                return Ok(true);
            }
            progress = self.answer.prefill()?;
            self.send_notices()?;
        }
    }

    fn first_token(&mut self, now: &Controls) -> Result<(), AnswerError> {
        let mut token = self.answer.first_token(&self.planner.choose(now))?;
        self.repetition.push(token.token, &token.text);
        let ends = self.answer.finish().is_some();
        self.thoughts.split(std::slice::from_mut(&mut token), ends, self.names);
        let summary = Box::new(self.answer.summary().clone());
        self.told = Instant::now();
        self.send(Event::First { generation: self.generation, token, summary })
    }

    fn round(&mut self, now: &Controls) -> Result<(), AnswerError> {
        let planning = Instant::now();
        let options = self.planner.choose(now);
        let chosen = planning.elapsed();
        let mut round = self.answer.round(&options)?;
        // Before the thoughts lose their text, because a model may also think in circles.
        let repetition = &mut self.repetition;
        let repeats = round.committed.iter().any(|next| repetition.push(next.token, &next.text));
        self.thoughts.split(&mut round.committed, round.finish.is_some(), self.names);
        let learning = Instant::now();
        self.planner.observe(&round);
        round.timing.plan_ms = (chosen + learning.elapsed()).as_secs_f64() * 1e3;
        self.answer.count_planning(round.timing.plan_ms);
        if round.finish.is_some() || self.told.elapsed() >= REASONS_AGE {
            self.planner.repeat_reasons();
            self.told = Instant::now();
        }
        if let Some(reasons) = self.planner.take_new_reasons() {
            self.send(Event::Reasons(reasons))?;
        }
        self.send_notices()?;
        self.send(Event::Round { generation: self.generation, round: Box::new(round) })?;
        if repeats {
            self.send(Event::Notice(repetition_remedy(&now.sampler)))?;
        }
        Ok(())
    }
}

/// The conversation without what was said before the last message: its system prompt, and the last
/// question with the beginning of the answer to it, if there is one.
fn alone(messages: &[Message]) -> Vec<Message> {
    let asked = messages.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
    let (before, last) = messages.split_at(asked);
    let system = before.iter().filter(|message| message.role == Role::System);
    system.chain(last).cloned().collect()
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
