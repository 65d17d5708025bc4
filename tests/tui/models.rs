//! Changing models in the middle of a conversation, with the bundled ones on a pseudo-terminal.

use crate::support::chat::{Chat, saved};
use crate::support::library::{DEMO, copy_folder, demo_copy};
use crate::support::program::on_a_terminal;
use crate::support::pty::Pty;

/// Asks and waits for the end of the answer.
fn ask(chat: &mut Chat, question: &str) {
    chat.type_until(&format!("{question}\r"), &format!("❯ {question}"));
    chat.pty.wait("the answer", |screen| {
        let after = screen.rsplit_once(question).map_or("", |(_, after)| after);
        after.contains(" rounds") && screen.contains("○ ready")
    });
}

fn header_has(chat: &mut Chat, words: &str) {
    chat.pty.wait(words, |screen| {
        screen.lines().next().is_some_and(|line| line.contains(words) && line.contains("○ ready"))
    });
}

#[test]
fn a_conversation_goes_on_with_another_draft_and_another_model() {
    let home = tempfile::tempdir().unwrap();
    // The bundled target again, as a user's folder.
    let twin = home.path().join("twin");
    copy_folder(DEMO.as_ref(), &twin);
    let command = on_a_terminal(home.path(), &["--max-tokens", "40"]);
    let mut chat = Chat { pty: Pty::start(command, 120, 40), home };
    chat.type_until("\x1bOQ", "meters · auto");
    ask(&mut chat, "What is a fox?");

    chat.type_until("\x07", "drafts for this target");
    chat.wait_for("prompt lookup");
    chat.send("lookup\r");
    chat.wait_for("meters · pld");
    ask(&mut chat, "Where does it live?");

    // A name that is not in any list is taken as a path.
    chat.type_until(&format!("/model {}\r", twin.display()), "No match: Enter takes");
    chat.send("\r");
    header_has(&mut chat, "twin");
    ask(&mut chat, "And what does it eat?");

    // A failure leaves it in use.
    chat.type_until("/model no/such/model.gguf\r", "No match: Enter takes");
    chat.type_until("\r", "was not loaded");
    chat.send("\x1b");
    chat.pty.wait("the box to close", |screen| !screen.contains("was not loaded"));
    header_has(&mut chat, "twin");
    ask(&mut chat, "Thank you.");
    chat.send("\x03\x03");
    let Chat { pty, home } = chat;
    assert_eq!(pty.end().code, 0);
    let saved = saved(home.path());
    for question in ["What is a fox?", "Where does it live?", "And what does it eat?", "Thank you."]
    {
        assert!(saved.contains(question), "{question}: {saved}");
    }
}

/// The saved KV caches in `home`.
fn kept(home: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(home.join(".cache/dovetail/kv")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn what_is_kept_of_a_conversation_is_there_on_leaving_and_goes_with_it() {
    let home = tempfile::tempdir().unwrap();
    let target = demo_copy();
    let start = |flags: &[&str]| {
        let own = ["--max-tokens", "60", "--target", target.path().to_str().unwrap()];
        Pty::start(on_a_terminal(home.path(), &[&own, flags].concat()), 120, 40)
    };
    // A short text is read as quickly as a file.
    let question = "Tell me about a fox, a lantern and an old fisherman by the sea, please, and \
                    about all the boats that came home in the night, one by one. Then say what \
                    the children in the village did the next day, when the wind was gone and \
                    the sun was out, and who told them the story, and why.";
    let mut first = start(&[]);
    first.wait_for("○ ready");
    first.send(&format!("{question}\r"));
    first.wait("the answer", |screen| screen.contains(" rounds · ") && screen.contains("○ ready"));
    first.send("\x11");
    assert_eq!(first.end().code, 0);
    let files = kept(home.path());
    assert_eq!(files.len(), 1, "one file, and no part of another");
    assert!(files[0].extension().is_some_and(|ending| ending == "kv"));
    let mut second = start(&["--continue"]);
    second.wait_for("○ ready");
    second.wait_for("Conversation loaded");
    second.send("/new\r");
    second.wait("the chat to be empty", |screen| !screen.contains("old fisherman"));
    second.type_until("\x13", "saved conversations");
    assert_eq!(kept(home.path()), files);
    second.type_until("\x1b[3~", "0 of 0");
    assert!(kept(home.path()).is_empty(), "it is deleted with the conversation");
    second.send("\x11");
    assert_eq!(second.end().code, 0);
    assert!(kept(home.path()).is_empty(), "and does not come back");
}
