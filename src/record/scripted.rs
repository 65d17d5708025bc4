//! A worker without models: it plays a recorded trace through the same protocol, with pauses, steps
//! and cancellation, so that screens, pseudo-terminals and pipes can be tested exactly.
//!
//! A script is a file of JSON lines in the format of [`Line`], each with an optional `delay_ms`
//! before it. What precedes the first answer is played immediately. An answer is the lines up to
//! its `summary` (or `failed`); answers are played in turn, starting again with the first after the
//! last. Empty lines and lines that begin with `#` are skipped.

use super::{Line, Record, RecordError};
use crate::decode::{Finish, Origin, Round, Summary};
use crate::files::read_text;
use crate::speculate::Tree;
use crate::worker::{Command, Controls, Event, Job, RoundGate, SharedControls, Sink, Worker};
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;

/// The most bytes of a script.
const LONGEST: u64 = 64_000_000;

/// A line and how long it takes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Timed {
    #[serde(default)]
    delay_ms: f64,
    #[serde(flatten)]
    line: Line,
}

/// A checked script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    opening: Vec<Timed>,
    answers: Vec<Vec<Timed>>,
    /// For a record: whether the pace is set by something other than the rounds' own times.
    paced: Option<bool>,
}

impl Script {
    /// Reads a script file.
    ///
    /// # Errors
    /// [`RecordError::Failed`].
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        let text = read_text(path, LONGEST).map_err(|error| {
            RecordError::Failed(format!("cannot read the script {}: {error}", path.display()))
        })?;
        Self::parse(&text)
    }

    /// Reads a script from text.
    ///
    /// # Errors
    /// [`RecordError::Failed`].
    pub fn parse(text: &str) -> Result<Self, RecordError> {
        let mut all = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let timed: Timed = serde_json::from_str(line).map_err(|error| {
                RecordError::Failed(format!(
                    "line {number} of the script is not a line of a record: {error}"
                ))
            })?;
            all.push(timed);
        }
        Self::of(all)
    }

    /// The script of a record, with the times of its rounds unless `paced`, in which case something
    /// else sets the pace.
    ///
    /// # Errors
    /// None: an answer that was cut off ends there with an error of its own.
    pub fn of_record(record: &Record, paced: bool) -> Result<Self, RecordError> {
        let timed = |line: &Line| {
            let delay_ms = match line {
                Line::First { summary, .. } if !paced => summary.prefill_ms,
                // A round takes its time once it is known which round it is.
                _ => 0.0,
            };
            Timed { delay_ms, line: line.clone() }
        };
        let mut lines: Vec<Timed> = record.lines.iter().map(timed).collect();
        if record.answers.last().is_some_and(|answer| !answer.ended) {
            let error = "the record ends here".to_owned();
            lines.push(Timed { delay_ms: 0.0, line: Line::Failed { error } });
        }
        Ok(Self { paced: Some(paced), ..Self::of(lines)? })
    }

    /// Splits lines into those before the first answer, and answers.
    fn of(lines: Vec<Timed>) -> Result<Self, RecordError> {
        let mut script = Self::default();
        let mut answer = Vec::new();
        for timed in lines {
            let begins = matches!(
                timed.line,
                Line::Prefill { .. } | Line::First { .. } | Line::Round(_) | Line::Summary { .. }
            );
            let opening = script.answers.is_empty() && answer.is_empty() && !begins;
            if opening {
                script.opening.push(timed);
                continue;
            }
            let ends = matches!(timed.line, Line::Summary { .. } | Line::Failed { .. });
            answer.push(timed);
            if ends {
                script.answers.push(std::mem::take(&mut answer));
            }
        }
        if answer.is_empty() {
            return Ok(script);
        }
        let reason = "the script's last answer does not end with a `summary` or `failed` line";
        Err(RecordError::Failed(reason.to_owned()))
    }

    /// Plays the script on a worker thread.
    ///
    /// # Errors
    /// [`RecordError::Failed`] if the system refuses to start a thread.
    pub fn play(self, controls: SharedControls, sink: Sink) -> Result<Worker, RecordError> {
        let (sender, commands) = std::sync::mpsc::channel();
        let post = Box::new(move |command| sender.send(command).is_ok());
        let body = move |controls: SharedControls| {
            let mut player = Player { controls, sink, paced: self.paced };
            if !player.open(&self.opening) {
                return;
            }
            let mut turn = 0;
            for command in commands.iter() {
                let listening = match command {
                    Command::Generate(job) => {
                        let answer = self.answers.get(turn % self.answers.len().max(1));
                        turn += 1;
                        player.answer(&job, answer.map_or(&[], Vec::as_slice))
                    }
                    // There are no models to change.
                    Command::Load(job) => {
                        let error = Some("a replay cannot change models".to_owned());
                        (player.sink)(Event::NotSwapped { load: job.load, error })
                    }
                    Command::Discard(_) => true,
                };
                if !listening {
                    return;
                }
            }
        };
        Worker::start("dovetail-script", controls, post, body).map_err(|error| {
            RecordError::Failed(format!("cannot start the worker thread: {error}"))
        })
    }
}

struct Player {
    controls: SharedControls,
    sink: Sink,
    /// As in [`Script`].
    paced: Option<bool>,
}

