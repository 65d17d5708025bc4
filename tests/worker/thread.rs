//! The decode thread with toy models: events in order, live controls, pause, cancellation, faults.

use crate::support::events::{Said, controls, next, rest, sink};
use crate::support::toy::{Guess, Letters, Toy, ToyDrafter};
use crate::support::toy_worker::{backend, job, knowing, ready, spawn, wanted};
use crate::support::watched::Watched;
use dovetail::chat::{Message, Prompt, Role};
use dovetail::decode::{Finish, Round, TokenText};
use dovetail::draft::Budget;
use dovetail::settings::{SettingValue, Settings};
use dovetail::speculate::{SamplerSettings, Shape};
use dovetail::tui::commands::{self, Action};
use dovetail::worker::{Backend, Command, Controls, Event, Job, PromptTokens, Setting, Worker};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

fn start(make: impl FnOnce() -> Backend + Send + 'static) -> (Worker, Receiver<Event>) {
    let (sink, events) = sink();
    let worker = spawn(controls(), sink, |loading| {
        loading("inventing weights", Some(0.5));
        Ok(make())
    });
    (worker.unwrap(), events)
}

fn toy() -> (Worker, Receiver<Event>) {
    start(|| backend(Box::new(Toy::new(3, 30, 2000)), knowing()))
}

fn rounds(events: &[Event]) -> Vec<&Round> {
    let mut all = Vec::new();
    for event in events {
        if let Event::Round { round, .. } = event {
            all.push(&**round);
        }
    }
    all
}

#[test]
fn an_answer_without_a_limit_ends_where_the_context_does() {
    const CONTEXT: usize = 60;
    let (worker, events) = start(|| backend(Box::new(Toy::new(3, 30, CONTEXT)), knowing()));
    assert!(worker.send(Command::Generate(job(1, "Q", Job::ROOM_LEFT))));
    let all = rest(&events);
    let Some(Event::Finished { summary, .. }) = all.last() else { panic!("{all:?}") };
    assert_eq!(summary.finish, Some(Finish::ContextFull));
    // The last token needs no place of its own: nothing follows it.
    assert_eq!(summary.prompt_tokens + Said::among(all.clone()).tokens.len(), CONTEXT + 1);
}

#[test]
fn a_thought_that_the_prompt_opened_is_told_from_the_answer() {
    let opened = || Prompt { text: "Q<think>\n".into(), said: Vec::new() }.opened_thought();
    let (worker, events) = start(move || Backend {
        prompter: Box::new(move |_, thinking| {
            assert_eq!(thinking, Some(true));
            Ok(PromptTokens {
                tokens: vec![1, 2, 3],
                opened: opened(),
                begun: Vec::new(),
                asked: Vec::new(),
            })
        }),
        ..backend(Box::new(Toy::new(3, 30, 2000)), knowing())
    });
    assert!(worker.send(Command::Generate(Job { thinking: Some(true), ..job(1, "Q", 20) })));
    let all = rest(&events);
    let mut thought = String::new();
    for event in &all {
        for token in event.committed() {
            assert_eq!(token.text, "", "the toy closes no thought");
            thought += token.thought.as_deref().unwrap();
        }
    }
    assert_eq!(thought, Letters.text(&Said::among(all.clone()).tokens).trim());
}

/// Every token is the same word.
struct OneWord;

impl TokenText for OneWord {
    fn label(&self, token: u32) -> String {
        self.text(&[token])
    }
    fn text(&self, tokens: &[u32]) -> String {
        "word ".repeat(tokens.len())
    }
}

#[test]
fn an_answer_that_repeats_itself_is_told_with_commands_that_there_are() {
    // One token is all that this target knows.
    let one = || backend(Box::new(Toy::new(3, 1, 2000)), ToyDrafter::new(Guess::Knowing, 3, 1));
    let (worker, events) = start(move || Backend { names: Arc::new(OneWord), ..one() });
    worker.send(Command::Generate(job(1, "ZZZ", 300)));
    let all = rest(&events);
    let told = all.iter().filter_map(|event| match event {
        Event::Notice(text) if text.contains("repeats itself") => Some(text),
        _ => None,
    });
    let told: Vec<&String> = told.collect();
    assert_eq!(told.len(), 1);
    let typed = told[0].match_indices('/').map(|(at, _)| &told[0][at + 1..]);
    let commands: Vec<_> = typed
        .map(|typed| {
            let end = typed.match_indices([' ', ';']).nth(1).map_or(typed.len(), |(at, _)| at);
            let (command, value) = commands::parse(typed[..end].trim_end_matches('.')).unwrap();
            let Action::Setting(key) = command.action else { panic!("{command:?}") };
            Settings::default().set(key, &SettingValue::text(value)).unwrap();
            key
        })
        .collect();
    assert_eq!(commands, ["sampler.repetition_penalty", "sampler.temperature"]);
}

