//! What the program refuses, cuts or displays instead of sending it to the terminal:
//! contradictions, endless input, control characters.

use std::path::{Path, PathBuf};

use crate::support::program::{Home, assert_has, ends, last_json, on_a_terminal, script};
use crate::support::pty::Pty;

/// Would set the clipboard of the user's terminal, then clear the screen.
const HOSTILE: &str = "\u{1b}]52;c;QQ==\u{7}\u{1b}[2J";

/// A script whose first token is hostile.
fn hostile_script(home: &Home) -> PathBuf {
    let text = std::fs::read_to_string(script("answers.jsonl")).unwrap();
    let escaped = serde_json::to_string(&format!("Hello{HOSTILE}!")).unwrap();
    let changed = text.replacen("\"Hello!\"", &escaped, 1);
    assert_ne!(changed, text);
    let path = home.path().join("hostile.jsonl");
    std::fs::write(&path, changed).unwrap();
    path
}

#[test]
fn a_pipe_gets_every_byte_of_an_answer_and_a_terminal_no_control_character() {
    let home = Home::new();
    let script = hostile_script(&home);
    let run = ["run", "hi", "--script", script.to_str().unwrap()];
    let (out, err) = home.ran(0, &run);
    assert!(out.starts_with(&format!("Hello{HOSTILE}! The red fox")) && err.is_empty(), "{out:?}");

    let mut pty = Pty::start(on_a_terminal(home.path(), &run), 100, 24);
    pty.send("\u{4}");
    pty.wait_for("in the sun.");
    let ended = pty.end();
    assert_eq!(ended.code, 0, "{}", ended.screen);
    assert_has(&ended.screen, &["Hello␛]52;c;QQ==␇␛[2J! The red fox"]);
    assert!(!ended.bytes.windows(4).any(|bytes| bytes == b"\x1b]52"));

    // Names in errors are harmless too.
    let target = format!("/no/such/{HOSTILE}");
    let (_, err) = home.ran(3, &["run", "hi", "--target", &target]);
    assert!(err.contains("/no/such/␛]52;c;QQ==␇␛[2J") && !err.contains('\u{1b}'), "{err:?}");
}

#[test]
fn a_named_small_model_drafts_and_a_flag_without_effect_is_told() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let models = ["--draft-model", "bundled", "--rest-text", readme];
    let more = ["--json", "--max-tokens", "4", "--context", "1000000"];
    let (out, err) = Home::new().ran(0, &[&["run", "hi"][..], &models, &more].concat());
    assert_eq!(last_json(&out)["strategy"], "auto");
    let notes: Vec<&str> = err.lines().collect();
    assert_eq!(notes.len(), 2, "{err}");
    assert!(notes[0].starts_with("note: --rest-text has no effect"), "{err}");
    assert!(notes[1].starts_with("note: `context` is 1000000"), "{err}");
}

#[cfg(unix)]
#[test]
fn a_closed_output_is_an_error_and_nothing_is_loaded() {
    let home = Home::new();
    let shell = |code: i32, line: &str| {
        let mut command = std::process::Command::new("sh");
        command.arg("-c").arg(format!("exec '{}' {line}", env!("CARGO_BIN_EXE_dovetail")));
        home.prepare(&mut command);
        ends(code, &mut assert_cmd::Command::from_std(command)).1
    };
    for line in ["run hi --script /no/such/script", "race hi", "doctor", "man"] {
        assert_has(&shell(1, &format!("{line} >&-")), &["standard output is closed"]);
    }
    // A /dev/null in another program's place is not ours.
    shell(0, "man 1<>/dev/null");
}

#[test]
fn a_prompt_far_too_long_is_refused_by_its_length() {
    let mut command = Home::new().command(&["run"]);
    let (out, err) = ends(1, command.write_stdin("a river ".repeat(10 << 17)));
    assert_eq!(out, "");
    assert_has(&err, &["the prompt has 10485", "at least"]);
}

#[cfg(unix)]
#[test]
fn a_text_without_an_end_is_not_read() {
    for path in ["/dev/zero", "/"] {
        let args = ["run", "hi", "--strategy", "rest", "--rest-text", path];
        Home::new().refuses(3, &args, &[path, "choose a regular file"]);
    }
}

/// A named pipe: a program that opens it waits for another.
#[cfg(unix)]
fn pipe(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_in_the_place_of_files_are_refused_by_name() {
    let home = Home::new();
    let script = script("answers.jsonl");
    let today = jiff::Timestamp::now().strftime("dovetail.%Y-%m-%d.log").to_string();
    pipe(&home.path().join("state/dovetail/log").join(today));
    home.ran(0, &["run", "hi", "--script", &script]);
    pipe(&home.path().join("pipe"));
    let pipe = home.path().join("pipe").display().to_string();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/chats.jsonl");
    for (out, what) in [(pipe.as_str(), "a pipe"), ("/dev/full", "a device")] {
        home.refuses(1, &["ngrams", "--data", data, "--limit", "3", "--out", out], &[out, what]);
        let race = ["race", "hi", "--max-tokens", "4", "--cast", out];
        home.refuses(1, &race, &[out, what]);
        home.refuses(1, &["run", "hi", "--script", &script, "--record", out], &[out, "exists"]);
        home.refuses(2, &["ngrams", "--data", out], &[out, what]);
    }
}

#[cfg(unix)]
#[test]
fn signals_about_files_are_errors_that_name_what_happened() {
    let home = Home::new();
    let script = script("slow.jsonl");
    let mut command = std::process::Command::new("sh");
    let program = env!("CARGO_BIN_EXE_dovetail");
    let record = home.path().join("record");
    let run =
        format!("exec '{program}' run hi --script '{script}' --record '{}'", record.display());
    command.args(["-c", &format!("ulimit -f 0; {run}")]);
    home.prepare(&mut command);
    let (_, err) = ends(1, &mut assert_cmd::Command::from_std(command));
    assert_has(&err, &["record", "File too large"]);

    let mut pty =
        Pty::start(on_a_terminal(home.path(), &["run", "hi", "--script", &script]), 99, 9);
    pty.wait_for("small fox");
    pty.signal("BUS");
    let ended = pty.end();
    assert_eq!(ended.code, 3, "{}", ended.screen);
    assert_has(&ended.screen, &["error: a file that is in use was truncated"]);
}
