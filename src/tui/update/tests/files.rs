//! Files that the words of a message name.

use std::time::Duration;

use super::{job, texts};
use crate::chat::Role;
use crate::tui::event::{Effect, NamedFile, ScreenEvent};
use crate::tui::input::Suggestion;
use crate::tui::state::ScreenState;
use crate::tui::tests::{loaded, type_keys};
use crate::tui::toasts::Tone;
use crate::tui::update::update;

fn folder(state: &mut ScreenState, folder: &str, names: &[&str]) -> Vec<Effect> {
    let names = names.iter().map(|name| (*name).to_string()).collect();
    update(state, ScreenEvent::Folder(folder.to_string(), names), Duration::ZERO)
}

/// Sends what is written, the files being as given.
fn send(state: &mut ScreenState, files: Vec<NamedFile>) -> Vec<Effect> {
    let effects = type_keys(state, "<enter>");
    let [Effect::ReadNamed { message, paths }] = effects.as_slice() else {
        panic!("no file was read: {effects:?}")
    };
    let named: Vec<&String> = files.iter().map(|(path, _)| path).collect();
    assert_eq!(paths.iter().collect::<Vec<_>>(), named);
    let read = ScreenEvent::NamedRead { message: message.clone(), files };
    update(state, read, Duration::ZERO)
}

fn file(path: &str, text: &str) -> NamedFile {
    (path.to_string(), Ok(text.to_string()))
}

#[test]
fn paths_are_completed_folder_by_folder() {
    let mut state = loaded(80, 24);
    let asked = |folder: &str| vec![Effect::ListFolder(folder.to_string())];
    assert_eq!(type_keys(&mut state, "see @s"), asked(""));
    assert!(state.input.offered().is_empty(), "nothing is known yet");
    folder(&mut state, "", &["readme.md", "sample.txt", "src/"]);
    let offered = |state: &ScreenState| -> Vec<String> {
        let path = |suggestion| match suggestion {
            Suggestion::Path(path) => path,
            Suggestion::Command(command) => panic!("{command:?}"),
        };
        state.input.offered().into_iter().map(path).collect()
    };
    assert_eq!(offered(&state), ["sample.txt", "src/"]);
    assert_eq!(type_keys(&mut state, "<down><tab>"), asked("src/"));
    assert_eq!(state.input.text(), "see @src/");
    folder(&mut state, "src/", &["main.rs"]);
    // Enter writes a path that is begun, and sends only what is whole.
    assert!(type_keys(&mut state, "m<enter>").is_empty());
    assert_eq!(state.input.text(), "see @src/main.rs ");
    assert!(state.chat.turns().is_empty() && offered(&state).is_empty());
    type_keys(&mut state, "<bs>");
    assert!(offered(&state).is_empty(), "it is written");
    type_keys(&mut state, "<bs><esc>");
    assert!(offered(&state).is_empty(), "the list was closed");
}

#[test]
fn the_text_of_a_named_file_is_sent_behind_the_message() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "Compare @a.txt with @b.md");
    let effects = send(&mut state, vec![file("a.txt", "one\n"), file("b.md", "```\nx\n```\n")]);
    let sent =
        "Compare @a.txt with @b.md\n\na.txt:\n```\none\n```\n\nb.md:\n````\n```\nx\n```\n````";
    assert_eq!(job(&effects).messages[0].content, sent);
    assert_eq!(texts(&state)[0], (Role::User, sent.to_string()));
    assert!(state.input.is_empty());
}

#[test]
fn what_cannot_be_sent_is_said_before_and_goes_as_written_when_asked_again() {
    let missing = ("gone.rs".to_string(), Err("cannot read gone.rs: not found".to_string()));
    let large = file("big.txt", &"words ".repeat(2000));
    for (message, files, says) in [
        ("see @gone.rs", vec![missing], "gone.rs"),
        (
            "see @big.txt",
            vec![large],
            "big.txt has about 3000 tokens, but the context holds only 2048",
        ),
    ] {
        let mut state = loaded(80, 24);
        type_keys(&mut state, message);
        assert!(send(&mut state, files.clone()).is_empty());
        let said = state.toasts.shown().unwrap();
        assert!(said.tone == Tone::Wrong && said.text.contains(says), "{}", said.text);
        assert_eq!(state.input.text(), message, "nothing is lost");
        let effects = type_keys(&mut state, "<enter>");
        assert_eq!(job(&effects).messages[0].content, message);
        // Another message is looked at again.
        type_keys(&mut state, "<esc>");
        state.input.set(message);
        send(&mut state, files);
    }
}

#[test]
fn files_that_come_too_late_change_nothing() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "see @a.txt<enter>!");
    let message = "see @a.txt".to_string();
    let read = ScreenEvent::NamedRead { message, files: vec![file("a.txt", "one")] };
    assert!(update(&mut state, read, Duration::ZERO).is_empty());
    assert_eq!(state.input.text(), "see @a.txt!");
}

#[test]
fn a_file_too_large_for_the_context_is_not_attached() {
    let mut state = loaded(80, 24);
    let read = ScreenEvent::FileRead { name: "big.txt".into(), text: "words ".repeat(2000) };
    update(&mut state, read, Duration::ZERO);
    assert!(state.input.is_empty());
    assert!(state.toasts.shown().unwrap().text.contains("the context holds only 2048"));
}