#[test]
fn a_prompt_that_does_not_fit_is_told_with_what_it_has_alone() {
    let (worker, events) = start(|| backend(Box::new(Toy::new(3, 30, 20)), knowing()));
    let said = |role, text: &str| Message::new(role, text);
    let asked = [
        said(Role::System, "short"),
        said(Role::User, "one"),
        said(Role::Assistant, "a long answer"),
        said(Role::User, "another"),
    ];
    let begun = [&asked[..], &[said(Role::Assistant, "begun")]].concat();
    for (generation, messages, wanted) in [(1, asked.to_vec(), (28, 12)), (2, begun, (33, 17))] {
        worker.send(Command::Generate(Job {
            generation,
            messages,
            max_tokens: 5,
            ..Job::default()
        }));
        let told: Vec<Event> = rest(&events)
            .into_iter()
            .filter(|event| event.generation() == Some(generation))
            .collect();
        let (total, alone) = (wanted.0, Some(wanted.1));
        assert_eq!(told[0], Event::TooLong { generation, total, alone });
        assert!(matches!(told[1..], [Event::Failed { .. }]), "{told:?}");
    }
}

#[test]
fn events_come_in_order_and_the_text_is_plain() {
    let (worker, events) = toy();
    assert_eq!(
        next(&events),
        Event::Loading { stage: "inventing weights".into(), fraction: Some(0.5) }
    );
    assert_eq!(next(&events), Event::Ready(Box::new(ready())));
    assert_eq!(next(&events), Event::Notice("mind the gap".into()));
    worker.send(Command::Generate(job(1, "hello", 40)));
    let answer = rest(&events);
    assert_eq!(answer[0], Event::Prefill { generation: 1, done: 0, total: 5 });
    assert_eq!(answer[1], Event::Prefill { generation: 1, done: 5, total: 5 });
    assert!(
        matches!(&answer[2], Event::First { generation: 1, summary, .. } if summary.tokens == 1)
    );
    assert_eq!(Said::among(answer.clone()).tokens, wanted("hello", 40, SamplerSettings::default()));
    let all = rounds(&answer);
    assert!(all[..all.len() - 1].iter().all(|r| r.finish.is_none() && r.budget.shape.gamma == 6));
    assert_eq!(all.last().unwrap().finish, Some(Finish::MaxTokens));
    let Some(Event::Finished { generation: 1, summary }) = answer.last() else { panic!() };
    assert_eq!((summary.rounds, summary.tokens), (all.len(), 40));
    assert!(summary.tau > 3.0);
}

#[test]
fn a_continued_answer_is_the_one_that_was_never_cut() {
    for temperature in [0.0, 1.2] {
        let sampler = SamplerSettings { temperature, seed: 5, ..SamplerSettings::default() };
        let (worker, events) = toy();
        worker.controls().update(|c| c.sampler = sampler);
        while !matches!(next(&events), Event::Notice(_)) {}
        worker.send(Command::Generate(job(1, "hello", 13)));
        let mut all = Said::rest(&events).tokens;
        for generation in 2..4 {
            let mut job = job(generation, "hello", 13);
            // As on the screen: a character that was cut in two is not shown.
            let text = Letters.text(&all);
            let text = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
            job.messages.push(Message::new(Role::Assistant, text));
            worker.send(Command::Generate(job));
            all.extend(Said::rest(&events).tokens);
        }
        assert_eq!(all, wanted("hello", 39, sampler));
    }
}

#[test]
fn a_turned_control_acts_from_the_next_round() {
    let (worker, events) = toy();
    worker.controls().update(|c| c.paused = true);
    worker.send(Command::Generate(job(1, "hello", 60)));
    let mut got = Vec::new();
    while !matches!(got.last(), Some(Event::First { .. })) {
        got.push(next(&events));
    }
    let mut step = |change: fn(&mut Controls)| {
        worker.controls().update(|c| {
            change(c);
            c.steps += 1;
        });
        got.push(next(&events));
        let Some(Event::Round { round, .. }) = got.last() else { panic!("not a round") };
        (**round).clone()
    };
    assert_eq!(step(|_| ()).budget, Budget::new(Shape { gamma: 6, width: 2, depth: 3 }, 1));
    let round = step(|c| (c.tree.gamma, c.tree.blocks) = (Setting::Fixed(3), Setting::Fixed(4)));
    assert_eq!((round.budget.shape.gamma, round.budget.blocks, round.tree.len()), (3, 4, 3));
    let round = step(|c| c.speculate = false);
    assert_eq!((round.tree.len(), round.speculative), (1, false));
    assert_eq!(step(|c| (c.speculate, c.tree.gamma) = (true, Setting::Auto)).tree.len(), 6);
    assert_eq!(events.recv_timeout(Duration::from_millis(100)), Err(RecvTimeoutError::Timeout));
    worker.controls().update(|c| c.paused = false);
    got.extend(rest(&events));
    assert_eq!(Said::among(got.clone()).tokens, wanted("hello", 60, SamplerSettings::default()));
}

