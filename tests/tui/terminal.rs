//! The program and its terminal: latency, resizes, hang-ups, job control, unsuitable terminals.

use std::path::Path;
use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;

use crate::support::chat::{Chat, saved};
use crate::support::library::arch_file;
use crate::support::program::{at_home, on_a_terminal, script};
use crate::support::pty::Pty;

/// A chat with one answered question.
fn after_an_answer() -> Chat {
    let mut chat = Chat::start("answers.jsonl").ready();
    chat.type_until("Keep this\r", " instead of ");
    chat
}

#[test]
fn letters_are_shown_at_once_while_nothing_is_answered() {
    let mut chat = Chat::start("answers.jsonl").ready();
    let mut waits = Vec::new();
    let mut typed = String::new();
    for letter in "qzxvkjwqzxv".chars() {
        std::thread::sleep(Duration::from_millis(110));
        typed.push(letter);
        let began = Instant::now();
        chat.type_until(&letter.to_string(), &typed);
        waits.push(began.elapsed());
    }
    waits.sort();
    // Without a waker, a letter waits for the meters' next second, half a second on average. A
    // loaded machine is slow too, but not at every letter.
    assert!(waits[waits.len() / 2] < Duration::from_millis(250), "{waits:?}");
    chat.quit();
}

#[test]
fn a_line_typed_before_the_first_frame_is_sent() {
    let mut chat = Chat::start("answers.jsonl");
    chat.type_until("Keep this\r", " instead of ");
    chat.quit();
}

