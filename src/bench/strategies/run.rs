//! Every prompt is answered by each candidate in turn, and every answer is timed and compared with
//! the first candidate's, token for token: the one way in which every measurement decodes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::record::{AnswerRecord, Results, difference, digest};
use crate::bench::prompts::{BenchPrompt, PromptSet};
use crate::chat::{Message, Role};
use crate::hardware::{Peak, PeakMeter};
use crate::worker::{Backend, Controls, Event, Job, SharedControls};

/// Most tokens of a warm-up answer.
const WARM_UP: usize = 24;

/// Ends a run early from another thread.
pub struct Stop {
    set: AtomicBool,
    controls: SharedControls,
}

impl Stop {
    /// For a run that decodes under `controls`.
    pub fn new(controls: SharedControls) -> Self {
        Self { set: AtomicBool::new(false), controls }
    }

    /// Ends the answer in progress and the run.
    pub fn stop(&self) {
        self.set.store(true, Ordering::Relaxed);
        self.controls.update(|controls| controls.generation = 0);
    }

    /// Whether the run should end.
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::Relaxed)
    }
}

/// One way to decode that is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchCandidate {
    /// For the tables.
    pub name: String,
    /// The controls under which it decodes; the temperature comes from the run.
    pub controls: Controls,
}

/// The prompts for every candidate, and how they are answered.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchRun {
    /// The prompts.
    pub sets: Vec<PromptSet>,
    /// At which temperatures, one after the other.
    pub temperatures: Vec<f32>,
    /// Most tokens of an answer.
    pub max_tokens: usize,
    /// The system prompt.
    pub system: Option<String>,
    /// The number of the adapter whose memory is measured.
    pub adapter: Option<usize>,
}

impl BenchRun {
    /// How many answers so many candidates give, warm-up included.
    pub fn answers(&self, candidates: usize) -> usize {
        let turns = self.sets.iter().flat_map(|set| &set.prompts).map(|prompt| prompt.turns.len());
        candidates * (1 + turns.sum::<usize>() * self.temperatures.len())
    }

    /// Runs candidates in turn, the target alone first, and adds what they did to `results`.
    /// Returns whether a candidate failed where the target alone did not. `report` is called before
    /// every answer with the candidate and the set.
    pub fn run(
        &self,
        backend: &mut Backend,
        candidates: &[BenchCandidate],
        stop: &Stop,
        results: &mut Results,
        report: &mut dyn FnMut(&str, &str),
    ) -> bool {
        let batch = results.next_batch();
        let peak = PeakMeter::start(self.adapter);
        let mut runner = Runner { backend, run: self, stop, report, generation: 0, peak };
        if let Some(set) = self.sets.first() {
            runner.warm_up(candidates, set);
        }
        let mut failed = false;
        for &temperature in &self.temperatures {
            let prompts =
                self.sets.iter().flat_map(|set| set.prompts.iter().map(move |p| (set, p)));
            for (number, (set, prompt)) in prompts.enumerate() {
                // The order rotates: the first finds the caches that the previous prompt left.
                let order = (0..candidates.len()).map(|i| (i + number) % candidates.len());
                let mut all = vec![Vec::new(); candidates.len()];
                let answered = order.map(|at| {
                    all[at] = runner.prompt(&candidates[at], temperature, &set.name, prompt)?;
                    Ok(())
                });
                match answered.collect::<Result<(), NoAnswer>>() {
                    Ok(()) => results.answers.extend(compared(all).map(|answer| AnswerRecord {
                        set: set.name.clone(),
                        id: prompt.id.clone(),
                        batch,
                        ..answer
                    })),
                    Err(NoAnswer::Stopped) => {
                        results.complete = false;
                        return failed;
                    }
                    Err(NoAnswer::Failed { candidate, error }) => {
                        let note = format!("left out: {} under {candidate}: {error}", prompt.id);
                        results.notes.push(note);
                        // If the target alone cannot answer a prompt, no drafter has failed.
                        failed |= candidate != candidates[0].name;
                    }
                }
                for note in std::mem::take(&mut runner.backend.notices) {
                    if !results.notes.contains(&note) {
                        results.notes.push(note);
                    }
                }
            }
        }
        failed
    }
}

