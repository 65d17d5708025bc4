//! The whole program on a pseudo-terminal, with a script instead of models.

use crate::support::chat::{ANSWER, Chat, saved};

#[test]
fn a_question_is_answered_and_saved() {
    let mut chat = Chat::start("answers.jsonl").ready();
    chat.wait_for("chosen by the target itself");
    chat.type_until("Where did the fox run?\r", ANSWER);
    chat.wait_for(" instead of ");
    let (ended, saved) = chat.quit();
    assert!(saved.contains("Where did the fox run?") && saved.contains(ANSWER), "{saved}");
    // Accepted tokens are underlined and coloured.
    let bytes = String::from_utf8_lossy(&ended.bytes).into_owned();
    assert!(bytes.contains("\x1b[4m") && bytes.contains("38;5;"), "no marks were drawn");
}

#[test]
fn no_color_means_none_but_marks_stay() {
    let mut chat = Chat::with("answers.jsonl", 120, 40, &[("NO_COLOR", "1")]).ready();
    chat.type_until("Hello\r", ANSWER);
    let (ended, _) = chat.quit();
    let bytes = String::from_utf8_lossy(&ended.bytes).into_owned();
    assert!(!bytes.contains("38;5;") && !bytes.contains("48;5;"), "a colour was sent");
    assert!(bytes.contains("\x1b[4m"), "no underline was sent");
}

#[test]
fn typing_goes_on_while_an_answer_comes() {
    let mut chat = Chat::start("slow.jsonl").ready();
    chat.type_until("Tell me a story\r", "● answering");
    chat.type_until("meanwhile 漢字 👍", "meanwhile 漢字");
    assert!(chat.pty.screen().contains("● answering"));
    chat.wait_for("Once upon");
    chat.type_until("\x1b", "· stopped");
    chat.wait_for("○ ready");
    let (_, saved) = chat.quit();
    assert!(saved.contains("Tell me a story"), "{saved}");
}

#[test]
fn controls_act_in_the_middle_of_an_answer() {
    let mut chat = Chat::with("slow.jsonl", 120, 40, &[]).ready();
    chat.type_until("Go\r", "● answering");
    chat.type_until("\x1bOS", "controls");
    chat.send("\x1b[1;3A");
    chat.pty.wait("γ to be fixed at 17", |screen| {
        screen.lines().any(|line| line.contains("tree size") && line.contains("17  fixed"))
    });
    // From the next round on, the tree has that budget.
    chat.wait_for("γ 17 ·");
    chat.send("\x1b[19~");
    chat.pty.wait("γ to be automatic", |screen| {
        screen.lines().any(|line| line.contains("tree size") && line.contains("auto"))
    });
    chat.type_until("\x1b[18~", "Nothing guessed: without speculation");
    chat.quit();
}

#[test]
fn rounds_are_paused_and_stepped() {
    let mut chat = Chat::with("slow.jsonl", 120, 40, &[]).ready();
    // Before there is an answer, there is nothing to pause.
    chat.type_until("\x1b[15~", "No answer is under way to pause");
    chat.type_until("Go\r", "● answering");
    chat.type_until("\x1b[15~", "‖ paused");
    // The round in progress still arrives.
    let mut paused_at = 0;
    loop {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let now = latest_round(&chat.pty.screen());
        if std::mem::replace(&mut paused_at, now) == now && now > 0 {
            break;
        }
        if now == 0 {
            chat.send("\x1b[17~");
        }
    }
    for round in paused_at + 1..paused_at + 3 {
        chat.type_until("\x1b[17~", &format!("round {round} of {round}"));
    }
    chat.type_until("\x1bOQ\t\x1b[D", &format!("round {} of {}", paused_at + 1, paused_at + 2));
    chat.wait_for("looking back");
    chat.quit();
}

/// The number of rounds in the tree's title.
fn latest_round(screen: &str) -> usize {
    let titles = screen.split("draft tree · round ").skip(1);
    let rounds = titles.filter_map(|title| title.split_once(" of ")?.0.parse().ok());
    rounds.last().unwrap_or_default()
}

#[cfg(unix)]
#[test]
fn being_asked_to_end_saves_and_restores() {
    for signal in ["TERM", "HUP", "INT"] {
        let mut chat = Chat::start("slow.jsonl").ready();
        chat.type_until("Remember this\r", "● answering");
        chat.wait_for("small fox");
        chat.pty.signal(signal);
        let ended = chat.pty.end();
        assert_eq!(ended.code, 0, "{signal}");
        let saved = saved(chat.home.path());
        assert!(
            saved.contains("Remember this") && saved.contains("small fox"),
            "{signal}: {saved}"
        );
    }
}

#[test]
fn a_saved_conversation_is_loaded_again() {
    let mut chat = Chat::start("answers.jsonl").ready();
    chat.type_until("First question\r", " instead of ");
    chat.type_until("/new\r", "Write a message, or / for commands");
    chat.pty.wait("the chat to be empty", |screen| !screen.contains("First question"));
    chat.type_until("/load\r", "saved conversations");
    chat.type_until("\r", ANSWER);
    chat.quit();
}

#[test]
fn failures_are_said_and_nothing_written_is_lost() {
    let mut chat = Chat::start("failing.jsonl").ready();
    chat.type_until("My long question\r", "No answer");
    chat.send("\x1b");
    chat.pty.wait("the question to be kept", |screen| {
        !screen.contains("No answer") && screen.contains("My long question")
    });
    chat.quit();
    let mut chat = Chat::start("unloadable.jsonl");
    chat.wait_for("check --target");
    chat.quit();
}

#[test]
fn any_size_will_do() {
    let mut chat = Chat::start("slow.jsonl").ready();
    chat.type_until("Go\r", "● answering");
    for (columns, rows) in [(1, 1), (0, 0), (300, 2), (20, 60), (200, 50), (80, 24)] {
        chat.pty.resize(columns, rows);
        std::thread::sleep(std::time::Duration::from_millis(120));
    }
    chat.type_until("still here", "still here");
    chat.quit();
}

#[test]
fn pasted_lines_are_one_message() {
    let mut chat = Chat::start("answers.jsonl").ready();
    chat.type_until("\x1b[200~one\rtwo\x1b[201~", "two");
    assert!(!chat.pty.screen().contains("answering"));
    chat.type_until("\r", ANSWER);
    let (_, saved) = chat.quit();
    assert!(saved.contains("one\\ntwo"), "{saved}");
}

#[test]
fn thoughts_are_folded_until_they_are_asked_for_and_saved_apart() {
    let mut chat = Chat::start("thoughts.jsonl").ready();
    chat.type_until("Where did the fox run?\r", "thought for 8 tokens ▸");
    chat.wait_for("Over the hill.");
    assert!(!chat.pty.screen().contains("They ask"));
    chat.type_until("\x0f", "│ They ask where the fox ran.");
    chat.type_until("/think hide\r", "tokens ▸");
    chat.type_until("/think off\r", "without thinking");
    let (_, saved) = chat.quit();
    assert!(saved.contains(r#""content": "Over the hill.""#), "{saved}");
    assert!(saved.contains(r#""thought": "They ask where the fox ran."#), "{saved}");
}
