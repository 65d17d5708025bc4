//! Replacing the models in use: toys on the decode thread, and the bundled ones.

use crate::support::bundled::{asked, bundled};
use crate::support::events::{Said, controls, next, sink};
use crate::support::generate;
use crate::support::toy::Toy;
use crate::support::toy_worker::{backend, job, knowing, wanted, wanted_of};
use dovetail::chat::{Message, Role};
use dovetail::hardware::adapters;
use dovetail::load::{Purpose, SharedTarget};
use dovetail::plan::DeviceChoice;
use dovetail::settings::{LOOKUP, Settings};
use dovetail::speculate::SamplerSettings;
use dovetail::worker::{
    Backend, Command, Event, Job, LoadFailure, LoadJob, Loader, Loading, ModelChoice, NewModels,
    Ready, SettingsLoader, Worker, spawn,
};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn named(name: Option<&str>) -> ModelChoice {
    ModelChoice { target: name.map(str::to_owned), ..ModelChoice::default() }
}

/// A toy with this seed that reports the name by which it was requested.
fn toy(seed: u64, models: &ModelChoice) -> Backend {
    let made = backend(Box::new(Toy::new(seed, 30, 2000)), knowing());
    Backend { ready: Ready { models: models.clone(), ..made.ready }, ..made }
}

/// The target that was requested, and where.
type Asked = (Option<String>, Place);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Beside,
    Alone,
}

/// Loads toys by name, and records the requests.
#[derive(Clone, Default)]
struct Toys(Arc<Mutex<Vec<Asked>>>);

impl Loader for Toys {
    fn beside(
        &self,
        models: &ModelChoice,
        _: Option<&SharedTarget>,
        progress: Loading<'_>,
    ) -> Result<NewModels, LoadFailure> {
        let loaded = self.load(models, Place::Beside, progress);
        loaded.map(|backend| NewModels::All(Box::new(backend)))
    }

    fn alone(
        &self,
        models: Option<&ModelChoice>,
        progress: Loading<'_>,
    ) -> Result<Backend, LoadFailure> {
        match models {
            None => Ok(toy(3, &ModelChoice::default())),
            Some(models) => self.load(models, Place::Alone, progress),
        }
    }
}

impl Toys {
    fn load(
        &self,
        models: &ModelChoice,
        place: Place,
        progress: Loading<'_>,
    ) -> Result<Backend, LoadFailure> {
        self.0.lock().unwrap().push((models.target.clone(), place));
        progress("reading", Some(0.5));
        let made = |seed| Ok(toy(seed, models));
        match (models.target.as_deref(), place) {
            (None, _) => made(3),
            (Some("other"), _) => made(5),
            (Some("broken"), _) => Err(LoadFailure::Failed("torn header".to_owned())),
            (Some("panics"), _) => panic!("a fault of a library"),
            (Some("large" | "large and broken" | "large and slow"), Place::Beside) => {
                Err(LoadFailure::NoRoom("9 MiB are needed and 5 are free".to_owned()))
            }
            (Some("large"), Place::Alone) => made(7),
            (Some("large and broken"), Place::Alone) => {
                Err(LoadFailure::Failed("a shard is missing".to_owned()))
            }
            // Ends only if it is stopped.
            _ => loop {
                std::thread::sleep(Duration::from_millis(2));
                progress("reading", Some(0.6));
            },
        }
    }
}

fn start() -> (Worker, Receiver<Event>, Toys) {
    let (toys, (sink, events)) = (Toys::default(), sink());
    let worker = spawn(controls(), sink, toys.clone()).unwrap();
    while !matches!(next(&events), Event::Notice(_)) {}
    (worker, events, toys)
}

/// The events of a load up to its end, without progress; the end is the last.
fn load(worker: &Worker, events: &Receiver<Event>, number: u64, name: &str) -> Vec<Event> {
    assert!(worker.send(Command::Load(LoadJob { load: number, models: named(Some(name)) })));
    end_of_load(events)
}

fn end_of_load(events: &Receiver<Event>) -> Vec<Event> {
    let mut all = Vec::new();
    loop {
        match next(events) {
            Event::LoadProgress { .. } | Event::Notice(_) => {}
            event => all.push(event),
        }
        if matches!(all.last(), Some(Event::Swapped { .. } | Event::NotSwapped { .. })) {
            return all;
        }
    }
}

fn answers_as(worker: &Worker, events: &Receiver<Event>, generation: u64, seed: u64) {
    worker.send(Command::Generate(job(generation, "hello", 30)));
    let expected = wanted_of(seed, "hello", 30, SamplerSettings::default());
    assert_eq!(Said::rest(events).tokens, expected, "the answer of toy {seed}");
}

fn failed(load: u64, error: &str) -> Event {
    Event::NotSwapped { load, error: Some(error.to_owned()) }
}

