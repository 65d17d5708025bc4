//! What the program says in passing.

use std::time::Duration;

use crate::chat::Saved;
use crate::tui::testing::{loaded, say};
use crate::tui::update::{ScreenEvent, update};
use crate::worker::Event;

#[test]
fn passing_lines_pass() {
    let mut state = loaded(80, 24);
    say(&mut state, Event::Notice("the GPU is lost: drafting on the CPU".to_string()));
    let deadline = state.deadline().unwrap();
    update(&mut state, ScreenEvent::Tick, deadline - Duration::from_millis(1));
    assert!(state.toasts.shown().is_some());
    update(&mut state, ScreenEvent::Tick, deadline);
    assert!(state.toasts.shown().is_none() && state.deadline().is_none());
}

#[test]
fn continuing_in_a_copy_is_reported() {
    let mut state = loaded(80, 24);
    let saved = Saved { path: "a.json".into(), copied: true };
    let now = state.now;
    update(&mut state, ScreenEvent::Saved { asked: false, result: Ok(saved) }, now);
    let toast = state.toasts.shown().unwrap();
    assert!(toast.text.contains("another window") && toast.text.contains("copy"), "{toast:?}");
    assert!(toast.text.chars().count() < 80);
}
