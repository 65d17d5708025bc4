//! The first minutes of a new user, with the bundled models.

use std::collections::HashMap;

use crate::support::gguf;
use crate::support::hub::{Manners, Server};
use crate::support::program::{Home, assert_has, on_a_terminal};
use crate::support::pty::Pty;
use dovetail::tui::Starters;

#[test]
fn the_demo_says_what_it_is_and_its_first_answer_can_be_watched() {
    let home = tempfile::tempdir().unwrap();
    let mut chat = Pty::start(on_a_terminal(home.path(), &[]), 80, 24);
    chat.wait_for("○ ready");
    chat.wait_for("Demo model, 6M parameters: it shows how guessing works.");
    chat.wait_for("For real answers press Ctrl+N.");
    chat.type_until("1", &format!("│ {}", Starters::DEMO[0]));
    chat.send("\r");
    // The tree with its caption, and the reason why the text comes later than the rate says.
    chat.wait("the first round", |screen| {
        let has = |words: &str| screen.contains(words);
        has("draft tree · round") && has(" right → ") && has("slowed for watching · ")
    });
    // Any key gives full speed, and the answer has the whole screen.
    chat.send(" ");
    chat.wait("the whole answer", |screen| {
        screen.contains(" instead of ") && !screen.contains("draft tree")
    });
    chat.type_until("Why is the sky blue?\r", "❯ Why is the sky blue?");
    chat.wait("the second answer", |screen| screen.matches(" instead of ").count() == 2);
    assert!(!chat.screen().contains("slowed"), "{}", chat.screen());
    chat.send("\x11");
    assert_eq!(chat.end().code, 0);
}

#[test]
fn the_demo_answers_the_questions_that_it_offers() {
    let home = Home::new();
    let answers = ["a story about a cat.", "The sky is blue because ", "Because if they flew over"];
    for (question, part) in Starters::DEMO.iter().zip(answers) {
        assert_has(&home.ran(0, &["run", question]).0, &[part]);
    }
}

#[test]
fn a_model_of_the_catalogue_is_downloaded_while_the_demo_answers() {
    let model = gguf::small().bytes();
    let files = HashMap::from([
        ("tiny-Q4_K_M.gguf".to_owned(), model.clone()),
        ("small-Q8_0.gguf".to_owned(), [model, vec![0]].concat()),
    ]);
    // The connection is silent for some seconds after each of these parts.
    let manners = Manners { cuts: vec![4000, 200], stalls: true, ..Manners::default() };
    let server = Server::start(files, manners);
    let home = tempfile::tempdir().unwrap();
    let mut command = on_a_terminal(home.path(), &["--max-tokens", "40"]);
    command.env("HF_ENDPOINT", format!("http://127.0.0.1:{}", server.port));
    let mut chat = Pty::start(command, 100, 32);
    chat.wait_for("○ ready");
    let choose = |chat: &mut Pty| {
        chat.send("/model smollm2-1.7b\r");
        chat.wait("the list", |screen| {
            screen.contains("╭ models") && !screen.contains("Looking for models")
        });
        chat.type_until("\r", "SmolLM2 1.7B Instruct (Apache-2.0): ");
    };
    choose(&mut chat);
    chat.wait_for("downloading tiny-Q4_K_M.gguf");
    chat.send("Why is the sky blue?\r");
    chat.wait("the demo's answer", |screen| {
        screen.contains(" instead of ") && screen.contains("downloading tiny-Q4_K_M.gguf")
    });
    chat.type_until("\x1b", "Download stopped, what has arrived is kept");
    // Chosen again, it continues where it was stopped, and then takes over the conversation.
    choose(&mut chat);
    chat.wait("the new model", |screen| {
        screen.lines().next().is_some_and(|line| line.contains("tiny") && line.contains("○ ready"))
    });
    let resumed = server.requests("/store/tiny");
    assert!(resumed.iter().any(|request| request.range >= Some(4000)), "{resumed:?}");
    assert!(chat.screen().contains("Why is the sky blue?"), "{}", chat.screen());
    chat.send("\x11");
    assert_eq!(chat.end().code, 0);
}

#[test]
fn a_download_that_fails_leaves_the_demo_usable() {
    let manners =
        Manners { refusal: Some(("/api/", 404, "RepoNotFound", false)), ..Manners::default() };
    let server = Server::start(HashMap::new(), manners);
    let home = tempfile::tempdir().unwrap();
    let mut command = on_a_terminal(home.path(), &[]);
    command.env("HF_ENDPOINT", format!("http://127.0.0.1:{}", server.port));
    let mut chat = Pty::start(command, 100, 32);
    chat.wait_for("○ ready");
    chat.type_until("/model smollm2-1.7b\r", "╭ models");
    chat.wait("the list", |screen| !screen.contains("Looking for models"));
    chat.type_until("\r", "was not downloaded");
    chat.wait_for("press Ctrl+N and choose the model again");
    chat.wait_for("stays in use");
    chat.send("\x1b");
    chat.type_until("Why is the sky blue?\r", " instead of ");
    chat.send("\x11");
    assert_eq!(chat.end().code, 0);
}
