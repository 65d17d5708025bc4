//! What the program refuses, cuts or displays instead of sending it to the terminal:
//! contradictions, endless input, control characters.

use std::path::PathBuf;

use portable_pty::CommandBuilder;
use serde_json::Value;

use crate::support::program::{Home, at_home, outcome, run, script};
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
fn a_pipe_gets_every_byte_of_an_answer() {
    let home = Home::new();
    let script = hostile_script(&home);
    let mut command = home.command(&["run", "hi", "--script", script.to_str().unwrap()]);
    let (code, out, err) = outcome(&mut command);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with(&format!("Hello{HOSTILE}! The red fox")), "{out:?}");
}

#[test]
fn a_terminal_gets_no_control_character_of_an_answer() {
    let home = Home::new();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_dovetail"));
    command.args(["run", "hi", "--script"]);
    command.arg(hostile_script(&home));
    at_home(&mut command, home.path());
    let mut pty = Pty::start(command, 100, 24);
    pty.send("\u{4}");
    pty.wait_for("in the sun.");
    let ended = pty.end();
    assert_eq!(ended.code, 0, "{}", ended.screen);
    assert!(ended.screen.contains("Hello␛]52;c;QQ==␇␛[2J! The red fox"), "{}", ended.screen);
    assert!(!ended.bytes.windows(4).any(|bytes| bytes == b"\x1b]52"));
}

#[test]
fn names_in_errors_are_harmless() {
    let target = format!("/no/such/{HOSTILE}");
    let (code, _, err) = run(&["run", "hi", "--target", &target]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("/no/such/␛]52;c;QQ==␇␛[2J") && !err.contains('\u{1b}'), "{err:?}");
}

#[test]
fn contradictions_end_before_anything_is_loaded() {
    for (args, words) in [
        (&["run", "hi", "--strategy", "rest"][..], &["`rest` needs a text", "--rest-text"][..]),
        (&["run", "hi", "--plain", "--strategy", "sps"], &["--plain", "--strategy sps"]),
        (
            &["run", "hi", "--target", "/no/such/model", "--strategy", "sps"],
            &["a small language model", "--draft-model"],
        ),
        (&["doctor", "--draft", "lookup", "--strategy", "dovetail"], &["`lookup`", "--draft"]),
        (&["--pace", "300"], &["--pace", "such as 0.5s or 500ms"]),
    ] {
        let (code, out, err) = run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        for word in words {
            assert!(err.contains(word), "{args:?}: {word} is missing from\n{err}");
        }
    }
}

#[test]
fn a_named_small_model_drafts_and_a_flag_without_effect_is_told() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let models = ["--draft-model", "bundled", "--rest-text", readme];
    let more = ["--json", "--max-tokens", "4", "--context", "1000000"];
    let (code, out, err) = run(&[&["run", "hi"][..], &models, &more].concat());
    assert_eq!(code, 0, "{err}");
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(last["strategy"], "auto");
    let notes: Vec<&str> = err.lines().collect();
    assert_eq!(notes.len(), 2, "{err}");
    assert!(notes[0].starts_with("note: --rest-text has no effect"), "{err}");
    assert!(notes[1].starts_with("note: `context` is 1000000"), "{err}");
}

#[test]
fn what_is_piped_in_is_part_of_the_question() {
    let home = Home::new();
    let prompt_tokens = |piped: &str| {
        let mut command = home.command(&["run", "Say it:", "--json", "--max-tokens", "1"]);
        let (code, out, err) = outcome(command.write_stdin(piped.to_owned()));
        assert_eq!(code, 0, "{err}");
        let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        last["prompt_tokens"].as_u64().unwrap()
    };
    assert!(prompt_tokens("The river is long and wide.") >= prompt_tokens("") + 5);
}

#[cfg(unix)]
#[test]
fn a_closed_output_is_an_error_and_nothing_is_loaded() {
    let home = Home::new();
    for line in ["run hi --script /no/such/script", "doctor", "man"] {
        let mut command = std::process::Command::new("sh");
        let line = format!("exec '{}' {line} >&-", env!("CARGO_BIN_EXE_dovetail"));
        command.arg("-c").arg(line);
        home.prepare(&mut command);
        let (code, _, err) = outcome(&mut assert_cmd::Command::from_std(command));
        assert_eq!(code, 1, "{err}");
        assert!(err.contains("standard output is closed"), "{err}");
    }
    // A /dev/null in another program's place is not ours.
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(format!("exec '{}' man 1<>/dev/null", env!("CARGO_BIN_EXE_dovetail")));
    home.prepare(&mut command);
    let (code, _, err) = outcome(&mut assert_cmd::Command::from_std(command));
    assert_eq!(code, 0, "{err}");
}

#[test]
fn a_prompt_far_too_long_is_refused_by_its_length() {
    let home = Home::new();
    let mut command = home.command(&["run"]);
    let (code, out, err) = outcome(command.write_stdin("a river ".repeat(10 << 17)));
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("the prompt has 10485") && err.contains("at least"), "{err}");
}

#[cfg(unix)]
#[test]
fn a_text_without_an_end_is_not_read() {
    for path in ["/dev/zero", "/"] {
        let (code, _, err) = run(&["run", "hi", "--strategy", "rest", "--rest-text", path]);
        assert_eq!(code, 3, "{err}");
        assert!(err.contains(path) && err.contains("choose a regular file"), "{err}");
    }
}
