//! What the program says in passing.

use super::*;

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
fn what_was_said_of_an_answer_goes_with_it() {
    for keys in ["<a-e>", "next<enter>", "<f12>"] {
        for stopped in [true, false] {
            let mut state = typed("one<enter>");
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
