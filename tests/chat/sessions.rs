//! Conversations on disk when things go wrong: kills, a full disk, two windows, strange files.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use dovetail::chat::{Message, OpenSession, Role, SavedTurn, SessionStore};
use tempfile::TempDir;

use crate::support::chat::ANSWER;
use crate::support::program;
use crate::support::pty::Pty;

/// Set in a child process: the folder in which it saves.
const CHILD: &str = "DOVETAIL_TEST_SAVES";
fn question(content: String) -> SavedTurn {
    SavedTurn::whole(Message::new(Role::User, content))
}

/// `command` changed so that it runs `test` of this binary as a child process.
fn again<'a>(command: &'a mut Command, test: &str, folder: &Path) -> &'a mut Command {
    let (_, module) = module_path!().split_once("::").unwrap();
    command.args([&format!("{module}::{test}"), "--exact", "--nocapture"]);
    command.env(CHILD, folder).stdout(Stdio::null()).stderr(Stdio::piped())
}

/// Names of the unfinished files in `folder`.
fn unfinished(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".tmp")).collect()
}

#[test]
fn a_kill_while_saving_loses_nothing_that_was_saved() {
    const SAVES: usize = 200;
    if let Some(folder) = std::env::var_os(CHILD) {
        let (store, mut open) = (SessionStore::at(folder), OpenSession::new("demo"));
        let mut turns = Vec::new();
        for saves in 1..=SAVES {
            turns.push(question(format!("{saves} ").repeat(20_000)));
            open.update(turns.clone());
            store.save(&mut open).unwrap();
            eprintln!("saved {saves}");
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = SessionStore::at(folder.path());
    for life in 0..10 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let test = "a_kill_while_saving_loses_nothing_that_was_saved";
        let mut child = again(&mut command, test, folder.path()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut saves = 0;
        let mut count = |line: Option<String>| {
            let line = line?;
            // The kill may have cut off the last line.
            if let Some(Ok(number)) = line.strip_prefix("saved ").map(str::parse) {
                saves = number;
            }
            Some(())
        };
        count(said.next());
        std::thread::sleep(Duration::from_millis(7 * life));
        child.kill().unwrap();
        child.wait().unwrap();
        while count(said.next()).is_some() {}
        assert!(saves > 0, "the child saved nothing");
        let listing = store.list().unwrap();
        assert!(listing.broken.is_empty(), "{:?}", listing.broken);
        assert_eq!(listing.sessions.len(), life as usize + 1);
        // Names sort by time.
        let latest = listing.sessions.iter().max_by_key(|head| head.id.clone()).unwrap();
        assert!(latest.messages >= saves, "{} of {saves} are there", latest.messages);
        store.clean();
        assert!(unfinished(folder.path()).is_empty());
    }
}

#[cfg(unix)]
#[test]
fn a_full_disk_keeps_what_was_saved_before() {
    if let Some(folder) = std::env::var_os(CHILD) {
        let (store, mut open) = (SessionStore::at(&folder), OpenSession::new("demo"));
        let mut turns = Vec::new();
        let error = loop {
            turns.push(question("word ".repeat(1000)));
            open.update(turns.clone());
            if let Err(error) = store.save(&mut open) {
                break error.to_string();
            }
        };
        assert!(error.contains("free some space"), "{error}");
        assert!(unfinished(Path::new(&folder)).is_empty());
        let head = &store.list().unwrap().sessions[0];
        assert_eq!(head.messages, turns.len() - 1);
        // Once there is room, everything is saved in the same place.
        turns.truncate(1);
        open.update(turns);
        assert!(!store.save(&mut open).unwrap().copied);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The system's limit on the size of a file, in blocks of 512 or 1024 bytes.
    let limited = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited]).arg(std::env::current_exe().unwrap());
    let test = "a_full_disk_keeps_what_was_saved_before";
    let ended = again(&mut command, test, folder.path()).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(SessionStore::at(folder.path()).list().unwrap().sessions.len(), 1);
}

/// A window on the conversations in `home`.
fn window(script: &str, home: &TempDir) -> Pty {
    let mut pty = Pty::start(program::scripted(script, home.path()), 90, 40);
    pty.wait_for("○ ready");
    pty
}

fn sessions(home: &TempDir) -> std::path::PathBuf {
    home.path().join(".local/share/dovetail/sessions")
}

fn quit(mut pty: Pty) {
    pty.send("\x11");
    assert_eq!(pty.end().code, 0);
}

#[test]
fn two_windows_on_one_conversation_lose_no_turn() {
    let home = tempfile::tempdir().unwrap();
    let mut first = window("answers.jsonl", &home);
    first.type_until("First question\r", ANSWER);
    first.wait_for(" instead of ");
    let mut second = window("answers.jsonl", &home);
    second.type_until("/load first\r", ANSWER);
    first.send("Said in the first\r");
    first.wait("the answer", |screen| screen.matches(" instead of ").count() == 2);
    second.type_until("Said in the second\r", "continues as a copy");
    quit(second);
    quit(first);
    let store = SessionStore::at(sessions(&home));
    let listing = store.list().unwrap();
    let mut said = Vec::new();
    for head in &listing.sessions {
        let open = store.load(&head.id).unwrap();
        let question = open.session().turns()[2].message.content.clone();
        said.push((head.title.clone(), question));
    }
    said.sort();
    let expected =
        [("First question", "Said in the first"), ("First question (copy)", "Said in the second")];
    assert_eq!(said, expected.map(|(title, said)| (title.to_owned(), said.to_owned())));
}

#[cfg(unix)]
#[test]
fn a_killed_window_leaves_its_question_and_an_ended_one_marks_its_answer() {
    let home = tempfile::tempdir().unwrap();
    let mut killed = window("slow.jsonl", &home);
    killed.type_until("Remember this\r", "small fox");
    killed.signal("KILL");
    let leftover = sessions(&home).join(".dovetail-killed.tmp");
    fs::write(&leftover, "{").unwrap();
    let mut next = window("slow.jsonl", &home);
    assert!(!leftover.exists());
    next.type_until("/load remember\r", "❯ Remember this");
    next.type_until("And this\r", "small fox");
    next.signal("TERM");
    assert_eq!(next.end().code, 0);
    let mut last = window("slow.jsonl", &home);
    last.type_until("/load remember\r", "small fox");
    last.wait_for(" · stopped");
    quit(last);
}

#[cfg(unix)]
#[test]
fn loading_what_is_no_conversation_does_not_freeze_the_screen() {
    let home = tempfile::tempdir().unwrap();
    let folder = sessions(&home);
    fs::create_dir_all(&folder).unwrap();
    let made = Command::new("mkfifo").arg(folder.join("pipe.json")).status().unwrap();
    assert!(made.success());
    std::os::unix::fs::symlink("/dev/zero", folder.join("device.json")).unwrap();
    let mut chat = window("answers.jsonl", &home);
    for name in ["pipe", "device"] {
        chat.send(&format!("/load {name}\r"));
        // The box breaks its lines between words.
        chat.wait_for(&format!("{name},"));
        chat.send("\x1b");
        chat.wait("the box to close", |screen| !screen.contains("Not loaded"));
    }
    quit(chat);
}
