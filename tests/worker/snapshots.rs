//! A conversation that is closed and opened again continues with the same text, whether its KV
//! cache was saved or not.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use dovetail::chat::{Message, Role};
use dovetail::decode::Summary;
use dovetail::kernels::KvFormat;
use dovetail::settings::{HeadChoice, SettingValue, Settings};
use dovetail::worker::{Backend, Command, Controls, Event, Job, SharedControls, Worker};
use tempfile::TempDir;

use crate::support::bundled::{loaded, user};
use crate::support::events::{Said, rest, sink};
use crate::support::library::demo_copy;
use crate::support::toy_worker::spawn;

const HEAD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/head");
const LIMIT: Duration = Duration::from_secs(20);

/// A copy of the bundled target, and a folder for saved caches.
struct Home {
    target: TempDir,
    saved: TempDir,
}

impl Home {
    fn new() -> Self {
        Self { target: demo_copy(), saved: tempfile::tempdir().unwrap() }
    }

    fn start(&self, settings: &Settings) -> Program {
        Program::start(self.target.path(), Some(self.saved.path()), settings)
    }

    /// A program that saves nothing and finds nothing saved.
    fn start_alone(&self, settings: &Settings) -> Program {
        Program::start(self.target.path(), None, settings)
    }

    /// A worker on the bundled pair, and its events.
    fn worker(&self) -> (Worker, Receiver<Event>) {
        let Program { backend, controls, .. } = self.start(&ways()[0]);
        let (sink, events) = sink();
        (spawn(controls, sink, |_| Ok(backend)).unwrap(), events)
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.saved.path()).into_iter().flatten().flatten();
        let saved = entries.map(|entry| entry.path());
        saved.filter(|path| path.extension().is_some_and(|ending| ending == "kv")).collect()
    }

    fn wait_for_a_file(&self) {
        let began = Instant::now();
        while self.files().is_empty() {
            assert!(began.elapsed() < LIMIT, "nothing was saved");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A program that has loaded the bundled pair from a folder.
struct Program {
    backend: Backend,
    controls: SharedControls,
    generation: u64,
    said: Vec<Message>,
}

impl Program {
    fn start(target: &Path, saved: Option<&Path>, settings: &Settings) -> Self {
        let settings = Settings {
            target: Some(target.display().to_string()),
            threads: Some(1),
            snapshots: saved.map(Path::to_owned),
            ..settings.clone()
        };
        let controls = SharedControls::new(Controls {
            strategy: settings.strategy,
            sampler: settings.sampler,
            ..Controls::default()
        });
        let backend = loaded(&settings).unwrap().into();
        Self { backend, controls, generation: 0, said: Vec::new() }
    }

    fn ask(&mut self, question: &str) -> (String, Summary) {
        self.generation += 1;
        self.said.push(user(question));
        let generation = self.generation;
        self.controls.update(|controls| controls.generation = generation);
        let messages = self.said.clone();
        let job = Job { generation, messages, ..job(Some("the first"), 40) };
        let said = Said::of(&mut self.backend, &job, &self.controls);
        self.said.push(Message::new(Role::Assistant, &said.text));
        (said.text, said.summary.unwrap())
    }

    /// Saves the cache and waits until it is written.
    fn leave(mut self, home: &Home) -> Vec<Message> {
        self.backend.keep();
        home.wait_for_a_file();
        self.said
    }

    /// Text and reused tokens of an answer after what was said before.
    fn answers_after(mut self, said: &[Message]) -> (String, usize) {
        self.said = said.to_vec();
        let (text, summary) = self.ask(SECOND);
        (text, summary.reused_tokens)
    }
}

fn job(conversation: Option<&str>, max_tokens: usize) -> Job {
    let conversation = conversation.map(str::to_owned);
    Job { generation: 1, messages: vec![user(FIRST)], max_tokens, conversation, ..Job::default() }
}

const FIRST: &str = "Tell me a long story about a fox, a lantern and the old fisherman by the sea, \
    please, and about all the boats that came home in the night when the wind said nothing at all, \
    and what the children in the village said about it the next day. Let it begin in spring.";
const SECOND: &str = "And what did the wind say then?";

/// A draft head, which reads features of the target, and drafters that read only the tokens; greedy
/// and sampled.
fn ways() -> Vec<Settings> {
    let mut all = Vec::new();
    for [temperature, top_p, seed] in [["0", "1", "0"], ["0.9", "0.95", "7"]] {
        for (strategy, draft) in [("dovetail", Some(HEAD)), ("context", None)] {
            let draft = HeadChoice::named(draft);
            let mut settings = Settings { draft, ..Settings::default() };
            for (key, value) in [
                ("strategy", strategy),
                ("sampler.temperature", temperature),
                ("sampler.top_p", top_p),
                ("sampler.seed", seed),
            ] {
                settings.set(key, &SettingValue::text(value)).unwrap();
            }
            all.push(settings);
        }
    }
    all
}

#[test]
fn the_text_after_a_return_is_the_text_without_leaving() {
    for settings in ways() {
        let home = Home::new();
        let mut stayed = home.start_alone(&settings);
        let first = stayed.ask(FIRST).0;
        let second = stayed.ask(SECOND).0;
        let mut left = home.start(&settings);
        assert_eq!(left.ask(FIRST).0, first, "keeping changes nothing");
        let said = left.leave(&home);
        let (text, reused) = home.start(&settings).answers_after(&said);
        assert_eq!(text, second, "{:?}", settings.strategy.map(|row| row.name));
        assert!(reused > 64, "{reused}");
        // Without the file the prompt is read completely, and the text is the same.
        assert_eq!(home.start_alone(&settings).answers_after(&said), (second, 0));
    }
}

#[test]
fn what_is_damaged_or_of_another_target_is_not_used() {
    let home = Home::new();
    let settings = &ways()[0];
    let mut program = home.start(settings);
    program.ask(FIRST);
    let said = program.leave(&home);
    let back = |settings: &Settings| home.start(settings).answers_after(&said);
    let (wanted, reused) = back(settings);
    assert!(reused > 64);
    // The same weights in another place, another precision of the cache, another context.
    let elsewhere = Program::start(demo_copy().path(), Some(home.saved.path()), settings);
    assert_eq!(elsewhere.answers_after(&said), (wanted.clone(), 0));
    assert_eq!(back(&Settings { kv: KvFormat::F16, ..settings.clone() }).1, 0);
    let shorter = Settings { context: Some(1024), ..settings.clone() };
    assert_eq!(back(&shorter), (wanted.clone(), 0));
    let path = home.files().remove(0);
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damaged in [&whole[..whole.len() / 2], &[], &[0; 4096], &flipped] {
        std::fs::write(&path, damaged).unwrap();
        assert_eq!(back(settings), (wanted.clone(), 0));
    }
    assert!(!path.exists(), "it is of no use to anybody");
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(back(settings), (wanted, reused));
}

#[test]
fn nothing_is_saved_where_nobody_wants_it() {
    let home = Home::new();
    let mut program = home.start(&Settings { kv_disk: 0, ..ways().remove(0) });
    program.ask(FIRST);
    program.backend.keep();
    assert!(program.backend.snapshots.is_none() && home.files().is_empty());
    // What belongs to no saved conversation is not saved either.
    let (worker, events) = home.worker();
    worker.send(Command::Generate(job(None, 20)));
    rest(&events);
    worker.end(LIMIT);
    assert!(home.files().is_empty());
}

#[test]
fn it_is_saved_when_nothing_is_asked_for_a_while() {
    let home = Home::new();
    let (worker, events) = home.worker();
    worker.send(Command::Generate(job(Some("it"), 20)));
    rest(&events);
    home.wait_for_a_file();
    worker.join();
}

#[test]
fn leaving_keeps_it_at_once_and_whole_also_in_the_middle_of_an_answer() {
    let wanted = Home::new().start_alone(&ways()[0]).ask(FIRST).0;
    for (max_tokens, in_the_middle) in [(20, false), (2000, true)] {
        let home = Home::new();
        let (worker, events) = home.worker();
        worker.send(Command::Generate(job(Some("it"), max_tokens)));
        if in_the_middle {
            while !matches!(events.recv().unwrap(), Event::Round { .. }) {}
        } else {
            rest(&events);
        }
        worker.end(LIMIT);
        assert_eq!(home.files().len(), 1, "in the middle: {in_the_middle}");
        let (text, summary) = home.start(&ways()[0]).ask(FIRST);
        assert_eq!(text, wanted);
        assert!(summary.reused_tokens > 64, "{summary:?}");
    }
}

#[test]
fn leaving_waits_no_longer_than_it_may_and_leaves_nothing_half_written() {
    let home = Home::new();
    let (worker, events) = home.worker();
    worker.send(Command::Generate(job(Some("it"), 20)));
    rest(&events);
    let began = Instant::now();
    worker.end(Duration::ZERO);
    assert!(began.elapsed() < Duration::from_millis(300), "{:?}", began.elapsed());
    // The thread runs to its end by itself, and writes nothing after that.
    while events.recv().is_ok() {}
    std::thread::sleep(Duration::from_millis(50));
    let left = std::fs::read_dir(home.saved.path()).into_iter().flatten().count();
    assert_eq!(left, 0, "half a file, or one that came too late");
}

#[test]
fn it_goes_with_its_conversation() {
    let home = Home::new();
    let mut program = home.start(&ways()[0]);
    program.ask(FIRST);
    program.backend.keep();
    // After what is still being written.
    program.backend.discard("the first");
    program.backend.keep();
    program.backend.finish(Instant::now() + LIMIT);
    assert!(home.files().is_empty(), "it is deleted, and stays so");
    // Deleted before it was written.
    let (worker, events) = home.worker();
    worker.send(Command::Generate(job(Some("it"), 20)));
    rest(&events);
    assert!(worker.send(Command::Discard("it".to_owned())));
    worker.end(LIMIT);
    assert!(home.files().is_empty(), "nothing is saved of it any more");
    // Deleting another conversation does not affect its own.
    let mut program = home.start(&ways()[0]);
    program.ask(FIRST);
    program.backend.discard("another");
    program.backend.finish(Instant::now() + LIMIT);
    assert_eq!(home.files().len(), 1);
}
