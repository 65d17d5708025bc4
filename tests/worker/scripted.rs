//! The scripted worker: the protocol without models.

use crate::support::events::{Said, controls, next, sink};
use crate::support::program::{HELLO, script};
use dovetail::decode::{Finish, Round, Summary};
use dovetail::record::{Recorder, Script};
use dovetail::worker::{Command, Event, Job, Setting, Worker};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

fn play(name: &str) -> (Worker, Receiver<Event>) {
    let (sink, events) = sink();
    (Script::read(script(name).as_ref()).unwrap().play(controls(), sink).unwrap(), events)
}

fn job(generation: u64) -> Job {
    Job { generation, messages: Vec::new(), max_tokens: 1000, ..Job::default() }
}

/// Text, rounds and totals of the current answer.
fn answer(events: &Receiver<Event>) -> (String, Vec<Round>, Summary) {
    let said = Said::rest(events);
    (said.text, said.rounds, said.summary.unwrap())
}

#[test]
fn answers_are_played_in_turn() {
    let (worker, events) = play("answers.jsonl");
    assert!(matches!(next(&events), Event::Loading { .. }));
    assert!(matches!(next(&events), Event::Ready(_)));
    assert!(worker.send(Command::Generate(job(1))));
    let (text, rounds, summary) = answer(&events);
    assert_eq!(text, HELLO);
    assert_eq!(summary.finish, Some(Finish::Eos));
    assert_eq!(summary.rounds, rounds.len());
    worker.send(Command::Generate(job(2)));
    assert!(answer(&events).0.starts_with("Yes. A big dog"));
    worker.send(Command::Generate(job(3)));
    assert_eq!(answer(&events).0, HELLO);
}

#[test]
fn live_controls_show_in_the_rounds_and_leave_the_text() {
    let (worker, events) = play("answers.jsonl");
    worker.controls().update(|c| {
        c.tree.gamma = Setting::Fixed(5);
        c.speculate = false;
    });
    worker.send(Command::Generate(job(1)));
    let (text, rounds, summary) = answer(&events);
    assert_eq!(text, HELLO);
    assert!(rounds.iter().all(|r| r.tree.len() == 1 && r.committed.len() == 1 && !r.speculative));
    assert!(rounds.iter().enumerate().all(|(i, r)| r.index == i && r.budget.shape.gamma == 5));
    assert_eq!(rounds.last().unwrap().finish, Some(Finish::Eos));
    assert_eq!(summary.tokens, rounds.len() + 1);
}

#[test]
fn rounds_wait_for_steps_and_stop_with_the_answer() {
    let (worker, events) = play("slow.jsonl");
    worker.controls().update(|c| c.paused = true);
    worker.send(Command::Generate(job(1)));
    while !matches!(next(&events), Event::First { .. }) {}
    let quiet = Duration::from_millis(150);
    assert!(events.recv_timeout(quiet).is_err(), "a paused worker goes on");
    worker.controls().update(|c| c.steps += 2);
    for index in 0..2 {
        assert!(matches!(next(&events), Event::Round { round, .. } if round.index == index));
    }
    assert!(events.recv_timeout(quiet).is_err(), "two steps are two rounds");
    worker.controls().update(|c| c.generation = 2);
    let Event::Finished { generation: 1, summary } = next(&events) else { panic!("not stopped") };
    assert_eq!((summary.finish, summary.rounds), (Some(Finish::Cancelled), 2));
    worker.join();
}

#[test]
fn slow_motion_spaces_the_rounds_and_can_be_ended_at_once() {
    let (worker, events) = play("answers.jsonl");
    worker.controls().update(|c| c.pace = 80);
    let begun = Instant::now();
    worker.send(Command::Generate(job(1)));
    let (text, rounds, summary) = answer(&events);
    assert_eq!((text.as_str(), rounds.len()), (HELLO, 5));
    assert!(begun.elapsed() >= Duration::from_millis(4 * 80), "{:?}", begun.elapsed());
    // Waiting is not part of any round's time.
    assert!(summary.tokens_per_second > 100.0);
    worker.controls().update(|c| c.pace = 10_000);
    worker.send(Command::Generate(job(2)));
    while !matches!(next(&events), Event::Round { .. }) {}
    worker.controls().update(|c| c.pace = 0);
    assert!(answer(&events).0.ends_with("flew away."));
}

#[test]
fn failures_are_told_apart() {
    let (worker, events) = play("unloadable.jsonl");
    next(&events);
    assert!(matches!(next(&events), Event::Failed { generation: None, .. }));
    worker.join();
    let (worker, events) = play("failing.jsonl");
    worker.send(Command::Generate(job(4)));
    let failed = std::iter::repeat_with(|| next(&events))
        .find(|event| matches!(event, Event::Failed { .. }));
    assert!(matches!(failed, Some(Event::Failed { generation: Some(4), .. })));
    worker.send(Command::Generate(job(5)));
    assert_eq!(answer(&events).0, "This one works.");
}

#[test]
fn a_recorded_answer_is_a_script() {
    let (worker, events) = play("wide.jsonl");
    worker.send(Command::Generate(job(1)));
    let mut recorder = Recorder::default();
    let mut lines = Vec::new();
    loop {
        let event = next(&events);
        let line = recorder.line(&event).unwrap();
        lines.push(serde_json::to_string(&line).unwrap());
        if matches!(event, Event::Finished { .. }) {
            break;
        }
    }
    let path = script("wide.jsonl");
    assert_eq!(Script::parse(&lines.join("\n")).unwrap(), Script::read(path.as_ref()).unwrap());
}

#[test]
fn a_broken_script_is_refused_with_its_line() {
    let error = Script::parse("# fine\n\n{\"type\":\"round\"}").unwrap_err().to_string();
    assert!(error.starts_with("line 3 of the script"), "{error}");
    let error = Script::parse("{\"type\":\"prefill\",\"done\":1,\"total\":1}").unwrap_err();
    assert!(error.to_string().contains("does not end"), "{error}");
}
