//! A long chat takes little more memory than what is said in it.

use std::process::Command;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::draw;
use super::STORY;
use crate::hardware::UsageMeter;
use crate::tui::state::ScreenState;
use crate::tui::tests::{answer, loaded, say, type_keys};

/// Set in the child.
const CHILD: &str = "DOVETAIL_TEST_LONG_CHAT";
/// Turns before the first measurement: buffers have their size then.
const FIRST: usize = 30;
const TURNS: usize = 300;
/// Most bytes beyond what is said: mostly what was drafted for each of some forty thousand tokens.
const MOST: u64 = 8_000_000;

fn turn(state: &mut ScreenState, terminal: &mut Terminal<TestBackend>, number: usize) {
    type_keys(state, &format!("Question {number}: and what happened then?<enter>"));
    let code = "```rust\nfn main() {\n    println!(\"the end\"); // of it\n}\n```";
    let text = format!("{STORY}\n\n{code}\n\nThat was answer {number}.");
    for (at, event) in answer(state.generation(), &text, 16).into_iter().enumerate() {
        say(state, event);
        if at % 16 == 0 {
            terminal.draw(|frame| draw(frame, state)).unwrap();
        }
    }
    type_keys(state, "<f2><tab><left><left><esc>");
    terminal.draw(|frame| draw(frame, state)).unwrap();
}

#[test]
fn three_hundred_turns_take_little_more_than_what_is_said() {
    if std::env::var_os(CHILD).is_none() {
        // In a process of its own: other tests take memory meanwhile.
        let thread = std::thread::current();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([thread.name().unwrap(), "--exact", "--nocapture"]).env(CHILD, "1");
        let ended = child.output().unwrap();
        let said = [ended.stdout, ended.stderr].concat();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&said));
        return;
    }
    let mut state = loaded(120, 40);
    let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
    let mut meter = UsageMeter::new(None);
    let said = |state: &ScreenState| -> u64 {
        state.chat.turns().iter().map(|turn| turn.text.len() as u64).sum()
    };
    for number in 0..FIRST {
        turn(&mut state, &mut terminal, number);
    }
    let before = (meter.sample().memory_ours, said(&state));
    for number in FIRST..FIRST + TURNS {
        turn(&mut state, &mut terminal, number);
    }
    let grown = meter.sample().memory_ours.saturating_sub(before.0);
    let talk = said(&state) - before.1;
    println!("{TURNS} turns: {talk} bytes were said, the process grew by {grown}");
    assert_eq!(state.chat.turns().len(), 2 * (FIRST + TURNS));
    assert!(grown < talk + MOST, "grew by {grown} bytes, {talk} were said");
}
