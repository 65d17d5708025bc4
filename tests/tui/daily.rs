//! A chat that is used every day: the questions of an empty chat, messages that wait, the way back,
//! the race, other programs' files.

use crate::support::chat::{ANSWER, Chat, saved};
use crate::support::program::{on_a_terminal, script, scripted};
use crate::support::pty::Pty;
use std::path::PathBuf;
use tempfile::TempDir;

#[test]
fn a_digit_and_enter_begin_a_chat() {
    let mut chat = Chat::start("answers.jsonl").ready();
    chat.wait_for("1 Tell me a story about a cat");
    chat.type_until("2", "│ Why is the sky blue?");
    chat.type_until("\r", ANSWER);
    let (_, saved) = chat.quit();
    assert!(saved.contains("Why is the sky blue?"), "{saved}");
}

#[test]
fn a_message_waits_for_the_answer_before_it() {
    let mut chat = Chat::start("slow.jsonl").ready();
    chat.type_until("First\r", "● answering");
    chat.type_until("Second\r", "Sent when this answer ends");
    chat.pty.wait("the second to be asked", |screen| {
        screen.contains("❯ Second") && !screen.contains("to be sent")
    });
    let (_, saved) = chat.quit();
    assert!(saved.contains("\"First\"") && saved.contains("Second"), "{saved}");
}

#[test]
fn the_way_back_is_told_and_leads_back() {
    let mut chat = Chat::start("answers.jsonl").ready();
    chat.type_until("Where did the fox run?\r", " instead of ");
    chat.send("\x03\x03");
    let Chat { pty, home } = chat;
    let ended = pty.end();
    assert_eq!(ended.code, 0);
    assert!(ended.screen.contains("dovetail --continue"), "{}", ended.screen);
    for flags in [&["--continue"][..], &["--resume", "where did"], &["--resume"]] {
        let mut pty = again(home.path(), flags);
        if flags == ["--resume"] {
            pty.wait_for("saved conversations");
            pty.send("\r");
        }
        pty.wait_for(ANSWER);
        pty.send("\x03\x03");
        assert_eq!(pty.end().code, 0, "{flags:?}");
    }
}

/// A start in the same home folder, with these flags.
fn again(home: &std::path::Path, flags: &[&str]) -> Pty {
    let played = ["--script", &script("answers.jsonl")];
    let mut pty = Pty::start(on_a_terminal(home, &[flags, &played].concat()), 80, 24);
    pty.wait_for("○ ready");
    pty
}

#[cfg(unix)]
#[test]
fn a_question_that_lost_its_answer_with_the_program_gets_one() {
    let mut chat = Chat::start("slow.jsonl").ready();
    chat.type_until("Where did the fox run?\r", "● answering");
    let home = chat.home.path().to_owned();
    chat.pty.wait("the question to be saved", |_| saved(&home).contains("Where did"));
    chat.pty.signal("KILL");
    let Chat { pty, home } = chat;
    pty.end_unseen();
    let mut second = again(home.path(), &["--continue"]);
    second.wait_for("no answer yet · Enter answers it");
    second.type_until("\r", ANSWER);
    second.wait_for(" instead of ");
    second.send("\x03\x03");
    assert_eq!(second.end().code, 0);
    assert_eq!(saved(home.path()).matches("Where did the fox run?").count(), 2, "title and text");
}

