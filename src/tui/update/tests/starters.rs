//! The questions that an empty chat offers.

use super::job;
use crate::tui::tests::{answer, loaded, ready, say, say_all, screen_of, type_keys, unloaded};
use crate::worker::Event;

#[test]
fn arrows_choose_a_question_and_enter_sends_it() {
    let mut state = loaded(80, 24);
    let questions = state.starters();
    let effects = type_keys(&mut state, "<down><down><enter>");
    assert_eq!(job(&effects).messages[0].content, questions[1]);
    say_all(&mut state, answer(1, "A star.", 4));
    assert!(type_keys(&mut state, "<down><enter>").is_empty(), "the chat is not empty any more");
    type_keys(&mut state, "1");
    assert_eq!(state.input.text(), "1");
}

#[test]
fn a_digit_writes_a_question_unless_it_begins_a_message() {
    let mut state = loaded(80, 24);
    let questions = state.starters();
    type_keys(&mut state, "3");
    assert_eq!(state.input.text(), questions[2]);
    type_keys(&mut state, " apples");
    assert_eq!(state.input.text(), "3 apples");
    type_keys(&mut state, "<c-u>2<bs>");
    assert!(state.input.is_empty(), "{}", state.input.text());
    let effects = type_keys(&mut state, "1<enter>");
    assert_eq!(job(&effects).messages[0].content, questions[0]);
}

#[test]
fn nothing_is_offered_while_the_model_is_loading() {
    let mut state = unloaded();
    let stage = "reading the target".to_string();
    say(&mut state, Event::Loading { stage, fraction: Some(0.5) });
    assert!(!state.offers_starters());
    let screen = screen_of(&mut state);
    let shown = state.starters().iter().any(|question| screen.contains(question));
    assert!(!shown && screen.contains("reading the target"), "{screen}");
    // The keys that choose one write, or do nothing.
    type_keys(&mut state, "<down>1");
    assert_eq!(state.input.text(), "1");
    type_keys(&mut state, "<bs><enter>");
    assert!(state.chat.turns().is_empty());
    say(&mut state, Event::Ready(Box::new(ready())));
    assert!(state.offers_starters());
}

#[test]
fn the_questions_suit_the_model() {
    let mut state = loaded(80, 24);
    let bundled = state.starters();
    let mut other = ready();
    other.models.target = Some("q.gguf".to_string());
    other.target = "Qwen2.5 1.5B".to_string();
    say(&mut state, Event::Ready(Box::new(other.clone())));
    let general = state.starters();
    other.target = "Qwen2.5-Coder 1.5B".to_string();
    say(&mut state, Event::Ready(Box::new(other)));
    assert!(bundled != general && state.starters() != general);
    // The bundled one by its name.
    let mut named = ready();
    named.models.target = Some("bundled".to_string());
    say(&mut state, Event::Ready(Box::new(named)));
    assert_eq!(state.starters(), bundled);
}
