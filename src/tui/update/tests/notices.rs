//! What the program says in passing.

use super::*;

#[test]
fn passing_lines_pass() {
    let mut state = loaded(80, 24);
    say(&mut state, Event::Notice("the GPU is lost: drafting on the CPU".to_string()));
    let deadline = state.deadline().unwrap();
    update(&mut state, ScreenEvent::Tick, deadline - Duration::from_millis(1));
    assert!(shown(&state).is_some());
    update(&mut state, ScreenEvent::Tick, deadline);
    assert!(shown(&state).is_none() && state.deadline().is_none());
}

#[test]
fn continuing_in_a_copy_is_reported() {
    let mut state = loaded(80, 24);
    let result = Ok(Saved { path: "a.json".into(), copied: true });
    tell(&mut state, ScreenEvent::Saved { asked: false, result });
    let text = said(&state);
    assert!(text.contains("Another window") && text.contains("copy"), "{text}");
    assert!(text.chars().count() < 80);
}

#[test]
fn a_refusal_is_no_success() {
    let mut state = loaded(120, 36);
    for keys in
        ["<f5>", "<f6>", "/undo<enter>", "/delete<enter>", "<a-y>", "<f12>", "/branch<enter>"]
    {
        type_keys(&mut state, keys);
        assert_said(&state, Tone::Told, "");
    }
}

#[test]
fn what_was_said_of_a_message_goes_with_the_next_one() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "see @gone.rs<enter>");
    let files = vec![("gone.rs".to_string(), Err("cannot read gone.rs".to_string()))];
    tell(&mut state, ScreenEvent::NamedRead { message: "see @gone.rs".to_string(), files });
    type_keys(&mut state, "<c-u>");
    assert_said(&state, Tone::Wrong, "cannot read gone.rs");
    type_keys(&mut state, "Hi<enter>");
    assert_eq!(shown(&state), None);
}

#[test]
fn what_was_said_of_an_answer_goes_with_it() {
    for keys in ["<a-e>", "next<enter>", "<f12>"] {
        for stopped in [true, false] {
            let mut state = loaded(80, 24);
            type_keys(&mut state, "one<enter>");
            let mut events = answer(state.generation(), "First answer.", 8);
            let last = events.split_off(events.len() - 1);
            say_all(&mut state, events);
            type_keys(&mut state, keys);
            assert!(shown(&state).is_some(), "{keys}");
            match stopped {
                true => drop(type_keys(&mut state, "<esc>")),
                false => say_all(&mut state, last),
            }
            assert_eq!(shown(&state), None, "{keys}, stopped: {stopped}");
        }
    }
}
