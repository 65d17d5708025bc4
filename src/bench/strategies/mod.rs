//! Strategies side by side: every prompt is answered by each of them in turn, the target alone
//! among them, so that a machine that slows down slows all of them down; every text is compared
//! with the target's own, token for token. Must never know flags or files.

mod charts;
mod compare;
mod contenders;
mod differences;
mod figures;
mod lines;
mod published;
mod record;
mod recorder;
mod report;
mod sequences;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::chat::{Message, Role};
use crate::hardware::{Peak, PeakMeter};
use crate::worker::{Backend, Controls, Event, Job, SharedControls};

use super::prompts::{BenchPrompt, PromptSet};
use recorder::AnswerRecorder;

pub use charts::{charts, sweep_charts};
pub use compare::{Comparison, compare};
pub use contenders::{Batch, ContenderError, batches, contenders, runnable};
pub use figures::{Figures, Grid};
pub use lines::{ContenderLine, LineError, OwnSetting, contender_file, contender_lines};
pub use record::{AnswerRecord, Environment, Models, PLAIN, Results, Sweep, difference, models_of};
pub use report::{lossless_check, sweep_tables, tables};
pub use sequences::SequenceCounts;

#[cfg(test)]
pub(super) use report::tests::results as results_for_tests;

/// Most tokens of a warm-up answer.
const WARM_UP: usize = 24;

/// One way to decode that is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Contender {
    /// For the tables.
    pub name: String,
    /// The controls under which it decodes; the temperature comes from the run.
    pub controls: Controls,
}

/// What is run.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchRun {
    /// The first is the target alone, which the others are compared with.
    pub contenders: Vec<Contender>,
    /// The prompts.
    pub sets: Vec<PromptSet>,
    /// At which temperatures, one after the other.
    pub temperatures: Vec<f32>,
    /// Most tokens of an answer.
    pub max_tokens: usize,
    /// The system prompt.
    pub system: Option<String>,
    /// For the records: the number of this run among those of the same results.
    pub batch: usize,
}

impl BenchRun {
    /// How many answers that is, warm-up included.
    pub fn answers(&self) -> usize {
        let turns = self.sets.iter().flat_map(|set| &set.prompts).map(|prompt| prompt.turns.len());
        self.contenders.len() * (1 + turns.sum::<usize>() * self.temperatures.len())
    }
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// Answers to the prompts that every contender has answered.
    pub answers: Vec<AnswerRecord>,
    /// Prompts that could not be answered, and notices of the worker.
    pub notes: Vec<String>,
    /// Whether all prompts were run.
    pub complete: bool,
    /// Whether a contender failed where the target alone did not.
    pub failed: bool,
}

/// Ends a run early from another thread.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Ends the answer in progress and the run.
    pub fn stop(&self, controls: &SharedControls) {
        self.0.store(true, Ordering::Relaxed);
        controls.update(|controls| controls.generation = 0);
    }

    /// Whether the run is to end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs `plan`. `report` is called before every answer with the strategy and the set.
pub fn run(
    backend: &mut Backend,
    plan: &BenchRun,
    controls: &SharedControls,
    stop: &Stop,
    report: &mut dyn FnMut(&str, &str),
) -> Taken {
    let mut runner =
        Runner { backend, plan, controls, stop, generation: 0, peak: PeakMeter::start() };
    let mut taken = Taken::default();
    if let Some(set) = plan.sets.first() {
        runner.warm_up(set, report);
    }
    let prompts =
        || plan.sets.iter().flat_map(|set| set.prompts.iter().map(move |prompt| (set, prompt)));
    for &temperature in &plan.temperatures {
        for (number, (set, prompt)) in prompts().enumerate() {
            match runner.prompt(temperature, set, prompt, number, report) {
                Ok(answers) => taken.answers.extend(answers),
                Err(AnswerFailure::Stopped) => return taken,
                Err(AnswerFailure::Failed { contender, error }) => {
                    // A prompt that the target alone cannot answer is no failure of a drafter.
                    taken.failed |= contender != plan.contenders[0].name;
                    taken.notes.push(format!("left out: {} under {contender}: {error}", prompt.id));
                }
            }
            for note in runner.notes() {
                if !taken.notes.contains(&note) {
                    taken.notes.push(note);
                }
            }
        }
    }
    taken.complete = true;
    taken
}

/// Why a prompt has no answers.
enum AnswerFailure {
    Stopped,
    Failed { contender: String, error: String },
}

/// A contender's answers to the turns of a prompt.
type Answers = Vec<(AnswerRecord, Vec<u32>)>;

struct Runner<'a> {
    backend: &'a mut Backend,
    plan: &'a BenchRun,
    controls: &'a SharedControls,
    stop: &'a Stop,
    generation: u64,
    peak: PeakMeter,
}