#[test]
fn an_answer_under_way_ends_before_other_models_answer_the_next() {
    let (worker, events, _) = start();
    worker.controls().update(|controls| controls.paused = true);
    worker.send(Command::Generate(job(1, "hello", 30)));
    while !matches!(next(&events), Event::First { .. }) {}
    worker.send(Command::Load(LoadJob { load: 1, models: named(Some("other")) }));
    // It is loaded while the answer is paused, and used only after the answer.
    while !matches!(next(&events), Event::LoadProgress { load: 1, fraction: Some(_), .. }) {}
    std::thread::sleep(Duration::from_millis(100));
    worker.controls().update(|controls| controls.paused = false);
    let mut seen = Vec::new();
    while !matches!(seen.last(), Some(Event::Swapped { .. })) {
        seen.push(next(&events));
    }
    let swapped = seen.pop();
    assert!(matches!(seen.last(), Some(Event::Finished { generation: 1, .. })), "{seen:?}");
    let expected = wanted("hello", 30, SamplerSettings::default());
    assert_eq!(
        Said::among(seen).tokens,
        expected[1..],
        "all but the first token, which came before"
    );
    let Some(Event::Swapped { load: 1, ready }) = swapped else { panic!("{swapped:?}") };
    assert_eq!(ready.models, named(Some("other")));
    answers_as(&worker, &events, 2, 5);
}

#[test]
fn a_failure_leaves_the_models_in_use() {
    let (worker, events, _) = start();
    assert_eq!(load(&worker, &events, 1, "broken"), [failed(1, "torn header")]);
    answers_as(&worker, &events, 1, 3);
    let ended = load(&worker, &events, 2, "panics");
    let [Event::NotSwapped { load: 2, error: Some(error) }] = &ended[..] else {
        panic!("{ended:?}")
    };
    assert!(error.contains("a fault of a library"), "{error}");
    answers_as(&worker, &events, 2, 3);
}

#[test]
fn a_load_stops_when_it_is_not_wanted_any_more() {
    let (worker, events, toys) = start();
    worker.send(Command::Load(LoadJob { load: 1, models: named(Some("slow")) }));
    while !matches!(next(&events), Event::LoadProgress { load: 1, fraction: Some(0.6), .. }) {}
    worker.controls().update(|controls| controls.load = 2);
    assert_eq!(end_of_load(&events), [Event::NotSwapped { load: 1, error: None }]);
    answers_as(&worker, &events, 1, 3);
    // Another load also stops a load in progress.
    worker.send(Command::Load(LoadJob { load: 3, models: named(Some("slow")) }));
    while !matches!(next(&events), Event::LoadProgress { load: 3, .. }) {}
    let ended = load(&worker, &events, 4, "other");
    assert_eq!(ended, [Event::NotSwapped { load: 3, error: None }]);
    assert!(matches!(&end_of_load(&events)[..], [Event::Swapped { load: 4, .. }]));
    answers_as(&worker, &events, 2, 5);
    assert_eq!(toys.0.lock().unwrap().len(), 3);
    // A worker that is dropped ends its load.
    worker.send(Command::Load(LoadJob { load: 5, models: named(Some("slow")) }));
    while !matches!(next(&events), Event::LoadProgress { load: 5, .. }) {}
    worker.join();
    while events.recv_timeout(Duration::from_secs(30)).is_ok() {}
    assert_eq!(events.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected));
}

#[test]
fn models_that_do_not_fit_beside_those_in_use_take_their_place() {
    let (worker, events, toys) = start();
    let unloaded = |load| {
        let reason = "9 MiB are needed and 5 are free".to_owned();
        Event::Unloaded { load, reason }
    };
    // If they cannot be loaded there either, the previous models are loaded again.
    let ended = load(&worker, &events, 1, "large and broken");
    assert_eq!(ended, [unloaded(1), failed(1, "a shard is missing")]);
    answers_as(&worker, &events, 1, 3);
    // The same happens if the load is stopped.
    worker.send(Command::Load(LoadJob { load: 2, models: named(Some("large and slow")) }));
    while next(&events) != unloaded(2) {}
    while !matches!(next(&events), Event::LoadProgress { load: 2, fraction: Some(0.6), .. }) {}
    worker.controls().update(|controls| controls.load = 3);
    assert_eq!(end_of_load(&events), [Event::NotSwapped { load: 2, error: None }]);
    answers_as(&worker, &events, 2, 3);
    let ended = load(&worker, &events, 4, "large");
    assert_eq!(ended[0], unloaded(4));
    assert!(matches!(&ended[1], Event::Swapped { load: 4, .. }), "{ended:?}");
    answers_as(&worker, &events, 3, 7);
    let asked = toys.0.lock().unwrap().clone();
    let name = |name: &str| Some(name.to_owned());
    let (beside, alone) = (Place::Beside, Place::Alone);
    let expected = [
        (name("large and broken"), beside),
        (name("large and broken"), alone),
        (None, alone),
        (name("large and slow"), beside),
        (name("large and slow"), alone),
        (None, alone),
        (name("large"), beside),
        (name("large"), alone),
    ];
    assert_eq!(asked, expected);
}

