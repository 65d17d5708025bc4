//! What the program says in passing.

use std::time::Duration;

use crate::chat::Saved;
use crate::tui::event::ScreenEvent;
use crate::tui::state::ScreenState;
use crate::tui::tests::{answer, loaded, say, type_keys};
use crate::tui::toasts::Tone;
use crate::tui::update::update;
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
    assert!(toast.text.contains("Another window") && toast.text.contains("copy"), "{toast:?}");
    assert!(toast.text.chars().count() < 80);
}

fn shown(state: &ScreenState) -> Option<(Tone, &str)> {
    state.toasts.shown().map(|toast| (toast.tone, toast.text.as_str()))
}

#[test]
fn a_refusal_is_no_success() {
    let mut state = loaded(120, 36);
    for keys in
        ["<f5>", "<f6>", "/undo<enter>", "/delete<enter>", "<a-y>", "<f12>", "/branch<enter>"]
    {
        type_keys(&mut state, keys);
        let said = shown(&state);
        assert!(said.is_some_and(|(tone, _)| tone == Tone::Told), "{keys}: {said:?}");
    }
}

#[test]
fn what_was_said_of_a_message_goes_with_the_next_one() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "see @gone.rs<enter>");
    let files = vec![("gone.rs".to_string(), Err("cannot read gone.rs".to_string()))];
    let read = ScreenEvent::NamedRead { message: "see @gone.rs".to_string(), files };
    update(&mut state, read, Duration::ZERO);
    assert_eq!(shown(&state).unwrap().0, Tone::Wrong);
    type_keys(&mut state, "<c-u>");
    assert!(shown(&state).is_some(), "it can still be read");
    type_keys(&mut state, "Hi<enter>");
    assert_eq!(shown(&state), None);
}

#[test]
fn what_was_said_of_an_answer_goes_with_it() {
    for keys in ["<a-e>", "next<enter>", "<f12>"] {
        for stopped in [true, false] {
            let mut state = loaded(80, 24);
            type_keys(&mut state, "one<enter>");
            let events = answer(state.generation(), "First answer.", 8);
            let (last, before) = events.split_last().unwrap();
            before.iter().for_each(|event| drop(say(&mut state, event.clone())));
            type_keys(&mut state, keys);
            assert!(shown(&state).is_some(), "{keys}");
            if stopped {
                type_keys(&mut state, "<esc>");
            } else {
                say(&mut state, last.clone());
            }
            assert_eq!(shown(&state), None, "{keys}, stopped: {stopped}");
        }
    }
}
