//! Thoughts: switched, shown, kept.

use super::*;

#[test]
fn thinking_is_switched_only_where_the_template_can() {
    let mut state = typed("/think off<enter>");
    assert_said(&state, Tone::Wrong, "cannot switch thinking");
    assert_eq!(state.controls.thinking, None);
    state.models.ready.as_mut().unwrap().switches_thinking = true;
    type_keys(&mut state, "<up><enter>");
    assert_eq!(job(&type_keys(&mut state, "hello<enter>")).thinking, Some(false));
    for (word, thinking) in [("on", Some(true)), ("auto", None)] {
        type_keys(&mut state, &format!("/think {word}<enter>"));
        assert_eq!(state.controls.thinking, thinking);
    }
    type_keys(&mut state, "/think show<enter>");
    assert!(state.chat.shows_thoughts);
    type_keys(&mut state, "<c-o>");
    assert!(!state.chat.shows_thoughts);
    // Nothing else on the screen tells.
    assert_said(&state, Tone::Done, "will be folded");
}

#[test]
fn an_answer_stopped_in_its_thoughts_is_kept_but_not_sent() {
    let mut state = typed("why<enter>");
    say_all(&mut state, thinking(1, "Because of", "").into_iter().take(3));
    let effects = type_keys(&mut state, "<esc>");
    let last = kept_turns(&effects).unwrap().last().unwrap();
    assert_eq!(last.message.thought.as_deref(), Some("Because of"));
    assert!(last.interrupted);
    assert_eq!(contents(&type_keys(&mut state, "now<enter>")), ["why\n\nnow"]);
}
