//! Files for the message: attached, and named by its words.

use super::*;

fn folder(state: &mut ScreenState, folder: &str, names: &[&str]) {
    let names = names.iter().map(|name| (*name).to_string()).collect();
    tell(state, ScreenEvent::Folder(folder.to_string(), names));
}

/// Sends what is written, the files being as given.
fn send(state: &mut ScreenState, files: Vec<NamedFile>) -> Vec<Effect> {
    let effects = type_keys(state, "<enter>");
    let [Effect::ReadNamed { message, paths }] = effects.as_slice() else {
        panic!("no file was read: {effects:?}")
    };
    assert!(paths.iter().eq(files.iter().map(|(path, _)| path)), "{paths:?}");
    tell(state, ScreenEvent::NamedRead { message: message.clone(), files })
}

fn file(path: &str, text: &str) -> NamedFile {
    (path.to_string(), Ok(text.to_string()))
}

#[test]
fn paths_are_completed_folder_by_folder() {
    let mut state = loaded(80, 24);
    let lists = |folder: &str| vec![Effect::ListFolder(folder.to_string())];
    assert_eq!(type_keys(&mut state, "see @s"), lists(""));
    assert!(state.input.offered().is_empty(), "nothing is known yet");
    folder(&mut state, "", &["readme.md", "sample.txt", "src/"]);
    let paths = ["sample.txt", "src/"].map(|path| Suggestion::Path(path.to_string()));
    assert_eq!(state.input.offered(), paths);
    assert_eq!(type_keys(&mut state, "<down><tab>"), lists("src/"));
    assert_eq!(state.input.text(), "see @src/");
    folder(&mut state, "src/", &["main.rs"]);
    // Enter writes a path that is begun, and sends only what is whole.
    assert!(type_keys(&mut state, "m<enter>").is_empty());
    assert_eq!(state.input.text(), "see @src/main.rs ");
    assert!(state.chat.turns().is_empty() && state.input.offered().is_empty());
    for (keys, why) in [("<bs>", "it is written"), ("<bs><esc>", "the list was closed")] {
        type_keys(&mut state, keys);
        assert!(state.input.offered().is_empty(), "{why}");
    }
}

#[test]
fn the_text_of_a_named_file_is_sent_behind_the_message() {
    let mut state = typed("Compare @a.txt with @b.md");
    let effects = send(&mut state, vec![file("a.txt", "one\n"), file("b.md", "```\nx\n```\n")]);
    let sent =
        "Compare @a.txt with @b.md\n\na.txt:\n```\none\n```\n\nb.md:\n````\n```\nx\n```\n````";
    assert_eq!(contents(&effects), [sent]);
    assert_eq!(texts(&state)[0], (Role::User, sent.to_string()));
    assert!(state.input.is_empty());
}

#[test]
fn what_cannot_be_sent_is_said_before_and_goes_as_written_when_asked_again() {
    let missing = ("gone.rs".to_string(), Err("cannot read gone.rs: not found".to_string()));
    let large = file("big.txt", &"words ".repeat(2000));
    let too_large = "big.txt has about 3000 tokens, but the context holds only 2048";
    for (message, files, says) in
        [("see @gone.rs", vec![missing], "gone.rs"), ("see @big.txt", vec![large], too_large)]
    {
        let mut state = typed(message);
        assert!(send(&mut state, files.clone()).is_empty());
        assert_said(&state, Tone::Wrong, says);
        assert_eq!(state.input.text(), message, "nothing is lost");
        let later = state.now + Duration::from_secs(60);
        update(&mut state, ScreenEvent::Tick, later);
        assert_eq!(shown(&state), None);
        assert!(send(&mut state, files.clone()).is_empty(), "the notice is gone");
        assert_said(&state, Tone::Wrong, says);
        assert_eq!(contents(&type_keys(&mut state, "<enter>")), [message]);
        assert_eq!(shown(&state), None, "what was said goes with the message");
        // Another message is looked at again.
        type_keys(&mut state, "<esc>");
        state.input.set(message);
        send(&mut state, files);
    }
}

#[test]
fn files_that_come_too_late_change_nothing() {
    let mut state = typed("see @a.txt<enter>!");
    let message = "see @a.txt".to_string();
    let read = ScreenEvent::NamedRead { message, files: vec![file("a.txt", "one")] };
    assert!(tell(&mut state, read).is_empty());
    assert_eq!(state.input.text(), "see @a.txt!");
}

#[test]
fn a_file_stands_in_the_message_as_a_mark_and_is_sent_whole() {
    let mut state = loaded(80, 24);
    let read = |name: &str, text: String| ScreenEvent::FileRead { name: name.to_string(), text };
    tell(&mut state, read("big.txt", "words ".repeat(2000)));
    assert!(state.input.is_empty());
    assert_said(&state, Tone::Wrong, "the context holds only 2048");
    type_keys(&mut state, "Sum up: ");
    tell(&mut state, read("notes.md", "```sh\nls\n```\n".to_string()));
    assert_eq!(state.input.area().lines(), ["Sum up: ⟦notes.md, 13 bytes, about 4 tokens⟧"]);
    let effects = type_keys(&mut state, "<enter>");
    assert_eq!(contents(&effects), ["Sum up: notes.md:\n````\n```sh\nls\n```\n````"]);
}