/// Why there is no answer.
enum NoAnswer {
    /// The user stopped the run.
    Stopped,
    /// The backend failed, and says why.
    Failed { candidate: String, error: String },
}

/// Answers questions one after the other on one backend.
struct Runner<'a> {
    backend: &'a mut Backend,
    run: &'a BenchRun,
    stop: &'a Stop,
    report: &'a mut dyn FnMut(&str, &str),
    generation: u64,
    peak: PeakMeter,
}

impl Runner<'_> {
    /// Lets every candidate touch its weights and caches once.
    fn warm_up(&mut self, candidates: &[BenchCandidate], set: &PromptSet) {
        for candidate in candidates {
            (self.report)(&candidate.name, "warming up");
            let mut messages = self.opening();
            let turn = set.prompts[0].turns.first().cloned().unwrap_or_default();
            messages.push(Message::new(Role::User, turn));
            let temperature = self.run.temperatures.first().copied().unwrap_or(0.0);
            // A candidate that fails here fails again where it is counted.
            let _ = self.answer(candidate, temperature, messages, WARM_UP.min(self.run.max_tokens));
        }
    }

    /// A candidate's answers to the turns of a prompt.
    fn prompt(
        &mut self,
        candidate: &BenchCandidate,
        temperature: f32,
        set: &str,
        prompt: &BenchPrompt,
    ) -> Result<Vec<AnswerRecord>, NoAnswer> {
        // Every candidate prefills the prompt itself.
        self.backend.engine.forget();
        let mut messages = self.opening();
        let mut answers = Vec::new();
        for (turn, text) in prompt.turns.iter().enumerate() {
            (self.report)(&candidate.name, set);
            messages.push(Message::new(Role::User, text.clone()));
            let most = self.run.max_tokens;
            let mut answer = self.answer(candidate, temperature, messages.clone(), most)?;
            messages.push(Message::new(Role::Assistant, std::mem::take(&mut answer.text)));
            answers.push(AnswerRecord { turn, ..answer });
        }
        Ok(answers)
    }

    fn opening(&self) -> Vec<Message> {
        let system = self.run.system.iter();
        system.map(|text| Message::new(Role::System, text.clone())).collect()
    }

    fn answer(
        &mut self,
        candidate: &BenchCandidate,
        temperature: f32,
        messages: Vec<Message>,
        max_tokens: usize,
    ) -> Result<AnswerRecord, NoAnswer> {
        self.generation += 1;
        let generation = self.generation;
        let stop = self.stop;
        stop.controls.update(|shared| {
            *shared = candidate.controls.clone();
            shared.sampler.temperature = temperature;
            // `Stop::stop` writes the controls under the same lock.
            shared.generation = if stop.is_set() { 0 } else { generation };
        });
        if stop.is_set() {
            return Err(NoAnswer::Stopped);
        }
        let mut recorder = AnswerRecorder::start();
        let job = Job { generation, messages, max_tokens, ..Job::default() };
        self.backend.answer(&job, &stop.controls, &mut |event| {
            recorder.take(event);
            true
        });
        if stop.is_set() {
            return Err(NoAnswer::Stopped);
        }
        self.backend.notices.append(&mut recorder.notices);
        let Peak { ram, vram } = self.peak.peak();
        // Without a driver's figure, we know what we put there.
        let placed = self.backend.ready.vram_used;
        let vram = vram.or_else(|| (placed > 0).then_some(placed));
        let strategy = candidate.name.clone();
        match recorder.end() {
            Ok(answer) => Ok(AnswerRecord { strategy, temperature, ram, vram, ..answer }),
            Err(error) => Err(NoAnswer::Failed { candidate: strategy, error }),
        }
    }
}

