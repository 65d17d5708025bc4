//! The questions that an empty chat offers.

use super::*;

#[test]
fn arrows_choose_a_question_and_enter_sends_it() {
    let mut state = loaded(80, 24);
    let questions = state.starters();
    assert_eq!(contents(&type_keys(&mut state, "<down><down><enter>")), [questions[1]]);
    answered(&mut state, "A star.");
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
    assert_eq!(contents(&type_keys(&mut state, "1<enter>")), [questions[0]]);
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
    let mut questions = |target: &str, name: &str| {
        let ready = Ready { models: named(target), target: name.to_string(), ..ready() };
        say(&mut state, Event::Ready(Box::new(ready)));
        state.starters()
    };
    let bundled = questions("bundled", "dovetail-demo 6M");
    let general = questions("q.gguf", "Qwen2.5 1.5B");
    let code = questions("q.gguf", "Qwen2.5-Coder 1.5B");
    assert!(bundled != general && code != general);
    // The bundled one is also the one that has no name.
    assert_eq!(loaded(80, 24).starters(), bundled);
}
