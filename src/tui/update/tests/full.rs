//! A full context: what is offered, what comes of it, and what never fits.

use super::*;
use crate::chat::WhenFull;

/// A conversation whose next question the context is too small for.
fn too_small() -> ScreenState {
    let mut state = talk();
    state.models.ready.as_mut().unwrap().context = 100;
    state
}

/// The context refuses the question under way.
fn refuse(state: &mut ScreenState, total: usize) -> Vec<Effect> {
    let generation = state.generation();
    say(state, Event::Prefill { generation, done: 0, total });
    fails(state, "too long")
}

/// A question that was refused.
fn refused(total: usize) -> ScreenState {
    let mut state = too_small();
    type_keys(&mut state, "four<enter>");
    refuse(&mut state, total);
    state
}

#[test]
fn a_full_context_offers_three_ways_once() {
    let mut state = refused(120);
    assert_eq!(state.overlays.open, Some(Overlay::Full { selected: 0 }));
    let effects = type_keys(&mut state, "<enter>");
    let sent = contents(&effects).join(" ");
    assert!(sent.ends_with("four") && !sent.contains("one"), "{sent}");
    assert_eq!(state.chat.when_full, Some(WhenFull::Forget));
    answered(&mut state, "Fourth.");
    assert_eq!(state.chat.turns().len(), 8, "what is forgotten is still there to read");
    let mut again = reloaded(&state);
    assert_eq!(again.chat.forgotten, state.chat.forgotten);
    // The choice holds: the next time there is no question.
    again.models.ready.as_mut().unwrap().context = 100;
    let before = again.chat.forgotten.messages;
    type_keys(&mut again, "five<enter>");
    let effects = refuse(&mut again, 130);
    assert!(again.overlays.open.is_none() && again.chat.forgotten.messages > before);
    assert_eq!(contents(&effects).last(), Some(&"five"));
}

#[test]
fn nothing_is_forgotten_for_a_message_that_cannot_fit() {
    let back = |state: &ScreenState| {
        assert_eq!((state.input.text().as_str(), state.chat.turns().len()), ("four", 6));
        assert_eq!(state.chat.extras().forgotten, None);
    };
    // Told by the worker before anything is offered.
    let mut state = too_small();
    type_keys(&mut state, "four<enter>");
    let generation = state.generation();
    say(&mut state, Event::TooLong { generation, total: 150, alone: Some(110) });
    fails(&mut state, "too long");
    let text = failure(&state).1;
    assert!(text.contains("110 tokens") && text.contains("holds 100"), "{text}");
    back(&state);
    // Found out by forgetting all there is.
    for stopped in [false, true] {
        let mut state = refused(150);
        type_keys(&mut state, "<enter>");
        assert!(state.chat.forgotten.messages > 0);
        while !stopped && state.answering() {
            refuse(&mut state, 140);
        }
        if stopped {
            type_keys(&mut state, "<esc>");
        }
        back(&state);
        // The next one gets all that was said.
        type_keys(&mut state, "<esc><c-u>");
        assert!(contents(&type_keys(&mut state, "five<enter>")).contains(&"one"));
    }
}

#[test]
fn the_model_summarises_what_does_not_fit() {
    let mut state = refused(120);
    state.chat.system = Some("Be brief.".to_string());
    let effects = type_keys(&mut state, "<down><enter>");
    let sent = contents(&effects);
    assert!(sent.last().unwrap().starts_with("Summarise our conversation"), "{sent:?}");
    assert!(sent.contains(&"one"));
    let effects = answered(&mut state, "They counted to three.");
    let sent = contents(&effects);
    assert_eq!(sent[0], "Be brief.");
    assert!(sent[1].contains("They counted to three.") && sent[sent.len() - 1].ends_with("four"));
    answered(&mut state, "Fourth.");
    assert_eq!(texts(&state).last().unwrap().1, "Fourth.");
    assert_eq!(reloaded(&state).chat.forgotten, state.chat.forgotten);
}

