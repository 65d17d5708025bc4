//! What the program refuses, cuts or displays instead of sending it to the terminal:
//! contradictions, endless input, control characters.

use std::path::PathBuf;

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
    for line in ["run hi --script /no/such/script", "doctor", "man"] {
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