impl Player {
    /// The lines before the first answer; `false` if the receiver is gone or loading failed.
    fn open(&mut self, lines: &[Timed]) -> bool {
        for Timed { delay_ms, line } in lines {
            std::thread::sleep(milliseconds(*delay_ms));
            // Nothing else can precede an answer.
            let Some(event) = self.event(None, line) else { continue };
            let failed = matches!(event, Event::Failed { .. });
            if !(self.sink)(event) || failed {
                return false;
            }
        }
        true
    }

    /// The event of a line that does not depend on the lines before it, in the answer `generation`
    /// or before the first.
    fn event(&self, generation: Option<u64>, line: &Line) -> Option<Event> {
        let sampled = |sampler| self.paced.map(|_| Event::Sampled(sampler));
        Some(match line.clone() {
            Line::Question(question) => return sampled(question.sampler),
            Line::Sampler { sampler } => return sampled(sampler),
            Line::Loading { stage, fraction } => Event::Loading { stage, fraction },
            Line::Ready(ready) => Event::Ready(ready),
            Line::Prefill { done, total } => {
                Event::Prefill { generation: generation?, done, total }
            }
            Line::Reasons { reasons } => generation.map(|_| Event::Reasons(reasons))?,
            Line::Notice { text } => Event::Notice(text),
            Line::Failed { error } => Event::Failed { generation, error },
            Line::Record(_) | Line::First { .. } | Line::Round(_) | Line::Summary { .. } => {
                return None;
            }
        })
    }

    /// One answer; `false` if the receiver is gone.
    fn answer(&mut self, job: &Job, lines: &[Timed]) -> bool {
        let generation = job.generation;
        let mut gate = RoundGate::new(generation, &self.controls);
        let mut summary = Summary::default();
        for Timed { delay_ms, line } in lines {
            if !gate.sleep(milliseconds(*delay_ms)) {
                return self.cancel(generation, summary);
            }
            let event = match line.clone() {
                Line::First { token, summary: first } => {
                    summary = (*first).clone();
                    Event::First { generation, token, summary: first }
                }
                Line::Round(round) => {
                    if !self.rounds(&mut gate, generation, &round, &mut summary) {
                        return self.cancel(generation, summary);
                    }
                    continue;
                }
                Line::Summary { summary, .. } => Event::Finished { generation, summary },
                line => match self.event(Some(generation), &line) {
                    Some(event) => event,
                    None => continue,
                },
            };
            if !(self.sink)(event) {
                return false;
            }
        }
        true
    }

    /// A recorded round: of a record as it was, of a script under the current controls, where it
    /// becomes one round per token with speculation off. `false` if it was no longer wanted.
    fn rounds(
        &mut self,
        gate: &mut RoundGate,
        generation: u64,
        recorded: &Round,
        summary: &mut Summary,
    ) -> bool {
        let mut left = recorded.committed.len();
        while left > 0 {
            let Some(controls) = gate.pass() else { return false };
            let done = recorded.committed.len() - left;
            let round = match self.paced {
                None => played(recorded, done, &controls, summary.rounds),
                Some(paced) => {
                    let spent = if paced { 0.0 } else { recorded.timing.total_ms() };
                    if !gate.sleep(milliseconds(spent)) {
                        return false;
                    }
                    Round { index: summary.rounds, ..recorded.clone() }
                }
            };
            left = left.saturating_sub(round.committed.len().max(1));
            summary.count(&round);
            if !(self.sink)(Event::Round { generation, round: Box::new(round) }) {
                return false;
            }
        }
        true
    }

    fn cancel(&mut self, generation: u64, mut summary: Summary) -> bool {
        summary.finish = Some(Finish::Cancelled);
        (self.sink)(Event::Finished { generation, summary: Box::new(summary) })
    }
}

/// The rest of `recorded` after `done` of its tokens, under the controls.
fn played(recorded: &Round, done: usize, controls: &Controls, index: usize) -> Round {
    let mut round = recorded.clone();
    round.index = index;
    if let Some(strategy) = controls.strategy {
        strategy.name.clone_into(&mut round.strategy);
    }
    let shape = &mut round.budget.shape;
    shape.gamma = controls.tree.gamma.or(shape.gamma);
    shape.width = controls.tree.width.or(shape.width);
    shape.depth = controls.tree.depth.or(shape.depth);
    round.budget.blocks = controls.tree.blocks.or(round.budget.blocks);
    if controls.speculate && done == 0 {
        return round;
    }
    // The token before the next one is the last committed token, the root of its own tree.
    let (root, label) = match done.checked_sub(1).map(|last| &recorded.committed[last]) {
        Some(last) => (last.token, last.text.clone()),
        None => {
            (recorded.tree.nodes()[0].token, recorded.labels.first().cloned().unwrap_or_default())
        }
    };
    let mut next = recorded.committed[done].clone();
    next.origin = Origin::Target;
    let last = done + 1 == recorded.committed.len();
    round.tree = Tree::root(root);
    round.labels = vec![label];
    round.accepted.clear();
    round.ahead = None;
    round.outcomes.clear();
    round.bonus = next.token;
    round.bonus_label = next.text.clone();
    round.committed = vec![next];
    round.speculative = controls.speculate;
    round.finish = if last { recorded.finish } else { None };
    round
}

fn milliseconds(value: f64) -> Duration {
    // A delay that is negative or out of range counts as none.
    Duration::try_from_secs_f64(value / 1e3).unwrap_or_default()
}
