//! Thoughts: switched, shown, kept.

use super::job;
use crate::tui::event::Effect;
use crate::tui::tests::{loaded, say_all, thinking, type_keys};
use crate::tui::toasts::Tone;

#[test]
fn thinking_is_switched_only_where_the_template_can() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "/think off<enter>");
    let toast = state.toasts.shown().unwrap();
    assert!(
        toast.tone == Tone::Wrong && toast.text.contains("cannot switch thinking"),
        "{toast:?}"
    );
    assert_eq!(state.controls.thinking, None);
    state.models.ready.as_mut().unwrap().switches_thinking = true;
    type_keys(&mut state, "<up><enter>");
    let sent = type_keys(&mut state, "hello<enter>");
    assert_eq!(job(&sent).thinking, Some(false));
    for (word, thinking) in [("on", Some(true)), ("auto", None)] {
        type_keys(&mut state, &format!("/think {word}<enter>"));
        assert_eq!(state.controls.thinking, thinking);
    }
    type_keys(&mut state, "/think show<enter>");
    assert!(state.chat.shows_thoughts);
    type_keys(&mut state, "<c-o>");
    assert!(!state.chat.shows_thoughts);
    // Nothing else on the screen tells.
    assert!(state.toasts.shown().unwrap().text.contains("will be folded"));
}

#[test]
fn an_answer_stopped_in_its_thoughts_is_kept_but_not_sent() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "why<enter>");
    say_all(&mut state, thinking(1, "Because of", "").into_iter().take(3));
    let effects = type_keys(&mut state, "<esc>");
    let turns = effects.iter().find_map(|effect| match effect {
        Effect::Save { turns, .. } => Some(turns),
        _ => None,
    });
    let last = turns.unwrap().last().unwrap();
    assert_eq!(last.message.thought.as_deref(), Some("Because of"));
    assert!(last.interrupted);
    let sent = type_keys(&mut state, "now<enter>");
    let said: Vec<_> = job(&sent).messages.iter().map(|m| m.content.as_str()).collect();
    assert_eq!(said, ["why\n\nnow"]);
}