impl Runner<'_> {
    /// Lets every contender touch its weights and caches once.
    fn warm_up(&mut self, set: &PromptSet, report: &mut dyn FnMut(&str, &str)) {
        let plan = self.plan;
        for contender in &plan.contenders {
            report(&contender.name, "warming up");
            let mut messages = self.opening();
            let turn = set.prompts[0].turns.first().cloned().unwrap_or_default();
            messages.push(Message::new(Role::User, turn));
            let temperature = plan.temperatures.first().copied().unwrap_or(0.0);
            // A contender that fails here fails again where it is counted.
            let _ = self.answer(contender, temperature, messages, WARM_UP.min(plan.max_tokens));
        }
    }

    /// Notices since the last call.
    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.backend.notices)
    }

    fn prompt(
        &mut self,
        temperature: f32,
        set: &PromptSet,
        prompt: &BenchPrompt,
        number: usize,
        report: &mut dyn FnMut(&str, &str),
    ) -> Result<Vec<AnswerRecord>, AnswerFailure> {
        let plan = self.plan;
        let count = plan.contenders.len();
        let mut all: Vec<Answers> = vec![Vec::new(); count];
        for i in 0..count {
            // The order rotates: the first finds the caches that the previous prompt left.
            let at = (i + number) % count;
            let contender = &plan.contenders[at];
            let mut messages = self.opening();
            for (turn, text) in prompt.turns.iter().enumerate() {
                report(&contender.name, &set.name);
                messages.push(Message::new(Role::User, text.clone()));
                if turn == 0 {
                    // Every contender prefills the prompt itself.
                    self.backend.engine.forget();
                }
                let made =
                    self.answer(contender, temperature, messages.clone(), plan.max_tokens)?;
                messages.push(Message::new(Role::Assistant, made.text));
                let answer = AnswerRecord {
                    temperature,
                    set: set.name.clone(),
                    id: prompt.id.clone(),
                    turn,
                    strategy: contender.name.clone(),
                    batch: plan.batch,
                    digest: record::digest(&made.tokens),
                    ..made.answer
                };
                all[at].push((answer, made.tokens));
            }
        }
        Ok(compared(all))
    }

    fn opening(&self) -> Vec<Message> {
        let system = self.plan.system.iter();
        system.map(|text| Message::new(Role::System, text.clone())).collect()
    }

    fn answer(
        &mut self,
        contender: &Contender,
        temperature: f32,
        messages: Vec<Message>,
        max_tokens: usize,
    ) -> Result<recorder::TimedAnswer, AnswerFailure> {
        self.generation += 1;
        let generation = self.generation;
        let stop = self.stop;
        self.controls.update(|controls| {
            *controls = contender.controls.clone();
            controls.sampler.temperature = temperature;
            // `Stop::stop` writes the controls under the same lock.
            controls.generation = if stop.is_set() { 0 } else { generation };
        });
        if stop.is_set() {
            return Err(AnswerFailure::Stopped);
        }
        let job = Job { generation, messages, max_tokens, ..Job::default() };
        let mut recorder = AnswerRecorder::start();
        let mut notices = Vec::new();
        self.backend.answer(&job, self.controls, &mut |event: Event| {
            if let Event::Notice(text) = &event {
                notices.push(text.clone());
            }
            recorder.take(&event);
            true
        });
        self.backend.notices.extend(notices);
        if stop.is_set() {
            return Err(AnswerFailure::Stopped);
        }
        let Peak { ram, vram } = self.peak.peak();
        // Where no driver tells, what was put there is known.
        let put = self.backend.ready.vram_used;
        let vram = vram.or_else(|| (put > 0).then_some(put));
        let failed = |error| AnswerFailure::Failed { contender: contender.name.clone(), error };
        recorder.end(ram, vram).map_err(failed)
    }
}

/// Compares every contender's answers with those of the first.
fn compared(all: Vec<Answers>) -> Vec<AnswerRecord> {
    let own: Vec<Vec<u32>> =
        all.first().into_iter().flatten().map(|(_, tokens)| tokens.clone()).collect();
    let compare = |(turn, (answer, tokens)): (usize, (AnswerRecord, Vec<u32>))| AnswerRecord {
        differs_at: own.get(turn).map_or(Some(0), |own| difference(own, &tokens)),
        ..answer
    };
    all.into_iter().flat_map(|answers| answers.into_iter().enumerate().map(compare)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_is_compared_with_the_first_contender_s() {
        let answers = |texts: &[&[u32]]| -> Answers {
            texts.iter().map(|tokens| (AnswerRecord::default(), tokens.to_vec())).collect()
        };
        let judged = compared(vec![
            answers(&[&[1, 2, 3], &[4, 5]]),
            answers(&[&[1, 2, 3], &[4, 6]]),
            answers(&[&[1, 2], &[4, 5], &[9]]),
        ]);
        let verdicts: Vec<Option<usize>> = judged.iter().map(|answer| answer.differs_at).collect();
        assert_eq!(verdicts, [None, None, None, Some(1), Some(2), None, Some(0)]);
    }
}
