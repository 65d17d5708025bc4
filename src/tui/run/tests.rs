//! Panics on a real terminal: each test runs itself again on a pseudo-terminal, where it panics.

use portable_pty::CommandBuilder;

use super::*;
use crate::chat::Message;
use crate::library::Blob;
use crate::plan::Setting;
use crate::record::Script;
use crate::tui::tests::{config, controls, unloaded};

// The tests of the whole program use what is not used here.
#[allow(dead_code)]
#[path = "../../../tests/support/pty.rs"]
mod pty;

use pty::Pty;

/// Set in the child: the folder for its conversations.
const CHILD: &str = "DOVETAIL_TEST_SESSIONS";

/// The running test, once more on a pseudo-terminal.
fn again(sessions: &std::path::Path) -> Pty {
    let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
    // The harness calls a test's thread by its name.
    let thread = std::thread::current();
    command.args([thread.name().unwrap(), "--exact", "--nocapture"]);
    command.env(CHILD, sessions);
    command.env("TERM", "xterm-256color");
    command.env("RUST_BACKTRACE", "0");
    Pty::start(command, 100, 30)
}

fn wait_for<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn saved(sessions: &std::path::Path) -> Vec<Message> {
    let store = SessionStore::at(sessions);
    let list = store.list().unwrap();
    assert_eq!(list.sessions.len(), 1);
    let open = store.load(&list.sessions[0].id).unwrap();
    open.session().turns().into_iter().map(|turn| turn.message).collect()
}

#[test]
fn a_panic_of_the_screen_gives_the_terminal_back_and_saves() {
    if let Some(sessions) = std::env::var_os(CHILD) {
        let shared = SharedControls::new(controls());
        let worker = Script::default().play(shared.clone(), Box::new(|_| true)).unwrap();
        let store = Some(SessionStore::at(sessions));
        let runner = EffectRunner::new(worker, shared, store, ModelFinder::default()).unwrap();
        let results = unbounded_channel().0;
        let mut app =
            App::new(unloaded(), runner, Some(Screen::take(false, false).unwrap()), results);
        app.state.chat.ask("Remember me".to_string());
        let _ = guarded(app, |app| {
            app.draw()?;
            while app.screen.as_ref().unwrap().output.busy() {
                wait_for(written(&mut app.screen))?;
            }
            panic!("a bug of the screen");
        });
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let child = again(folder.path());
    let ended = child.end();
    assert_ne!(ended.code, 0);
    assert!(ended.screen.contains("a bug of the screen"), "{}", ended.screen);
    assert!(String::from_utf8_lossy(&ended.bytes).contains("Remember me"), "nothing was drawn");
    assert_eq!(saved(folder.path())[0].content, "Remember me");
}

#[test]
fn a_panic_of_the_worker_leaves_the_screen_alone_and_is_reported() {
    if let Some(sessions) = std::env::var_os(CHILD) {
        let script = include_str!("../../../tests/scripts/answers.jsonl");
        let store = Some(SessionStore::at(sessions));
        let mut state = config();
        state.settings.max_tokens = Setting::Fixed(64);
        state.display.mouse = true;
        let models = ModelFinder::default();
        run(
            ScreenConfig {
                state,
                store,
                snapshots: None,
                models,
                open: None,
                questions: Vec::new(),
            },
            SharedControls::new(controls()),
            |shared, mut sink| {
                let fragile: Sink = Box::new(move |event| match event {
                    Event::Round { .. } => panic!("a bug of the worker"),
                    event => sink(event),
                });
                Ok(Script::parse(script)?.play(shared, fragile)?)
            },
        )
        .unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = again(folder.path());
    child.wait_for("Write a message");
    child.send("Are you there?\r");
    child.wait_for("Decoding stopped");
    child.wait_for("a bug of the worker");
    child.send("\x1b");
    child.wait("the box to close", |screen| !screen.contains("Decoding stopped"));
    child.send("still typing");
    child.wait_for("still typing");
    child.send("\x11");
    assert_eq!(child.end().code, 0);
    assert_eq!(saved(folder.path())[0].content, "Are you there?");
}

#[cfg(unix)]
#[test]
fn a_model_that_is_truncated_while_it_is_read_ends_the_chat_in_order() {
    if let Some(sessions) = std::env::var_os(CHILD) {
        faults::watch(|| std::process::exit(9)).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let model: &'static Blob = Box::leak(Box::new(Blob::open(file.path()).unwrap()));
        let script = include_str!("../../../tests/scripts/answers.jsonl");
        let mut state = config();
        state.settings.max_tokens = Setting::Fixed(64);
        let config = ScreenConfig {
            state,
            store: Some(SessionStore::at(sessions)),
            snapshots: None,
            models: ModelFinder::default(),
            open: None,
            questions: Vec::new(),
        };
        run(config, SharedControls::new(controls()), |shared, mut sink| {
            let reading: Sink = Box::new(move |event: Event| {
                if matches!(event, Event::Round { .. }) {
                    file.as_file().set_len(0).unwrap();
                    // Several threads read a model at once.
                    std::thread::scope(|scope| {
                        let readers = [0_usize, 1 << 19].map(|at| scope.spawn(move || model[at]));
                        readers.map(|reader| reader.join().unwrap())
                    });
                }
                sink(event)
            });
            Ok(Script::parse(script)?.play(shared, reading)?)
        })
        .unwrap();
        std::process::exit(if faults::truncated() { 7 } else { 0 });
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = again(folder.path());
    child.wait_for("Write a message");
    child.send("Are you there?\r");
    // What follows Enter at once would be the rest of a paste.
    std::thread::sleep(Duration::from_millis(50));
    child.send("half a message");
    assert_eq!(child.end().code, 7);
    assert_eq!(saved(folder.path())[0].content, "Are you there?");
}
