//! A conversation that is closed and opened again continues with the same text, whether its KV
//! cache was saved or not.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dovetail::chat::{Message, Role};
use dovetail::decode::Summary;
use dovetail::hardware::Machine;
use dovetail::load::{Purpose, load};
use dovetail::settings::{HeadChoice, Settings};
use dovetail::speculate::SamplerSettings;
use dovetail::worker::{Backend, Controls, Event, Job, SharedControls};

use crate::support::library::demo_copy;

const HEAD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/head");

/// A program that has loaded the bundled pair from a folder.
struct Program {
    backend: Backend,
    controls: SharedControls,
    generation: u64,
    said: Vec<Message>,
    conversation: Option<String>,
}

impl Program {
    fn start(target: &Path, saved: Option<&Path>, settings: &Settings) -> Self {
        let settings = Settings {
            target: Some(target.display().to_string()),
            threads: Some(1),
            snapshots: saved.map(Path::to_owned),
            ..settings.clone()
        };
        let loaded = load(&settings, &Machine::probe(), Purpose::Text, &mut |_, _| {}).unwrap();
        let controls = SharedControls::new(Controls {
            strategy: settings.strategy,
            sampler: settings.sampler,
            ..Controls::default()
        });
        let conversation = Some("the first".to_owned());
        Self { backend: loaded.into(), controls, generation: 0, said: Vec::new(), conversation }
    }

    fn ask(&mut self, question: &str) -> (String, Summary) {
        self.generation += 1;
        self.said.push(Message::new(Role::User, question));
        let generation = self.generation;
        self.controls.update(|controls| controls.generation = generation);
        let job = Job {
            generation,
            messages: self.said.clone(),
            max_tokens: 40,
            thinking: None,
            afresh: false,
            conversation: self.conversation.clone(),
        };
        let (mut text, mut end) = (String::new(), None);
        self.backend.answer(&job, &self.controls, &mut |event| {
            match event {
                Event::First { token, .. } => text.push_str(&token.text),
                Event::Round { round, .. } => {
                    round.committed.iter().for_each(|token| text.push_str(&token.text));
                }
                Event::Finished { summary, .. } => end = Some(*summary),
                Event::Failed { error, .. } => panic!("{error}"),
                _ => {}
            }
            true
        });
        self.said.push(Message::new(Role::Assistant, &text));
        (text, end.unwrap())
    }