/// A loader of the bundled models.
fn bundled_loader(device: DeviceChoice) -> SettingsLoader {
    let settings = Settings { context: Some(512), device, ..Settings::default() };
    SettingsLoader::new(settings, Purpose::Text)
}

/// A worker on the bundled models, and what it says of them.
fn start_bundled(device: DeviceChoice) -> (Worker, Receiver<Event>, Box<Ready>) {
    let (sink, events) = sink();
    let worker = spawn(controls(), sink, bundled_loader(device)).unwrap();
    loop {
        if let Event::Ready(ready) = next(&events) {
            return (worker, events, ready);
        }
    }
}

/// Loads the bundled models, then those in `next`.
fn bundled_then(models: &ModelChoice) -> (Backend, Result<NewModels, LoadFailure>) {
    let loader = bundled_loader(DeviceChoice::default());
    let backend = loader.alone(None, &|_, _| {}).unwrap();
    let target = backend.shared.clone();
    let loaded = loader.beside(models, target.as_ref(), &|_, _| {});
    (backend, loaded)
}

#[test]
fn other_drafts_leave_the_target_where_it_is() {
    for (models, strategy) in [
        (ModelChoice { draft: Some(LOOKUP.into()), ..ModelChoice::default() }, "pld"),
        (ModelChoice { draft_model: Some("bundled".into()), ..ModelChoice::default() }, "auto"),
    ] {
        let (_, loaded) = bundled_then(&models);
        let Ok(NewModels::Drafts(drafts)) = loaded else { panic!("{models:?}") };
        assert_eq!((drafts.setup.strategy.name, &drafts.setup.models), (strategy, &models));
        assert!(!drafts.drafters.is_empty());
    }
    let missing = ModelChoice { draft: Some("no/such/head.gguf".into()), ..ModelChoice::default() };
    let (_, loaded) = bundled_then(&missing);
    assert!(matches!(loaded, Err(LoadFailure::Failed(error)) if error.contains("no/such/head")));
}

#[test]
fn the_text_is_the_same_whichever_draft_was_loaded_on_the_way() {
    let mut plain = bundled();
    let prompt = [Message::new(Role::User, "Tell me a story about a fox.")];
    let request = asked(&mut plain, &prompt, 40);
    let sampler = SamplerSettings::default();
    let (expected, _) = generate::answer(&mut plain.engine, &request, generate::plain(sampler));
    // With a GPU, the drafts go there; the target stays on the CPU, and its bits stay the same.
    let gpu = (!adapters().is_empty()).then_some(DeviceChoice::Gpu(Some(0)));
    if gpu.is_none() {
        println!("left out: drafts on a GPU, for there is none (mesa-vulkan-drivers)");
    }
    for device in [DeviceChoice::Cpu].into_iter().chain(gpu) {
        let (worker, events, loaded) = start_bundled(device);
        assert_eq!(loaded.vram_used > 0, device != DeviceChoice::Cpu);
        let choices = [
            ModelChoice { draft: Some(LOOKUP.into()), ..ModelChoice::default() },
            ModelChoice { draft_model: Some("bundled".into()), ..ModelChoice::default() },
            named(Some("assets/demo/target")),
        ];
        for (at, models) in choices.into_iter().enumerate() {
            let number = at as u64 + 1;
            worker.send(Command::Load(LoadJob { load: number, models }));
            let ended = end_of_load(&events);
            assert!(matches!(ended.last(), Some(Event::Swapped { .. })), "{ended:?}");
            let messages = prompt.to_vec();
            let job = Job { generation: number, messages, max_tokens: 40, ..Job::default() };
            worker.send(Command::Generate(job));
            assert_eq!(Said::rest(&events).tokens, expected, "{device:?}");
        }
    }
}

#[test]
fn an_answer_of_an_earlier_run_goes_on_as_if_it_had_not_been_cut() {
    let start = || start_bundled(DeviceChoice::default());
    let question = Message::new(Role::User, "Tell me a story about a fox.");
    let text_of = |events: &Receiver<Event>| Said::rest(events).text;
    let job = |messages, max_tokens| Job { messages, max_tokens, ..job(1, "", 0) };
    let (worker, events, _) = start();
    worker.send(Command::Generate(job(vec![question.clone()], 60)));
    let whole = text_of(&events);
    worker.send(Command::Generate(Job { generation: 2, ..job(vec![question.clone()], 20) }));
    let begun = text_of(&events);
    assert!(whole.starts_with(&begun) && begun.len() < whole.len(), "{begun:?} {whole:?}");
    // The cache of another run is empty.
    let (worker, events, _) = start();
    let messages = vec![question, Message::new(Role::Assistant, begun.clone())];
    worker.send(Command::Generate(job(messages, 40)));
    assert_eq!(begun + &text_of(&events), whole);
}
