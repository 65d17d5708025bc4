//! A recorded chat, shown again without models.

use crate::support::chat::{ANSWER, saved};
use crate::support::program::{on_a_terminal, scripted};
use crate::support::pty::Pty;

#[test]
fn a_recorded_chat_is_shown_again_round_by_round_and_nothing_of_it_is_saved() {
    let home = tempfile::tempdir().unwrap();
    let record = home.path().join("record.jsonl");
    let mut command = scripted("answers.jsonl", home.path());
    command.args(["--record", record.to_str().unwrap()]);
    let mut chat = Pty::start(command, 120, 40);
    chat.wait_for("○ ready");
    chat.send("/where is the fox\r");
    // What follows Enter at once would be the rest of a paste.
    std::thread::sleep(std::time::Duration::from_millis(100));
    chat.type_until("Where did the fox run?\r", ANSWER);
    chat.wait_for("○ ready");
    chat.send("\x03\x03");
    assert_eq!(chat.end().code, 0);

    let elsewhere = tempfile::tempdir().unwrap();
    let replay = |pace: &str| {
        let args = ["replay", record.to_str().unwrap(), "--pace", pace];
        Pty::start(on_a_terminal(elsewhere.path(), &args), 120, 40)
    };
    let mut shown = replay("0s");
    shown.wait_for("Where did the fox run?");
    shown.wait_for(ANSWER);
    shown.wait_for("○ ready");
    shown.type_until("And then?\r", "Replay: read only, since");
    shown.wait_for("│ And then?");
    assert_eq!(shown.screen().matches(ANSWER).count(), 1, "{}", shown.screen());
    shown.send("\x15\x03\x03");
    assert_eq!(shown.end().code, 0);
    assert_eq!(saved(elsewhere.path()), "");

    // At this pace there is time to pause, and to continue one round at a time.
    let mut slow = replay("2s");
    slow.wait_for("● answering");
    slow.type_until("\x1b[15~", "paused");
    slow.send("\x1b[17~");
    slow.type_until("\x1b[15~", "● answering");
    slow.send("\x11");
    assert_eq!(slow.end().code, 0);
}