#[test]
fn a_terminal_that_goes_away_amid_keys_ends_the_program_saved() {
    let paste = format!("\x1b[200~{}", "pasted words ".repeat(300));
    // Keys, half an escape sequence, a paste whose end never comes.
    for keys in ["abcdefghijklmnop", "abc\x1b[", &paste, "one two\x1b[200~three"] {
        let mut chat = after_an_answer();
        chat.send("x");
        let Chat { pty, home } = chat;
        let (_, took) = pty.hang_up(keys);
        let saved = saved(home.path());
        assert!(saved.contains("Keep this") && saved.contains("red fox"), "{saved}");
        // One second is the aim; the machine may be loaded.
        assert!(took < Duration::from_secs(5), "{took:?} after {keys:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_terminal_that_takes_nothing_does_not_keep_the_program_from_ending() {
    let mut chat = Chat::start("slow.jsonl").ready();
    chat.type_until("Remember this\r", "● answering");
    chat.wait_for("small fox");
    chat.pty.hold();
    // More frames than the terminal's buffer holds.
    for size in (0..200).map(|i| 80 + i % 40) {
        chat.pty.resize(size, 40);
        std::thread::sleep(Duration::from_millis(3));
    }
    chat.pty.signal("TERM");
    let Chat { pty, home } = chat;
    assert_eq!(pty.end_unseen(), 0);
    let saved = saved(home.path());
    assert!(saved.contains("Remember this") && saved.contains("small fox"), "{saved}");
}

#[cfg(unix)]
#[test]
fn every_signal_that_would_end_the_program_ends_it_saved() {
    for name in ["QUIT", "USR1", "USR2", "ALRM", "XCPU"] {
        let mut chat = after_an_answer();
        chat.type_until("half a word", "half a word");
        chat.pty.signal(name);
        let Chat { pty, home } = chat;
        let ended = pty.end();
        assert_eq!(ended.code, 0, "{name}: {}", ended.screen);
        let saved = saved(home.path());
        assert!(saved.contains("Keep this") && saved.contains("half a word"), "{name}: {saved}");
    }
}

#[cfg(unix)]
#[test]
fn half_a_sequence_holds_nothing_up() {
    let mut chat = Chat::start("slow.jsonl").ready();
    chat.type_until("Go\r", "● answering");
    chat.wait_for("small fox");
    // The end of this paste never comes: the answer continues and the program can be ended.
    chat.send("\x1b[200~half a paste");
    let shown = chat.pty.screen();
    chat.pty.wait("the answer to go on", |screen| screen != shown);
    chat.pty.resize(100, 30);
    chat.pty.wait("the new size", |screen| screen.lines().any(|line| line.chars().count() > 90));
    chat.pty.signal("TERM");
    assert_eq!(chat.pty.end().code, 0);
}

#[test]
fn a_storm_of_sizes_never_shows_an_empty_screen() {
    let mut chat = Chat::start("answers.jsonl").ready();
    for i in 0..700_u16 {
        chat.pty.resize(60 + i % 70, 20 + i % 25);
    }
    chat.pty.resize(120, 36);
    chat.type_until("after the storm", "after the storm");
    chat.pty.wait("the last size", |screen| {
        screen.lines().any(|line| line.chars().count() == 120) && screen.contains("○ ready")
    });
    // A screen is cleared and drawn in one frame, which terminals show at once.
    let bytes = String::from_utf8_lossy(&chat.pty.bytes()).into_owned();
    let clear = "\x1b[2J";
    assert!(bytes.contains(clear), "the size has changed");
    for after in bytes.split(clear).skip(1) {
        let frame = after.split("\x1b[?2026l").next().unwrap();
        assert!(frame.len() > 200 || after.starts_with('\x1b'), "cleared and not drawn: {frame:?}");
    }
    chat.quit();
}

#[test]
fn a_long_paste_is_taken_whole() {
    let mut chat = Chat::start("answers.jsonl").ready();
    let text = "All work and no play makes a dull text.\r".repeat(1 << 20 >> 5);
    chat.type_until(&format!("\x1b[200~{text}\x1b[201~"), "⟦32768 lines⟧");
    chat.type_until("the end", "the end");
    chat.quit();
}

/// A shell with job control, which starts the chat, waits for a line, and continues the chat.
#[cfg(unix)]
fn in_a_shell(home: &Path) -> CommandBuilder {
    let mut command = CommandBuilder::new("sh");
    command.args(["-c", "set -m; \"$@\"; echo \"in the shell\"; read line; fg", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_dovetail"));
    command.arg("--script");
    command.arg(script("answers.jsonl"));
    at_home(&mut command, home);
    command
}

#[cfg(unix)]
#[test]
fn ctrl_z_goes_to_the_shell_and_fg_comes_back() {
    let home = tempfile::tempdir().unwrap();
    let mut pty = Pty::start(in_a_shell(home.path()), 80, 24);
    pty.wait_for("○ ready");
    pty.type_until("half a word", "half a word");
    pty.type_until("\x1a", "in the shell");
    assert!(pty.is_restored(), "{}", pty.screen());
    assert!(!pty.screen().contains("half a word"));
    pty.type_until("\n", "half a word");
    pty.wait_for("○ ready");
    pty.type_until(", the rest", "half a word, the rest");
    pty.send("\x11");
    assert_eq!(pty.end().code, 0);
}

/// A script instead of an editor.
#[cfg(unix)]
fn editor(home: &Path, script: &str) -> String {
    let path = home.join("editor.sh");
    std::fs::write(&path, script).unwrap();
    format!("sh {}", path.display())
}

#[cfg(unix)]
#[test]
fn the_editor_has_the_terminal_and_gives_the_text_back() {
    let folder = tempfile::tempdir().unwrap();
    // It reads a line from the terminal, where a user types it.
    let script = "echo \"editing: $(cat \"$1\")\"; read line; \
                  printf ' and %s\\n' \"$line\" >> \"$1\"";
    let editor = editor(folder.path(), script);
    let environment = [("VISUAL", editor.as_str()), ("EDITOR", "false")];
    let mut chat = Chat::with("slow.jsonl", 80, 24, &environment).ready();
    chat.type_until("Go\r", "● answering");
    chat.type_until("Begun\x1bw", "editing: Begun");
    assert!(chat.pty.is_restored(), "{}", chat.pty.screen());
    chat.type_until("more words\n", "│ Begun");
    chat.wait_for("and more words");
    chat.wait_for("Once upon");
    chat.type_until(", typed", "more words, typed");
    chat.type_until("\x1b", "· stopped");
    chat.quit();
}

/// With a shell that waits below it, the whole job stops; without one, the editor continues.
#[cfg(unix)]
#[test]
fn an_editor_that_stops_itself_does_not_freeze_the_chat() {
    let folder = tempfile::tempdir().unwrap();
    let editor = editor(folder.path(), "kill -STOP $$; echo ' and on' >> \"$1\"");
    let environment = [("VISUAL", editor.as_str())];
    let mut chat = Chat::with("answers.jsonl", 80, 24, &environment).ready();
    chat.type_until("Begun\x1bw", "and on");
    chat.type_until(", typed", ", typed");
    chat.quit();

    let home = tempfile::tempdir().unwrap();
    let mut command = in_a_shell(home.path());
    command.env("VISUAL", &editor);
    let mut pty = Pty::start(command, 80, 24);
    pty.wait_for("○ ready");
    pty.type_until("Begun\x1bw", "in the shell");
    assert!(pty.is_restored(), "{}", pty.screen());
    pty.type_until("\n", "and on");
    pty.type_until(", typed", ", typed");
    pty.send("\x11");
    assert_eq!(pty.end().code, 0);
}

#[cfg(unix)]
#[test]
fn an_editor_that_fails_or_is_interrupted_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo in the editor; read line; exit 4";
    let editor = editor(folder.path(), script);
    for (keys, says) in [("\n", "exit status: 4"), ("\x03", "ended with")] {
        let environment = [("VISUAL", ""), ("EDITOR", editor.as_str())];
        let mut chat = Chat::with("answers.jsonl", 80, 24, &environment).ready();
        chat.type_until("Keep me\x1bw", "in the editor");
        chat.type_until(keys, says);
        chat.wait_for("│ Keep me");
        chat.type_until(" too", "Keep me too");
        chat.quit();
    }
    let mut chat = Chat::with("answers.jsonl", 80, 24, &[("VISUAL", ""), ("EDITOR", "")]).ready();
    chat.type_until("Keep me\x1bw", "set VISUAL or EDITOR");
    chat.type_until(" too", "Keep me too");
    chat.quit();
}

#[test]
fn without_a_shell_ctrl_z_says_why_nothing_happens() {
    let mut chat = Chat::start("answers.jsonl").ready();
    chat.type_until("\x1a", "Cannot suspend");
    chat.type_until("still here", "still here");
    chat.quit();
}

/// Starts the chat and returns how it ended, which must be without a full screen.
fn without_a_screen(arguments: &[&str], environment: &[(&str, &str)]) -> (u32, String) {
    let home = tempfile::tempdir().unwrap();
    let mut command = on_a_terminal(home.path(), arguments);
    for (name, value) in environment {
        command.env(name, value);
    }
    let ended = Pty::start(command, 200, 24).end();
    let bytes = String::from_utf8_lossy(&ended.bytes).into_owned();
    assert!(!bytes.contains("\x1b[?1049h"), "the full screen was opened: {bytes:?}");
    (ended.code, ended.screen)
}

#[cfg(unix)]
#[test]
fn a_terminal_without_a_full_screen_is_pointed_to_run() {
    for term in ["dumb", ""] {
        let (code, said) = without_a_screen(&[], &[("TERM", term)]);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("TERM") && said.contains("dovetail run"), "{said}");
    }
}

#[test]
fn a_target_that_is_none_is_told_without_a_screen() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("no-model.gguf"), "this is no model").unwrap();
    std::fs::create_dir(path("empty")).unwrap();
    // A download that was interrupted half-way.
    let whole = std::fs::read(arch_file("llama.gguf")).unwrap();
    std::fs::write(path("torn.gguf"), &whole[..whole.len() / 2]).unwrap();
    let names = ["missing.gguf", "missing", "no-model.gguf", "torn.gguf", "empty"];
    let wrong = names.map(path).into_iter().chain(["nowhere.gguf".to_owned()]);
    for target in &wrong.collect::<Vec<_>>() {
        let (code, said) = without_a_screen(&["--target", target], &[]);
        assert_eq!(code, 3, "{target}: {said}");
        let name = Path::new(target).file_stem().unwrap().to_str().unwrap();
        let line: String = said.split_whitespace().collect();
        assert!(line.contains("error:") && line.contains(name), "{target}: {said}");
    }
}