#[cfg(unix)]
#[test]
fn a_message_that_was_not_sent_is_there_again() {
    let mut chat = Chat::start("answers.jsonl").ready();
    chat.type_until("Before any", "│ Before any");
    chat.type_until("\x03", "↑ brings it back");
    chat.type_until("\x1b[A", "│ Before any");
    chat.send(" question\x11");
    let Chat { pty, home } = chat;
    let ended = pty.end();
    assert!(ended.screen.contains("starts with your unsent"), "{}", ended.screen);
    let mut second = again(home.path(), &[]);
    second.wait_for("│ Before any question");
    second.type_until("\r", ANSWER);
    second.wait_for(" instead of ");
    second.type_until("Half of the nex", "│ Half of the nex");
    second.signal("TERM");
    let ended = second.end();
    assert_eq!(ended.code, 0);
    assert!(ended.screen.contains("unsent message. To continue it"), "{}", ended.screen);
    // A new conversation begins empty: the message belongs to the other conversation.
    let mut third = again(home.path(), &[]);
    third.wait_for("│ Write a message");
    third.send("\x04");
    assert_eq!(third.end().code, 0);
    let mut fourth = again(home.path(), &["--continue"]);
    fourth.wait_for("│ Half of the nex");
    fourth.type_until("t\x0c", "│ Half of the next");
    let (code, _) = fourth.hang_up("\x0c");
    assert_eq!(code, 0);
    let mut fifth = again(home.path(), &["--continue"]);
    fifth.wait_for("│ Half of the next");
    fifth.send("\r");
    fifth.wait("the second answer", |screen| screen.matches(" instead of ").count() == 2);
    fifth.send("\x03\x03");
    assert_eq!(fifth.end().code, 0);
    assert!(!saved(home.path()).contains("unsent"), "it was sent");
}

#[test]
fn conversations_are_renamed_deleted_and_brought_back() {
    let mut chat = Chat::start("answers.jsonl").ready();
    chat.type_until("First question\r", " instead of ");
    chat.send("/new\r");
    chat.pty.wait("the chat to be empty", |screen| !screen.contains("First question"));
    chat.type_until("\x13", "saved conversations");
    chat.type_until("\x1bOQ!!\r", "First question!!");
    chat.type_until("\x1b[3~", "0 of 0");
    chat.type_until("\x12", "First question!!");
    chat.send("\r");
    chat.pty.wait("the list to close", |screen| !screen.contains("saved conversations"));
    chat.wait_for(ANSWER);
    let folder = chat.home.path().join("out");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("talk.md");
    chat.type_until(&format!("/export {}\r", file.display()), "Exported to");
    chat.type_until(&format!("/import {}\r", file.display()), "Imported");
    let home = chat.home.path().to_owned();
    let copies = saved(&home).matches("First question!!").count();
    assert!(copies >= 1, "the one that was there stays");
    chat.quit();
}

#[test]
fn a_race_is_run_and_played() {
    let mut chat = Chat::with("slow.jsonl", 120, 36, &[]).ready();
    chat.type_until("Go\r", "Once upon");
    chat.type_until("\x1b", "· stopped");
    chat.wait_for("○ ready");
    chat.type_until("\x1b[24~", "race: the last question, twice");
    chat.wait_for("timing plain …");
    chat.wait_for("timing speculative");
    chat.wait_for("rounds instead of ");
    assert!(!chat.pty.screen().contains("× as fast"), "{}", chat.pty.screen());
    chat.send("\x1b");
    chat.pty.wait("the race to be left", |screen| !screen.contains("race: the last"));
    chat.quit();
}

/// Column and row of `words` on the screen, starting at 1, as a terminal reports the mouse.
fn cell(screen: &str, words: &str) -> (usize, usize) {
    let found = screen.lines().enumerate().find_map(|(y, row)| Some((y, row.find(words)?, row)));
    let (y, byte, row) = found.unwrap_or_else(|| panic!("no {words:?} in\n{screen}"));
    (row[..byte].chars().count() + 1, y + 1)
}

#[test]
fn the_mouse_goes_to_rounds_and_copies() {
    // Over ssh, the terminal's own clipboard is used even if there is a desktop.
    let mut chat = Chat::with("answers.jsonl", 160, 36, &[("SSH_CONNECTION", "test")]).ready();
    chat.type_until("Where did the fox run?\r", " instead of ");
    let screen = chat.pty.screen();
    let ((x, y), (end, _)) = (cell(&screen, "red fox"), cell(&screen, "over the hill"));
    chat.type_until(&format!("\x1b[<0;{x};{y}M\x1b[<0;{x};{y}m"), "looking back");
    chat.type_until(
        &format!("\x1b[<0;{x};{y}M\x1b[<32;{};{y}M\x1b[<0;{};{y}m", end + 1, end + 3),
        "Handed to the terminal",
    );
    // "red fox ran over" in base 64, as in OSC 52.
    let sent = String::from_utf8_lossy(&chat.pty.bytes()).into_owned();
    assert!(sent.contains("\x1b]52;c;cmVkIGZveCByYW4gb3Zlcg=="), "nothing was copied");
    // The terminal reports every move of the mouse only while there is a clock to point at.
    assert!(!sent.contains("\x1b[?1003h"), "{sent:?}");
    chat.type_until("\x1bOQ", "round 1 ━ draft");
    let (x, y) = cell(&chat.pty.screen(), "╷2");
    chat.type_until(&format!("\x1b[<35;{x};{y}M"), "round 2 ━ draft");
    chat.type_until("\x1b[<35;1;1M", "round 1 ━ draft");
    assert!(String::from_utf8_lossy(&chat.pty.bytes()).contains("\x1b[?1003h"));
    chat.quit();
}

