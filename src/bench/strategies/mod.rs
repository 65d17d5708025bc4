//! Strategies side by side: every prompt is answered by each of them in turn, the target alone
//! among them, so that a machine that slows down slows all of them down; every text is compared
//! with the target's own, token for token. It must not depend on flags or files.

mod answerer;
mod candidates;
mod charts;
mod compare;
mod differences;
mod figures;
mod lines;
mod published;
mod record;
mod recorder;
mod report;
mod sequences;

use super::prompts::{BenchPrompt, PromptSet};
use crate::chat::{Message, Role};
use crate::worker::{Backend, Controls, Job, SharedControls};
use answerer::{Answerer, NoAnswer};
use recorder::TimedAnswer;

pub use answerer::Stop;
pub use candidates::{CandidateBatch, batches, candidates, runnable};
pub use charts::charts;
pub use compare::{Comparison, compare};
pub use figures::{AnswerGrid, Figures};
pub use lines::{CandidateLine, LineError, candidate_file, candidate_lines};
pub use record::{AnswerRecord, Environment, Models, PLAIN, Results, Sweep, difference, models_of};
pub use report::{lossless_check, tables};
pub use sequences::SequenceCounts;

#[cfg(test)]
pub(super) use report::tests::results as results_for_tests;

/// Most tokens of a warm-up answer.
const WARM_UP: usize = 24;

/// One way to decode that is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchCandidate {
    /// For the tables.
    pub name: String,
    /// The controls under which it decodes; the temperature comes from the run.
    pub controls: Controls,
}

#[derive(Clone, Debug, PartialEq)]
pub struct BenchRun {
    /// The first is the target alone, which the others are compared with.
    pub candidates: Vec<BenchCandidate>,
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
        self.candidates.len() * (1 + turns.sum::<usize>() * self.temperatures.len())
    }
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// Answers to the prompts that every candidate has answered.
    pub answers: Vec<AnswerRecord>,
    /// Prompts that could not be answered, and notices of the worker.
    pub notes: Vec<String>,
    /// Whether all prompts were run.
    pub complete: bool,
    /// Whether a candidate failed where the target alone did not.
    pub failed: bool,
}

/// Runs `plan`. `report` is called before every answer with the candidate and the set.
pub fn run(
    backend: &mut Backend,
    plan: &BenchRun,
    controls: &SharedControls,
    stop: &Stop,
    report: &mut dyn FnMut(&str, &str),
) -> Taken {
    let mut runner = Runner { answerer: Answerer::new(backend, controls, stop), plan };
    let mut taken = Taken::default();
    if let Some(set) = plan.sets.first() {
        runner.warm_up(set, report);
    }
    for &temperature in &plan.temperatures {
        let prompts = plan.sets.iter().flat_map(|set| set.prompts.iter().map(move |p| (set, p)));
        for (number, (set, prompt)) in prompts.enumerate() {
            match runner.prompt(temperature, set, prompt, number, report) {
                Ok(answers) => taken.answers.extend(answers),
                Err(PromptFailure { cause: NoAnswer::Stopped, .. }) => return taken,
                Err(PromptFailure { candidate, cause: NoAnswer::Failed(error) }) => {
                    // If the target alone cannot answer a prompt, no drafter has failed.
                    taken.failed |= candidate != plan.candidates[0].name;
                    taken.notes.push(format!("left out: {} under {candidate}: {error}", prompt.id));
                }
            }
            for note in runner.answerer.notices() {
                if !taken.notes.contains(&note) {
                    taken.notes.push(note);
                }
            }
        }
    }
    taken.complete = true;
    taken
}

/// The candidate that did not answer a prompt, and why.
struct PromptFailure {
    candidate: String,
    cause: NoAnswer,
}

/// A candidate's answers to the turns of a prompt.
type Answers = Vec<(AnswerRecord, Vec<u32>)>;

struct Runner<'a> {
    answerer: Answerer<'a>,
    plan: &'a BenchRun,
}

impl Runner<'_> {
    /// Lets every candidate touch its weights and caches once.
    fn warm_up(&mut self, set: &PromptSet, report: &mut dyn FnMut(&str, &str)) {
        let plan = self.plan;
        for candidate in &plan.candidates {
            report(&candidate.name, "warming up");
            let mut messages = self.opening();
            let turn = set.prompts[0].turns.first().cloned().unwrap_or_default();
            messages.push(Message::new(Role::User, turn));
            let temperature = plan.temperatures.first().copied().unwrap_or(0.0);
            // A candidate that fails here fails again where it is counted.
            let _ = self.answer(candidate, temperature, messages, WARM_UP.min(plan.max_tokens));
        }
    }

    fn prompt(
        &mut self,
        temperature: f32,
        set: &PromptSet,
        prompt: &BenchPrompt,
        number: usize,
        report: &mut dyn FnMut(&str, &str),
    ) -> Result<Vec<AnswerRecord>, PromptFailure> {
        let plan = self.plan;
        let count = plan.candidates.len();
        let mut all: Vec<Answers> = vec![Vec::new(); count];
        for i in 0..count {
            // The order rotates: the first finds the caches that the previous prompt left.
            let at = (i + number) % count;
            let candidate = &plan.candidates[at];
            let mut messages = self.opening();
            for (turn, text) in prompt.turns.iter().enumerate() {
                report(&candidate.name, &set.name);
                messages.push(Message::new(Role::User, text.clone()));
                if turn == 0 {
                    // Every candidate prefills the prompt itself.
                    self.answerer.forget();
                }
                let made =
                    self.answer(candidate, temperature, messages.clone(), plan.max_tokens)?;
                messages.push(Message::new(Role::Assistant, made.text));
                let answer = AnswerRecord {
                    temperature,
                    set: set.name.clone(),
                    id: prompt.id.clone(),
                    turn,
                    strategy: candidate.name.clone(),
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
        candidate: &BenchCandidate,
        temperature: f32,
        messages: Vec<Message>,
        max_tokens: usize,
    ) -> Result<TimedAnswer, PromptFailure> {
        let mut controls = candidate.controls.clone();
        controls.sampler.temperature = temperature;
        let job = Job { messages, max_tokens, ..Job::default() };
        let failed = |cause| PromptFailure { candidate: candidate.name.clone(), cause };
        self.answerer.answer(&controls, job).map_err(failed)
    }
}

/// Compares every candidate's answers with those of the first.
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
    fn every_turn_is_compared_with_the_first_candidate_s() {
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