    /// Saves the cache and waits until it is written.
    fn leave(mut self, folder: &Path) -> Vec<Message> {
        self.backend.keep();
        let began = std::time::Instant::now();
        while files(folder).is_empty() {
            assert!(began.elapsed().as_secs() < 20, "nothing was saved");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        self.said
    }
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let saved = entries.map(|entry| entry.path());
    saved.filter(|path| path.extension().is_some_and(|ending| ending == "kv")).collect()
}

const FIRST: &str = "Tell me a long story about a fox, a lantern and the old fisherman by the sea, \
    please, and about all the boats that came home in the night when the wind said nothing at all, \
    and what the children in the village said about it the next day. Let it begin in spring.";
const SECOND: &str = "And what did the wind say then?";

/// A draft head, which reads features of the target, and drafters that read only the tokens; greedy
/// and sampled.
fn ways() -> Vec<Settings> {
    let greedy = SamplerSettings { temperature: 0.0, ..SamplerSettings::default() };
    let sampled = SamplerSettings { temperature: 0.9, top_p: 0.95, seed: 7, ..greedy };
    let mut all = Vec::new();
    for sampler in [greedy, sampled] {
        for (strategy, draft) in [("dovetail", Some(HEAD)), ("context", None)] {
            let draft = HeadChoice::named(draft);
            let mut settings = Settings { draft, ..Settings::default() };
            let name = dovetail::settings::SettingValue::text(strategy);
            settings.set("strategy", &name).unwrap();
            for (key, value) in [
                ("sampler.temperature", sampler.temperature.to_string()),
                ("sampler.top_p", sampler.top_p.to_string()),
                ("sampler.seed", sampler.seed.to_string()),
            ] {
                let value = dovetail::settings::SettingValue::text(value);
                settings.set(key, &value).unwrap();
            }
            all.push(settings);
        }
    }
    all
}

#[test]
fn the_text_after_a_return_is_the_text_without_leaving() {
    let target = demo_copy();
    for settings in ways() {
        let saved = tempfile::tempdir().unwrap();
        let mut stayed = Program::start(target.path(), None, &settings);
        let first = stayed.ask(FIRST);
        let second = stayed.ask(SECOND);
        let mut left = Program::start(target.path(), Some(saved.path()), &settings);
        assert_eq!(left.ask(FIRST).0, first.0, "keeping changes nothing");
        let said = left.leave(saved.path());
        let mut back = Program::start(target.path(), Some(saved.path()), &settings);
        back.said = said.clone();
        let (text, summary) = back.ask(SECOND);
        assert_eq!(text, second.0, "{:?}", settings.strategy.map(|row| row.name));
        assert!(summary.reused_tokens > 64, "{summary:?}");
        // Without the file the prompt is read completely, and the text is the same.
        let mut again = Program::start(target.path(), None, &settings);
        again.said = said;
        let (text, summary) = again.ask(SECOND);
        assert_eq!((text, summary.reused_tokens), (second.0, 0));
    }
}

#[test]
fn what_is_damaged_or_of_another_target_is_not_used() {
    let target = demo_copy();
    let saved = tempfile::tempdir().unwrap();
    let settings = &ways()[0];
    let mut program = Program::start(target.path(), Some(saved.path()), settings);
    program.ask(FIRST);
    let said = program.leave(saved.path());
    let back = |target: &Path, settings: &Settings| {
        let mut program = Program::start(target, Some(saved.path()), settings);
        program.said.clone_from(&said);
        let (text, summary) = program.ask(SECOND);
        (text, summary.reused_tokens)
    };
    let (wanted, reused) = back(target.path(), settings);
    assert!(reused > 64);
    // The same weights in another place, another precision of the cache, another context.
    let elsewhere = demo_copy();
    assert_eq!(back(elsewhere.path(), settings), (wanted.clone(), 0));
    let precise = Settings { kv: dovetail::settings::KvPrecision::F16, ..settings.clone() };
    assert_eq!(back(target.path(), &precise).1, 0);
    let shorter = Settings { context: Some(1024), ..settings.clone() };
    assert_eq!(back(target.path(), &shorter), (wanted.clone(), 0));
    let path = files(saved.path()).remove(0);
    let whole = std::fs::read(&path).unwrap();
    for damaged in [&whole[..whole.len() / 2], &[], &[0; 4096]] {
        std::fs::write(&path, damaged).unwrap();
        assert_eq!(back(target.path(), settings), (wanted.clone(), 0));
    }
    let mut flipped = whole.clone();
    let at = whole.len() / 2;
    flipped[at] ^= 1;
    std::fs::write(&path, &flipped).unwrap();
    assert_eq!(back(target.path(), settings), (wanted.clone(), 0));
    assert!(!path.exists(), "it is of no use to anybody");
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(back(target.path(), settings), (wanted, reused));
}

#[test]
fn nothing_is_saved_where_nobody_wants_it() {
    let target = demo_copy();
    let saved = tempfile::tempdir().unwrap();
    let off = Settings { kv_disk: 0, ..ways().remove(0) };
    let mut program = Program::start(target.path(), Some(saved.path()), &off);
    program.ask(FIRST);
    program.backend.keep();
    assert!(program.backend.snapshots.is_none() && files(saved.path()).is_empty());
}

#[test]
fn it_is_saved_when_nothing_is_asked_for_a_while() {
    let target = demo_copy();
    let saved = tempfile::tempdir().unwrap();
    let Program { backend, controls, .. } =
        Program::start(target.path(), Some(saved.path()), &ways()[0]);
    let (sender, events) = std::sync::mpsc::channel();
    let sender = Arc::new(Mutex::new(sender));
    let sink = Box::new(move |event| sender.lock().unwrap().send(event).is_ok());
    let worker = dovetail::worker::spawn(controls, sink, |_| Ok(backend)).unwrap();
    let messages = vec![Message::new(Role::User, FIRST)];
    worker.generate(Job {
        generation: 1,
        messages,
        max_tokens: 20,
        thinking: None,
        afresh: false,
        conversation: Some("it".into()),
    });
    while !matches!(events.recv().unwrap(), Event::Finished { .. }) {}
    let began = std::time::Instant::now();
    while files(saved.path()).is_empty() {
        assert!(began.elapsed().as_secs() < 20, "nothing was saved");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    worker.join();
}

/// A worker on the bundled pair, and its events.
fn worker(
    target: &Path,
    saved: &Path,
) -> (dovetail::worker::Worker, std::sync::mpsc::Receiver<Event>) {
    let Program { backend, controls, .. } = Program::start(target, Some(saved), &ways()[0]);
    let (sender, events) = std::sync::mpsc::channel();
    let sink = Box::new(move |event| sender.send(event).is_ok());
    (dovetail::worker::spawn(controls, sink, |_| Ok(backend)).unwrap(), events)
}

fn job(conversation: Option<&str>, max_tokens: usize) -> Job {
    Job {
        generation: 1,
        messages: vec![Message::new(Role::User, FIRST)],
        max_tokens,
        thinking: None,
        afresh: false,
        conversation: conversation.map(str::to_owned),
    }
}

#[test]
fn leaving_keeps_it_at_once_and_whole_also_in_the_middle_of_an_answer() {
    let target = demo_copy();
    let mut stayed = Program::start(target.path(), None, &ways()[0]);
    let wanted = stayed.ask(FIRST).0;
    for (max_tokens, in_the_middle) in [(20, false), (2000, true)] {
        let saved = tempfile::tempdir().unwrap();
        let (worker, events) = worker(target.path(), saved.path());
        worker.generate(job(Some("it"), max_tokens));
        let until = |event: &Event| match in_the_middle {
            true => matches!(event, Event::Round { .. }),
            false => matches!(event, Event::Finished { .. }),
        };
        while !until(&events.recv().unwrap()) {}
        worker.end(Duration::from_secs(20));
        assert_eq!(files(saved.path()).len(), 1, "in the middle: {in_the_middle}");
        let mut back = Program::start(target.path(), Some(saved.path()), &ways()[0]);
        let (text, summary) = back.ask(FIRST);
        assert_eq!(text, wanted);
        assert!(summary.reused_tokens > 64, "{summary:?}");
    }
}

#[test]
fn leaving_waits_no_longer_than_it_may_and_leaves_nothing_half_written() {
    let target = demo_copy();
    let saved = tempfile::tempdir().unwrap();
    let (worker, events) = worker(target.path(), saved.path());
    worker.generate(job(Some("it"), 20));
    while !matches!(events.recv().unwrap(), Event::Finished { .. }) {}
    let began = Instant::now();
    worker.end(Duration::ZERO);
    assert!(began.elapsed() < Duration::from_millis(300), "{:?}", began.elapsed());
    // The thread runs to its end by itself, and writes nothing after that.
    while events.recv().is_ok() {}
    std::thread::sleep(Duration::from_millis(50));
    let left = std::fs::read_dir(saved.path()).into_iter().flatten().count();
    assert_eq!(left, 0, "half a file, or one that came too late");
}

#[test]
fn it_goes_with_its_conversation() {
    let target = demo_copy();
    let saved = tempfile::tempdir().unwrap();
    let mut program = Program::start(target.path(), Some(saved.path()), &ways()[0]);
    program.ask(FIRST);
    program.backend.keep();
    // After what is still being written.
    program.backend.discard("the first");
    program.backend.keep();
    program.backend.finish(Instant::now() + Duration::from_secs(20));
    assert!(files(saved.path()).is_empty(), "it is deleted, and stays so");
    // Deleted before it was written.
    let (worker, events) = worker(target.path(), saved.path());
    worker.generate(job(Some("it"), 20));
    while !matches!(events.recv().unwrap(), Event::Finished { .. }) {}
    assert!(worker.discard("it".to_owned()));
    worker.end(Duration::from_secs(20));
    assert!(files(saved.path()).is_empty(), "nothing is saved of it any more");
    // Deleting another conversation does not affect its own.
    let mut program = Program::start(target.path(), Some(saved.path()), &ways()[0]);
    program.ask(FIRST);
    program.backend.discard("another");
    program.backend.finish(Instant::now() + Duration::from_secs(20));
    assert_eq!(files(saved.path()).len(), 1);
}

#[test]
fn what_is_of_no_saved_conversation_is_not_saved() {
    let target = demo_copy();
    let saved = tempfile::tempdir().unwrap();
    let (worker, events) = worker(target.path(), saved.path());
    worker.generate(job(None, 20));
    while !matches!(events.recv().unwrap(), Event::Finished { .. }) {}
    worker.end(Duration::from_secs(20));
    assert!(files(saved.path()).is_empty());
}