/// Compares every candidate's answers with those of the first.
fn compared(all: Vec<Vec<AnswerRecord>>) -> impl Iterator<Item = AnswerRecord> {
    let first = all.first().into_iter().flatten();
    let own: Vec<Vec<u32>> = first.map(|answer| answer.token_ids.clone()).collect();
    let compare = move |(turn, mut answer): (usize, AnswerRecord)| {
        let tokens = std::mem::take(&mut answer.token_ids);
        answer.differs_at = own.get(turn).map_or(Some(0), |own| difference(own, &tokens));
        answer
    };
    all.into_iter().flat_map(|answers| answers.into_iter().enumerate()).map(compare)
}

/// Times one answer.
#[derive(Debug)]
struct AnswerRecorder {
    started: Instant,
    first: Option<Instant>,
    second: Option<Instant>,
    last: Option<Instant>,
    /// Without the names that only the run knows.
    answer: AnswerRecord,
    notices: Vec<String>,
    error: Option<String>,
}

impl AnswerRecorder {
    fn start() -> Self {
        Self {
            started: Instant::now(),
            first: None,
            second: None,
            last: None,
            answer: AnswerRecord::default(),
            notices: Vec::new(),
            error: None,
        }
    }

    /// Counts an event, at the time it happens.
    fn take(&mut self, event: Event) {
        let answer = &mut self.answer;
        for committed in event.committed() {
            answer.token_ids.push(committed.token);
            answer.text.push_str(&committed.text);
        }
        match event {
            Event::First { summary, .. } => {
                self.first = Some(Instant::now());
                answer.prompt_tokens = summary.prompt_tokens;
            }
            Event::Round { round, .. } => {
                answer.rounds += 1;
                self.second.get_or_insert_with(Instant::now);
                answer.drafted_ahead += usize::from(round.drafted_ahead);
                answer.drafted += round.tree.len() - 1;
                answer.sequences.take(&round);
                answer.accepted_by.add_all(&round.credits());
                answer.draft_ms += round.timing.draft_ms;
                answer.verify_ms += round.timing.verify_ms;
                answer.ahead_ms += round.timing.ahead_ms;
                answer.wait_ms += round.timing.wait_ms;
                answer.transfer_ms += round.timing.transfer_ms;
                answer.plan_ms += round.timing.plan_ms;
                answer.traffic += round.traffic;
                let depth = round.accepted.len();
                if answer.accepted.len() < depth {
                    answer.accepted.resize(depth, 0);
                }
                for count in &mut answer.accepted[..depth] {
                    *count += 1;
                }
            }
            Event::Finished { .. } => self.last = Some(Instant::now()),
            Event::Failed { error, .. } => self.error = Some(error),
            Event::Notice(text) => self.notices.push(text),
            _ => {}
        }
    }