#[test]
fn a_new_generation_stops_the_old_answer_wherever_it_is() {
    let (worker, events) = toy();
    worker.controls().update(|c| c.paused = true);
    worker.send(Command::Generate(job(1, "hello", 60)));
    while !matches!(next(&events), Event::First { .. }) {}
    // Stopped while it waits for a step; two more are requested, and the last one counts.
    worker.send(Command::Generate(job(2, "hello there", 30)));
    worker.send(Command::Generate(job(3, "hello there again", 30)));
    worker.controls().update(|c| c.paused = false);
    let finished = |events: &[Event]| match events.last() {
        Some(Event::Finished { generation, summary }) => (*generation, summary.finish),
        other => panic!("{other:?}"),
    };
    assert_eq!(finished(&rest(&events)), (1, Some(Finish::Cancelled)));
    let second = rest(&events);
    assert_eq!(finished(&second), (2, Some(Finish::Cancelled)));
    assert!(rounds(&second).is_empty());
    let third = rest(&events);
    assert_eq!(finished(&third), (3, Some(Finish::MaxTokens)));
    assert_eq!(
        Said::among(third.clone()).tokens,
        wanted("hello there again", 30, SamplerSettings::default())
    );
    worker.join();
}

#[test]
fn a_long_prompt_can_be_stopped_between_its_slices() {
    let (reading, read) = std::sync::mpsc::sync_channel(0);
    let (worker, events) = start(|| {
        let toy = Toy::new(3, 30, 2000);
        let target = Watched::new(toy, |_| Ok(())).before_prefill(move || {
            let _ = reading.send(());
        });
        backend(Box::new(target), knowing())
    });
    worker.send(Command::Generate(job(1, &"x".repeat(1500), 9)));
    read.recv().unwrap();
    worker.controls().update(|c| c.generation = 0);
    drop(read);
    let answer = rest(&events);
    assert!(matches!(answer.last(), Some(Event::Finished { summary, .. })
        if summary.finish == Some(Finish::Cancelled) && summary.tokens == 0));
    let done = answer.iter().filter_map(|event| match event {
        Event::Prefill { done, .. } => Some(*done),
        _ => None,
    });
    assert!(done.max().unwrap() < 1500);
}

#[test]
fn a_panic_fails_its_answer_and_the_next_one_is_sound() {
    let (worker, events) = start(|| {
        let toy = Toy::new(3, 30, 2000);
        let mut panics = true;
        let target = Watched::new(toy, move |_| {
            assert!(!std::mem::take(&mut panics), "a fault in the kernels");
            Ok(())
        });
        backend(Box::new(target), knowing())
    });
    worker.send(Command::Generate(job(1, "hello", 20)));
    let Some(Event::Failed { generation: Some(1), error }) = rest(&events).pop() else { panic!() };
    assert!(error.starts_with("internal error: a fault in the kernels"), "{error}");
    worker.send(Command::Generate(job(2, "hello", 20)));
    assert_eq!(Said::rest(&events).tokens, wanted("hello", 20, SamplerSettings::default()));
}

#[test]
fn failures_are_told_and_survived() {
    let mut drafter = knowing();
    drafter.failures = vec![4];
    let (worker, events) = start(|| backend(Box::new(Toy::new(3, 30, 100)), drafter));
    worker.send(Command::Generate(job(1, "what!", 20)));
    let Some(Event::Failed { generation: Some(1), error }) = rest(&events).pop() else { panic!() };
    assert_eq!(error, "no !");
    worker.send(Command::Generate(job(2, &"long".repeat(50), 20)));
    let Some(Event::Failed { generation: Some(2), error }) = rest(&events).pop() else { panic!() };
    assert!(error.contains("200 tokens"), "{error}");
    worker.send(Command::Generate(job(3, "hello", 40)));
    let answer = rest(&events);
    let lost = "the draft device failed: out of memory; decoding continues without a draft";
    assert!(answer.contains(&Event::Notice(lost.into())));
    assert_eq!(Said::among(answer.clone()).tokens, wanted("hello", 40, SamplerSettings::default()));
}

#[test]
fn models_that_cannot_be_loaded_end_the_thread_with_the_reason() {
    let begin = |load: fn() -> Result<Backend, String>| {
        let (sink, events) = sink();
        let worker = spawn(controls(), sink, move |_| load()).unwrap();
        let event = next(&events);
        assert_eq!(events.recv(), Err(std::sync::mpsc::RecvError), "the thread goes on");
        assert!(!worker.send(Command::Generate(job(1, "hello", 5))));
        event
    };
    let refused = begin(|| Err("no such file: a.gguf".into()));
    assert_eq!(refused, Event::Failed { generation: None, error: "no such file: a.gguf".into() });
    let Event::Failed { generation: None, error } = begin(|| panic!("torn header")) else {
        panic!()
    };
    assert!(error.contains("torn header"), "{error}");
}

#[test]
fn a_dropped_worker_ends_even_while_paused_and_so_does_one_nobody_listens_to() {
    let (worker, events) = toy();
    worker.controls().update(|c| c.paused = true);
    worker.send(Command::Generate(job(1, "hello", 60)));
    while !matches!(next(&events), Event::First { .. }) {}
    drop(worker);
    while events.recv_timeout(Duration::from_secs(30)).is_ok() {}
    assert_eq!(events.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected));

    let (worker, events) = toy();
    drop(events);
    worker.send(Command::Generate(job(1, "hello", 60)));
    worker.join();
}
