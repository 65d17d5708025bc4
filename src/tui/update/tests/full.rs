//! A full context: what is offered, what comes of it, and what never fits.

use super::{answered, contents, cut_by, job, reloaded, talk, texts};
use crate::chat::WhenFull;
use crate::decode::Finish;
use crate::tui::event::Effect;
use crate::tui::models::Phase;
use crate::tui::overlays::Overlay;
use crate::tui::state::ScreenState;
use crate::tui::tests::{loaded, say, screen_of, type_keys};
use crate::worker::Event;

/// The context refuses the question under way.
fn refuse(state: &mut ScreenState, total: usize) -> Vec<Effect> {
    let generation = state.generation();
    say(state, Event::Prefill { generation, done: 0, total });
    say(state, Event::Failed { generation: Some(generation), error: "too long".to_string() })
}

#[test]
fn a_full_context_offers_three_ways_once() {
    let mut state = talk();
    state.models.ready.as_mut().unwrap().context = 100;
    type_keys(&mut state, "four<enter>");
    refuse(&mut state, 120);
    assert_eq!(state.overlays.open, Some(Overlay::Full { selected: 0 }));
    let effects = type_keys(&mut state, "<enter>");
    let sent = contents(&job(&effects).messages).join(" ");
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
    assert!(job(&effects).messages.last().unwrap().content == "five");
}

#[test]
fn nothing_is_forgotten_for_a_message_that_cannot_fit() {
    // Told by the worker before anything is offered.
    let mut state = talk();
    state.models.ready.as_mut().unwrap().context = 100;
    type_keys(&mut state, "four<enter>");
    let generation = state.generation();
    say(&mut state, Event::TooLong { generation, total: 150, alone: Some(110) });
    let error = "too long".to_string();
    say(&mut state, Event::Failed { generation: Some(generation), error });
    let Some(Overlay::Error { text, .. }) = &state.overlays.open else { panic!("it is not told") };
    assert!(text.contains("110 tokens") && text.contains("holds 100"), "{text}");
    assert_eq!((state.input.text().as_str(), state.chat.turns().len()), ("four", 6));
    assert_eq!(state.chat.extras().forgotten, None);
    // Found out by forgetting all there is.
    for stopped in [false, true] {
        let mut state = talk();
        state.models.ready.as_mut().unwrap().context = 100;
        type_keys(&mut state, "four<enter>");
        refuse(&mut state, 150);
        type_keys(&mut state, "<enter>");
        assert!(state.chat.forgotten.messages > 0);
        while !stopped && state.answering() {
            refuse(&mut state, 140);
        }
        let effects = if stopped { type_keys(&mut state, "<esc>") } else { Vec::new() };
        assert_eq!((state.input.text().as_str(), state.chat.turns().len()), ("four", 6));
        assert_eq!(state.chat.extras().forgotten, None, "{effects:?}");
        // The next one gets all that was said.
        type_keys(&mut state, "<esc><c-u>");
        let effects = type_keys(&mut state, "five<enter>");
        assert!(contents(&job(&effects).messages).contains(&"one"));
    }
}

#[test]
fn the_model_summarises_what_does_not_fit() {
    let mut state = talk();
    state.chat.system = Some("Be brief.".to_string());
    state.models.ready.as_mut().unwrap().context = 100;
    type_keys(&mut state, "four<enter>");
    refuse(&mut state, 120);
    let effects = type_keys(&mut state, "<down><enter>");
    let asked = job(&effects).messages.last().unwrap().content.clone();
    assert!(asked.starts_with("Summarise our conversation"), "{asked}");
    assert!(contents(&job(&effects).messages).contains(&"one"));
    let effects = answered(&mut state, "They counted to three.");
    let sent = job(&effects);
    assert_eq!(sent.messages[0].content, "Be brief.");
    assert!(sent.messages[1].content.contains("They counted to three."), "{sent:?}");
    assert!(sent.messages.last().unwrap().content.ends_with("four"));
    answered(&mut state, "Fourth.");
    assert_eq!(texts(&state).last().unwrap().1, "Fourth.");
    assert_eq!(reloaded(&state).chat.forgotten, state.chat.forgotten);
}

#[test]
fn a_summary_that_fails_or_is_stopped_loses_nothing() {
    for stopped in [true, false] {
        let mut state = talk();
        state.models.ready.as_mut().unwrap().context = 100;
        type_keys(&mut state, "/when-full summarise<enter>four<enter>");
        refuse(&mut state, 120);
        assert!(state.chat.summarising.is_some() && state.answering());
        if stopped {
            type_keys(&mut state, "<esc>");
            assert_eq!((state.input.text().as_str(), &state.models.phase), ("four", &Phase::Idle));
        } else {
            let generation = Some(state.generation());
            let effects = say(&mut state, Event::Failed { generation, error: "x".to_string() });
            assert_eq!(job(&effects).messages.last().unwrap().content, "four");
        }
        assert!(state.chat.summarising.is_none());
    }
}

#[test]
fn stopping_gives_the_question_back() {
    for keys in ["<down><down><enter>", "<esc>"] {
        let mut state = talk();
        state.models.ready.as_mut().unwrap().context = 100;
        type_keys(&mut state, "four<enter>");
        refuse(&mut state, 120);
        type_keys(&mut state, keys);
        assert_eq!(state.input.text(), "four", "{keys}");
        assert_eq!(state.chat.turns().len(), 6);
    }
}

#[test]
fn an_answer_that_filled_the_context_goes_on_when_there_is_room() {
    for (choice, summarised) in [("<enter>", false), ("<down><enter>", true)] {
        let mut state = talk();
        state.models.ready.as_mut().unwrap().context = 100;
        type_keys(&mut state, "four<enter>");
        cut_by(&mut state, "Half a sentence", Finish::ContextFull);
        assert!(screen_of(&mut state).contains("Enter shows how to continue"));
        let effects = type_keys(&mut state, "<enter>");
        assert_eq!(job(&effects).messages.last().unwrap().content, "Half a sentence");
        refuse(&mut state, 101);
        assert_eq!(state.overlays.open, Some(Overlay::Full { selected: 0 }));
        assert!(screen_of(&mut state).contains("no room to continue"));
        assert!(!screen_of(&mut state).contains("With this message"));
        let mut effects = type_keys(&mut state, choice);
        if summarised {
            effects = answered(&mut state, "They counted.");
        }
        let sent = contents(&job(&effects).messages);
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
    let Some(Overlay::Error { text, .. }) = &state.overlays.open else { panic!("nothing is said") };
    assert!(text.contains("no room to continue") && text.contains("--context"), "{text}");
    assert!(state.input.is_empty());
    assert_eq!(texts(&state)[1].1, "Half a sentence");
    // After the next start it is marked, and has room.
    let mut again = reloaded(&state);
    let shown = screen_of(&mut again);
    let words = ["context full", "Enter shows how to continue"];
    assert!(words.iter().all(|words| shown.contains(words)), "{shown}");
    type_keys(&mut again, "<enter>");
    answered(&mut again, " and its end.");
    assert_eq!(texts(&again)[1].1, "Half a sentence and its end.");
}
