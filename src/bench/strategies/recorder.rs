//! From the events of one answer to its record. It must not depend on what the answer is compared
//! with.

use std::time::Instant;

use crate::worker::Event;

use super::record::AnswerRecord;

/// An answer with its tokens and text, which the record does not keep.
#[derive(Debug)]
pub(super) struct TimedAnswer {
    /// Without the names that only the run knows.
    pub(super) answer: AnswerRecord,
    pub(super) tokens: Vec<u32>,
    pub(super) text: String,
}

/// Times one answer.
#[derive(Debug)]
pub(super) struct AnswerRecorder {
    started: Instant,
    first: Option<Instant>,
    last: Option<Instant>,
    timed: TimedAnswer,
    error: Option<String>,
}

impl AnswerRecorder {
    /// Starts the clock.
    pub(super) fn start() -> Self {
        let timed = TimedAnswer {
            answer: AnswerRecord::default(),
            tokens: Vec::new(),
            text: String::new(),
        };
        Self { started: Instant::now(), first: None, last: None, timed, error: None }
    }

    /// Counts an event, at the time it happens.
    pub(super) fn take(&mut self, event: &Event) {
        let TimedAnswer { answer, tokens, text } = &mut self.timed;
        match event {
            Event::First { token, summary, .. } => {
                self.first = Some(Instant::now());
                answer.prompt_tokens = summary.prompt_tokens;
                tokens.push(token.token);
                text.push_str(&token.text);
            }
            Event::Round { round, .. } => {
                answer.rounds += 1;
                answer.drafted_ahead += usize::from(round.drafted_ahead);
                answer.drafted += round.tree.len() - 1;
                answer.sequences.take(round);
                answer.accepted_by.add_all(&round.credits());
                answer.draft_ms += round.timing.draft_ms;
                answer.verify_ms += round.timing.verify_ms;
                answer.ahead_ms += round.timing.ahead_ms;
                answer.wait_ms += round.timing.wait_ms;
                answer.plan_ms += round.timing.plan_ms;
                answer.traffic += round.traffic;
                let depth = round.accepted.len();
                if answer.accepted.len() < depth {
                    answer.accepted.resize(depth, 0);
                }
                for count in &mut answer.accepted[..depth] {
                    *count += 1;
                }
                for committed in &round.committed {
                    tokens.push(committed.token);
                    text.push_str(&committed.text);
                }
            }
            Event::Finished { .. } => self.last = Some(Instant::now()),
            Event::Failed { error, .. } => self.error = Some(error.clone()),
            _ => {}
        }
    }

    /// The answer, if it came to an end.
    pub(super) fn end(self, ram: u64, vram: Option<u64>) -> Result<TimedAnswer, String> {
        let Self { started, first, last, mut timed, error } = self;
        if let Some(error) = error {
            return Err(error);
        }
        let (Some(first), Some(last)) = (first, last) else {
            return Err("the answer has no end".to_owned());
        };
        timed.answer.ttft_ms = first.duration_since(started).as_secs_f64() * 1e3;
        timed.answer.decode_ms = last.duration_since(first).as_secs_f64() * 1e3;
        timed.answer.tokens = timed.tokens.len();
        timed.answer.ram = ram;
        timed.answer.vram = vram;
        Ok(timed)
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

    fn committed(token: u32) -> Committed {
        Committed { token, text: format!("<{token}>"), thought: None, origin: Origin::Target }
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
            timing: Timing { draft_ms: 1.0, verify_ms: 2.0, ..Timing::default() },
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
        recorder.take(&Event::First {
            generation: 1,
            token: committed(5),
            summary: summary.clone(),
        });
        for accepted in [2, 0, 3] {
            recorder.take(&round(accepted));
        }
        recorder.take(&Event::Finished { generation: 1, summary });
        let TimedAnswer { answer, tokens, text } = recorder.end(100, None).unwrap();
        assert_eq!((answer.rounds, answer.drafted, answer.prompt_tokens), (3, 9, 7));
        assert_eq!((answer.drafted_ahead, answer.accepted), (1, vec![2, 2, 1]));
        assert_eq!((answer.draft_ms, answer.verify_ms), (3.0, 6.0));
        let choices = [[0, 1], [0, 0]];
        assert_eq!(answer.sequences, SequenceCounts { rounds: vec![0, 1], choices });
        assert_eq!(answer.traffic, Traffic { submissions: 6, up: 300, down: 90 });
        assert_eq!(tokens, [5, 20, 21, 22, 20, 20, 21, 22, 23]);
        assert_eq!(answer.tokens, tokens.len());
        assert!(text.starts_with("<5><20><21>"), "{text}");
    }

    #[test]
    fn what_did_not_end_is_no_answer() {
        assert!(AnswerRecorder::start().end(0, None).is_err());
        let mut recorder = AnswerRecorder::start();
        let error = "out of memory".to_owned();
        recorder.take(&Event::Failed { generation: Some(1), error });
        assert_eq!(recorder.end(0, None).unwrap_err(), "out of memory");
    }
}
