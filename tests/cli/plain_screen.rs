//! The chat in lines, for screen readers.

use crate::support::chat::saved;
use crate::support::program::{HELLO, Home, assert_has, ends, on_a_terminal, script};
use crate::support::pty::Pty;

/// What the chat says to these bytes, with these flags.
fn talk(home: &Home, flags: &[&str], typed: impl AsRef<[u8]>) -> String {
    let mut command = home.command(&[&["chat", "--plain-screen"], flags].concat());
    ends(0, command.write_stdin(typed.as_ref())).0
}

/// The same with a script.
fn scripted(home: &Home, name: &str, typed: impl AsRef<[u8]>) -> String {
    talk(home, &["--script", &script(name)], typed)
}

/// The chat on a terminal, once it listens.
fn on_terminal(home: &Home, name: &str) -> Pty {
    let flags = ["chat", "--plain-screen", "--script", &script(name)];
    let mut chat = Pty::start(on_a_terminal(home.path(), &flags), 100, 30);
    chat.wait_for("You:");
    chat
}

/// What is saved below the home folder that [`on_terminal`] uses.
fn kept(home: &Home) -> String {
    saved(home.path())
}

#[test]
fn it_writes_lines_with_roles_as_words_and_saves_the_conversation() {
    let home = Home::new();
    let typed = "/rounds\nWhere did the fox run?\n/rounds\n/quit\n";
    let out = scripted(&home, "answers.jsonl", typed);
    assert_has(&out, &["scripted 6M is ready.", "You: ", "There are no rounds yet."]);
    assert_has(&out, &[&format!("scripted 6M: {HELLO}\n"), "\nRound 1, ", " at once: \""]);
    assert!(!out.contains('\x1b') && !out.contains('\r'), "{out}");
    let saved = kept(&home);
    assert_has(&saved, &["Where did the fox run?", "The red fox", "\"models\""]);
    // It opens again, with its last exchange read out.
    let flags = ["--continue", "--script", &script("answers.jsonl")];
    let out = talk(&home, &flags, "");
    assert_has(&out, &["Conversation loaded", "You said: Where did the fox run?", "was: Hello!"]);
}

#[test]
fn commands_are_those_of_the_screen_and_say_in_words_what_changed() {
    let home = Home::new();
    let typed = "Hi\n/speculate off\n/gamma 4\n/frob\n/sessions\n1\n/load nothing\n/load nothing\n";
    let out = scripted(&home, "answers.jsonl", typed);
    assert_has(&out, &["Speculation is off; the text stays the same", "Tree size: 4, fixed"]);
    assert_has(&out, &["Error: No command /frob", "1. Hi scripted 6M · 2 messages"]);
    assert_has(&out, &["Type a number, or an empty line", "Conversation loaded"]);
    assert_eq!(out.matches("No saved conversation has the name").count(), 2, "{out}");
    let help = scripted(&home, "answers.jsonl", "/help\n");
    assert_has(&help, &["/when-full ", "/export FILE: ", "/rounds: "]);
}

#[test]
fn any_bytes_and_paths_are_messages() {
    let home = Home::new();
    let out = scripted(&home, "answers.jsonl", b"caf\xe9 ok\n/etc/hosts is what?\n");
    assert_has(&out, &["bytes that are not UTF-8 were replaced", HELLO]);
    assert_has(&kept(&home), &["caf\u{fffd} ok", "\"/etc/hosts is what?\""]);
}

#[test]
fn thoughts_are_said_and_saved() {
    let home = Home::new();
    let out = scripted(&home, "thoughts.jsonl", "Where?\n");
    assert_has(&out, &["scripted 6M thinks: They ask", "\nscripted 6M: Over the hill."]);
    assert_has(&kept(&home), &["\"thought\"", "They ask where"]);
}

#[test]
fn ctrl_c_stops_the_answer_and_nothing_else() {
    let home = Home::new();
    let mut chat = on_terminal(&home, "slow.jsonl");
    chat.send("\x03");
    chat.wait_for("/quit or Ctrl+D leaves");
    chat.send("Tell me\r");
    chat.wait_for("Once");
    chat.send("\x03");
    chat.wait_for("The answer was cut: ");
    chat.wait_for("/continue continues it");
    chat.send("/quit\r");
    assert_eq!(chat.end().code, 0);
    assert_has(&kept(&home), &["Tell me", "Once", "\"interrupted\": true"]);
}

#[test]
fn a_full_context_and_a_cut_answer_are_said_with_the_ways_on() {
    let home = Home::new();
    let flags = ["--context", "64", "--max-tokens", "12"];
    let typed = "Tell me about a river.\nTell me about a fox.\nAnd the sun?\nWhat is the sea?\n1\n";
    let out = talk(&home, &flags, typed);
    assert_has(&out, &["stopped at the limit of 12 tokens", "/continue continues it"]);
    assert_has(&out, &["The context is full.", "1. forget the oldest exchanges", "/new"]);
    // The way that was chosen is taken, and the question answered.
    let end = out.split("The context is full.").last().unwrap();
    assert!(!end.contains("No answer") && kept(&home).contains("\"when_full\""), "{out}");
}

#[test]
fn models_that_cannot_be_loaded_end_it_with_their_code() {
    let home = Home::new();
    let flags = ["chat", "--plain-screen", "--script", &script("unloadable.jsonl")];
    let (_, err) = home.ran(3, &flags);
    assert_has(&err, &["missing.gguf"]);
}