#[test]
fn a_summary_that_fails_or_is_stopped_loses_nothing() {
    for stopped in [true, false] {
        let mut state = too_small();
        type_keys(&mut state, "/when-full summarise<enter>four<enter>");
        refuse(&mut state, 120);
        assert!(state.chat.summarising.is_some() && state.answering());
        if stopped {
            type_keys(&mut state, "<esc>");
            assert_eq!((state.input.text().as_str(), &state.models.phase), ("four", &Phase::Idle));
        } else {
            assert_eq!(contents(&fails(&mut state, "x")).last(), Some(&"four"));
        }
        assert!(state.chat.summarising.is_none());
    }
}

#[test]
fn an_exchange_that_fills_the_context_is_summarised_without_its_middle() {
    let mut state = too_small();
    let long = format!("begin {} end", "é".repeat(400));
    type_keys(&mut state, &format!("{long}<enter>"));
    answered(&mut state, "Fourth.");
    type_keys(&mut state, "/when-full summarise<enter>five<enter>");
    refuse(&mut state, 220);
    let too_long = |state: &mut ScreenState| {
        let generation = state.generation();
        say(state, Event::TooLong { generation, total: 200, alone: None });
        fails(state, "too long")
    };
    let effects = too_long(&mut state);
    let sent = contents(&effects);
    assert!(sent.last().unwrap().starts_with("Summarise our conversation"), "{sent:?}");
    let said = sent.iter().find(|said| said.starts_with("begin")).unwrap();
    assert!(said.ends_with("end") && said.contains("[…]") && said.len() < long.len() / 2);
    assert!(state.chat.summarising.is_some());
    // It is shortened once.
    assert_eq!(contents(&too_long(&mut state)).last(), Some(&"five"));
    assert!(state.chat.summarising.is_none());
}

#[test]
fn stopping_gives_the_question_back() {
    for keys in ["<down><down><enter>", "<esc>"] {
        let mut state = refused(120);
        type_keys(&mut state, keys);
        assert_eq!((state.input.text().as_str(), state.chat.turns().len()), ("four", 6), "{keys}");
    }
}

#[test]
fn an_answer_that_filled_the_context_goes_on_when_there_is_room() {
    for (choice, summarised) in [("<enter>", false), ("<down><enter>", true)] {
        let mut state = too_small();
        type_keys(&mut state, "four<enter>");
        cut_by(&mut state, "Half a sentence", Finish::ContextFull);
        assert!(screen_of(&mut state).contains("Enter shows how to continue"));
        assert_eq!(contents(&type_keys(&mut state, "<enter>")).last(), Some(&"Half a sentence"));
        refuse(&mut state, 101);
        assert_eq!(state.overlays.open, Some(Overlay::Full { selected: 0 }));
        let screen = screen_of(&mut state);
        assert!(screen.contains("no room to continue") && !screen.contains("With this message"));
        let mut effects = type_keys(&mut state, choice);
        if summarised {
            effects = answered(&mut state, "They counted.");
        }
        let sent = contents(&effects);
        assert_eq!(sent.last(), Some(&"Half a sentence"), "{sent:?}");
        assert!(!sent.contains(&"one") && sent.iter().any(|said| said.ends_with("four")));
        answered(&mut state, " and its end.");
        assert_eq!(texts(&state)[7].1, "Half a sentence and its end.");
        assert_eq!(state.chat.turns()[7].versions.place(), (1, 1));
    }
}

#[test]
fn an_answer_without_room_says_why_it_cannot_go_on_and_goes_on_in_a_larger_context() {
    let mut state = loaded(80, 24);
    state.models.ready.as_mut().unwrap().context = 100;
    type_keys(&mut state, "one<enter>");
    cut_by(&mut state, "Half a sentence", Finish::ContextFull);
    type_keys(&mut state, "<enter>");
    refuse(&mut state, 101);
    let text = failure(&state).1;
    assert!(text.contains("no room to continue") && text.contains("--context"), "{text}");
    assert!(state.input.is_empty() && texts(&state)[1].1 == "Half a sentence");
    // After the next start it is marked, and has room.
    let mut again = reloaded(&state);
    let screen = screen_of(&mut again);
    let words = ["context full", "Enter shows how to continue"];
    assert!(words.iter().all(|words| screen.contains(words)), "{screen}");
    type_keys(&mut again, "<enter>");
    answered(&mut again, " and its end.");
    assert_eq!(texts(&again)[1].1, "Half a sentence and its end.");
}