#[test]
fn a_file_is_named_in_the_message_and_sent_with_it() {
    let mut chat = Chat::start("answers.jsonl").ready();
    let folder = chat.home.path().join("notes");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("foxes.txt"), "They sleep in the sun.\n").unwrap();
    let path = folder.display().to_string();
    chat.type_until(&format!("Read @{path}/f"), " files 1 of 1 ");
    chat.send("\t");
    chat.pty.wait("the whole name", |screen| {
        screen.contains("foxes.txt") && !screen.contains(" files ")
    });
    chat.type_until("and @gone.txt\r", "gone.txt");
    chat.pty.wait("what sending again does", |screen| {
        let words: Vec<&str> = screen.split_whitespace().collect();
        words.join(" ").contains("Enter again sends the message as it is")
    });
    chat.send(&"\x7f".repeat("and @gone.txt".len()));
    chat.type_until("\r", ANSWER);
    let (_, saved) = chat.quit();
    assert!(saved.contains("They sleep in the sun."), "{saved}");
}

/// A chat with an answer that cannot be saved, its home, and the folder for what is left.
#[cfg(unix)]
fn with_a_full_disk() -> (TempDir, PathBuf, Pty) {
    let home = tempfile::tempdir().unwrap();
    let (data, last) = (home.path().join("data"), home.path().join("last"));
    std::fs::create_dir_all(&last).unwrap();
    std::fs::create_dir_all(data.join("dovetail")).unwrap();
    // Nothing can be written below a file, as on a full disk, by any user.
    std::fs::write(data.join("dovetail/sessions"), "").unwrap();
    let mut command = scripted("answers.jsonl", home.path());
    command.env("XDG_DATA_HOME", &data);
    command.env("TMPDIR", &last);
    let mut pty = Pty::start(command, 100, 30);
    pty.wait_for("○ ready");
    pty.type_until("Where did the fox run?\r", " instead of ");
    (home, last, pty)
}

#[cfg(unix)]
#[test]
fn a_full_disk_keeps_the_chat_open_until_it_is_left_again() {
    for way in ["\x11", "\x03\x03", "\x04", "/quit\r"] {
        let (_home, last, mut pty) = with_a_full_disk();
        pty.send(way);
        // It may be broken at the end of any row.
        pty.wait("why it does not leave", |screen| {
            let words: Vec<&str> = screen.split_whitespace().collect();
            words.join(" ").contains("Ctrl+Q again quits without saving it")
        });
        pty.send(way);
        let ended = pty.end();
        assert_eq!(ended.code, 1, "{way:?}: {}", ended.screen);
        let told = ended.screen.replace('\n', "");
        assert!(told.contains("not everything was saved"), "{told}");
        assert!(!told.contains("still on the screen"), "{told}");
        let kept: Vec<_> = std::fs::read_dir(&last).unwrap().map(|e| e.unwrap().path()).collect();
        let kept = kept.iter().find(|path| path.extension().is_some_and(|end| end == "json"));
        let kept = kept.unwrap_or_else(|| panic!("nothing is kept: {told}"));
        assert!(told.contains(kept.to_str().unwrap()), "{told}");
        let text = std::fs::read_to_string(kept).unwrap();
        assert!(text.contains("Where did the fox run?") && text.contains(ANSWER), "{text}");
    }
    // There is no user to ask after a signal.
    let (_home, _, pty) = with_a_full_disk();
    pty.signal("TERM");
    let ended = pty.end();
    assert_eq!(ended.code, 1);
    assert!(ended.screen.replace('\n', "").contains("The conversation is in "), "{}", ended.screen);
}