    /// The answer, if it came to an end.
    fn end(self) -> Result<AnswerRecord, String> {
        let Self { started, first, second, last, mut answer, error, .. } = self;
        if let Some(error) = error {
            return Err(error);
        }
        let (Some(first), Some(last)) = (first, last) else {
            return Err("the answer has no end".to_owned());
        };
        let asked = |at: Instant| at.duration_since(started).as_secs_f64() * 1e3;
        answer.second_ms = second.map_or(0.0, asked);
        answer.ttft_ms = asked(first);
        answer.decode_ms = last.duration_since(first).as_secs_f64() * 1e3;
        answer.tokens = answer.token_ids.len();
        answer.digest = digest(&answer.token_ids);
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::strategies::SequenceCounts;
    use crate::decode::{Committed, Origin, Round, Summary, Timing};
    use crate::draft::Budget;
    use crate::model::Traffic;
    use crate::overlap::sequences_for_tests as ahead;
    use crate::speculate::{Shape, Tree};
    use std::time::Duration;

    fn committed(token: u32) -> Committed {
        let (text, origin) = (format!("<{token}>"), Origin::Target);
        Committed { token, text, thought: None, origin, logprobs: None }
    }

    /// A round that accepts the first `accepted` nodes of a chain of three.
    fn round(accepted: usize) -> Event {
        let mut tree = Tree::root(1);
        for node in 0..3 {
            tree.push(node, 10 + node as u32, -0.5);
        }
        let round = Round {
            index: 0,
            labels: vec![String::new(); tree.len()],
            tree,
            accepted: (1..=accepted).collect(),
            bonus: 9,
            bonus_label: String::new(),
            committed: (0..=accepted).map(|i| committed(20 + i as u32)).collect(),
            budget: Budget::new(Shape { gamma: 4, width: 1, depth: 2 }, 1),
            strategy: "dovetail".to_owned(),
            speculative: true,
            drafter: Some(0),
            drafted_ahead: accepted == 2,
            ahead: (accepted == 3).then(|| ahead(4, &[&[9, 1], &[2, 3]], Some(0))),
            outcomes: Vec::new(),
            timing: Timing { draft_ms: 1.0, verify_ms: 2.0, transfer_ms: 0.5, ..Timing::default() },
            traffic: Traffic { submissions: 2, up: 100, down: 30 },
            context: 0,
            finish: None,
        };
        Event::Round { generation: 1, round: Box::new(round) }
    }

    #[test]
    fn an_answer_is_the_sum_of_its_rounds() {
        let mut recorder = AnswerRecorder::start();
        let summary = Summary { prompt_tokens: 7, ..Summary::default() };
        let summary = Box::new(summary);
        recorder.take(Event::First {
            generation: 1,
            token: committed(5),
            summary: summary.clone(),
        });
        recorder.take(round(2));
        std::thread::sleep(Duration::from_millis(5));
        for accepted in [0, 3] {
            recorder.take(round(accepted));
        }
        recorder.take(Event::Finished { generation: 1, summary });
        let answer = recorder.end().unwrap();
        // The second token is that of the first round.
        let left = answer.ttft_ms + answer.decode_ms - answer.second_ms;
        assert!(answer.second_ms >= answer.ttft_ms && left >= 5.0, "{answer:?}");
        assert_eq!((answer.rounds, answer.drafted, answer.prompt_tokens), (3, 9, 7));
        assert_eq!((answer.drafted_ahead, answer.accepted), (1, vec![2, 2, 1]));
        assert_eq!((answer.draft_ms, answer.verify_ms, answer.transfer_ms), (3.0, 6.0, 1.5));
        let choices = [[0, 1], [0, 0]];
        assert_eq!(answer.sequences, SequenceCounts { rounds: vec![0, 1], choices });
        assert_eq!(answer.traffic, Traffic { submissions: 6, up: 300, down: 90 });
        assert_eq!(answer.token_ids, [5, 20, 21, 22, 20, 20, 21, 22, 23]);
        assert_eq!(answer.tokens, answer.token_ids.len());
        assert!(answer.text.starts_with("<5><20><21>"), "{}", answer.text);
    }

    #[test]
    fn what_did_not_end_is_no_answer() {
        assert!(AnswerRecorder::start().end().is_err());
        let mut recorder = AnswerRecorder::start();
        let error = "out of memory".to_owned();
        recorder.take(Event::Failed { generation: Some(1), error });
        assert_eq!(recorder.end().unwrap_err(), "out of memory");
    }

    #[test]
    fn every_turn_is_compared_with_the_first_candidate_s() {
        let answers = |texts: &[&[u32]]| -> Vec<AnswerRecord> {
            let answer = |tokens: &&[u32]| AnswerRecord {
                token_ids: tokens.to_vec(),
                ..AnswerRecord::default()
            };
            texts.iter().map(answer).collect()
        };
        let judged = compared(vec![
            answers(&[&[1, 2, 3], &[4, 5]]),
            answers(&[&[1, 2, 3], &[4, 6]]),
            answers(&[&[1, 2], &[4, 5], &[9]]),
        ]);
        let verdicts: Vec<Option<usize>> = judged.map(|answer| answer.differs_at).collect();
        assert_eq!(verdicts, [None, None, None, Some(1), Some(2), None, Some(0)]);
    }
}