/// Waits until the program has written this, a moment at most.
#[cfg(unix)]
fn has_written(chat: &Chat, wanted: &str) -> bool {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        if String::from_utf8_lossy(&chat.pty.bytes()).contains(wanted) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

/// What the program asks its terminal at the start.
const QUESTIONS: &str = "\x1b]11;?\x1b\\\x1b[>q\x1b[c";

#[cfg(unix)]
#[test]
fn late_answers_of_a_terminal_are_never_typed() {
    let answers = "\x1b]11;rgb:ffff/ffff/ffff\x07\x1bP>|foot(1.2)\x1b\\\x1b[?62;22c";
    let chat = Chat::start("answers.jsonl");
    assert!(has_written(&chat, QUESTIONS));
    let chat = &mut chat.ready();
    chat.type_until("before", "before");
    std::thread::sleep(Duration::from_millis(300));
    // Cut right after its first byte, within a colour and within the end of a string.
    for part in [&answers[..1], &answers[1..12], &answers[12..35], &answers[35..]] {
        chat.send(part);
        std::thread::sleep(Duration::from_millis(120));
    }
    chat.type_until(" after", "before after");
    // Once more, when nothing is due any more.
    chat.send("\x1b]52;c;aGk=\x07\x1b[?0u\x1b_Gi=1;OK\x1b\\");
    chat.type_until("!", "before after!");
    // Ctrl+Q.
    chat.send("\x11");
}

#[cfg(unix)]
#[test]
fn a_paste_that_comes_as_keys_sends_nothing_and_esc_before_an_arrow_stops_nothing() {
    let mut chat = Chat::start("slow.jsonl").ready();
    chat.type_until("one line\r\tg M and\rthe last", "the last");
    std::thread::sleep(Duration::from_millis(200));
    assert!(!chat.pty.screen().contains("answering"), "{}", chat.pty.screen());
    chat.send("\r");
    chat.wait_for("● answering");
    chat.wait_for("small fox");
    chat.type_until("\x1b\x1b[A\x1b[1;3Ax", "│ x");
    assert!(chat.pty.screen().contains("answering"), "{}", chat.pty.screen());
    chat.send("\x11");
}

#[cfg(unix)]
#[test]
fn the_terminal_gets_back_its_title_and_its_modes() {
    let mut chat = after_an_answer();
    chat.send("\x11");
    let bytes = String::from_utf8_lossy(&chat.pty.end().bytes).into_owned();
    let (_, end) = bytes.rsplit_once("\x1b[23;2t").expect("the title is given back");
    assert!(bytes.contains("\x1b[22;2t") && !end.contains("\x1b]0;"), "it is saved before");
    for (on, off) in [("\x1b[?1007l", "\x1b[?1007h"), ("\x1b[?1004h", "\x1b[?1004l")] {
        let last = |sign| bytes.rfind(sign);
        assert!(last(on).is_some() && last(on) < last(off), "{on:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_terminal_that_says_it_shows_images_gets_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.png");
    image::RgbaImage::from_pixel(40, 30, image::Rgba([255; 4])).save(&file).unwrap();
    let message = format!("See ![it](<{}>)\r", file.display());
    let is_shown = |answer: &str, image: &str| {
        let mut chat = Chat::start("answers.jsonl");
        if !has_written(&chat, QUESTIONS) {
            return false;
        }
        chat.send(answer);
        let mut chat = chat.ready();
        chat.send(&message);
        let is_shown = has_written(&chat, image);
        chat.wait_for(" instead of ");
        is_shown
    };
    let kitty = ("\x1bP>|kitty(0.43.1)\x1b\\\x1b[?62;52c", "\x1b_Ga=T,U=1,f=100,");
    for (answer, image) in [kitty, ("\x1b[?62;4c", "\x1bP0;1q\"1;1;40;30#")] {
        // On a loaded machine an answer may come too late.
        assert!((0..10).any(|_| is_shown(answer, image)), "{answer:?}");
    }
    assert!(!is_shown("\x1b[?62;22c", "\x1b_G"));
}
