//! Tokens that the user forces: recorded, and taken into account by the audit.

use crate::support::events::controls;
use crate::support::toy::Toy;
use crate::support::toy_worker::{backend, job, knowing};
use dovetail::decode::{Committed, Origin};
use dovetail::record::{Finding, Record, RecordedAnswer, Recording, recorded, verify_answer};
use dovetail::settings::Settings;
use dovetail::speculate::SamplerSettings;
use dovetail::worker::{Backend, Command, Event, Job};
use std::path::Path;

const BEFORE: usize = 6;

fn toy() -> Backend {
    backend(Box::new(Toy::new(3, 30, 2000)), knowing())
}

fn sampler(seed: u64) -> SamplerSettings {
    SamplerSettings { temperature: 0.9, top_k: 12, seed, ..SamplerSettings::default() }
}

/// The answer to a job, recorded in a file of `folder`, and its tokens.
fn answered(folder: &Path, job: &Job, seed: u64) -> (RecordedAnswer, Vec<Committed>) {
    let controls = controls();
    controls.update(|now| (now.sampler, now.generation) = (sampler(seed), job.generation));
    let path = folder.join(format!("{}.jsonl", job.generation));
    let recording = Recording::create(&path, &Settings::default(), &controls).unwrap();
    let (mut sink, tap) = recorded(recording, Box::new(|_| true));
    tap(&Command::Generate(job.clone()));
    let mut tokens = Vec::new();
    assert!(toy().answer(job, &controls, &mut |event| {
        match &event {
            Event::First { token, .. } => tokens.push(token.clone()),
            Event::Round { round, .. } => tokens.extend_from_slice(&round.committed),
            _ => {}
        }
        sink(event)
    }));
    (Record::read(&path).unwrap().answers.remove(0), tokens)
}

fn verified(answer: &RecordedAnswer) -> Finding {
    verify_answer(&mut toy(), &controls(), 9, answer)
}

#[test]
fn the_audit_knows_forced_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let (first, said) = answered(folder.path(), &job(1, "hello", 30), 5);
    assert_eq!(verified(&first), Finding::Same { tokens: 30 });
    let all: Vec<u32> = said.iter().map(|token| token.token).collect();
    let here = said[BEFORE].logprobs.as_ref().unwrap();
    let other = here.top.iter().find(|likely| likely.token != all[BEFORE]).unwrap().token;
    let forced = vec![(BEFORE, other)];
    let branch = Job { begun: all[..BEFORE].to_vec(), forced, ..job(2, "hello", 24) };
    let (mut answer, tokens) = answered(folder.path(), &branch, 5);
    assert_eq!((tokens[0].token, tokens[0].origin), (other, Origin::Forced));
    assert!(tokens[1..].iter().all(|token| token.origin != Origin::Forced));
    assert_eq!((&answer.question.begun, &answer.question.forced), (&branch.begun, &branch.forced));
    assert_eq!(verified(&answer), Finding::Same { tokens: 30 });

    // Whether or not it says so, it is not the target's.
    answer.question.forced.clear();
    let Finding::Differs { at, .. } = verified(&answer) else { panic!("{answer:?}") };
    assert_eq!(at, BEFORE);

    // A beginning that was sampled otherwise is not the target's under this sampler.
    let (mut answer, _) = answered(folder.path(), &Job { generation: 3, ..branch }, 6);
    assert_eq!(verified(&answer), Finding::SameAfter { begun: BEFORE, tokens: 24 });
    answer.tokens[4] += 1;
    let Finding::Differs { at, .. } = verified(&answer) else { panic!("{answer:?}") };
    assert_eq!(at, BEFORE + 4);
}
