//! Answers: asked for, stopped, failed, given again.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{job, texts};
use crate::chat::Role;
use crate::tui::chat::AnswerOutcome;
use crate::tui::controls::FirstAnswer;
use crate::tui::display::Focus;
use crate::tui::event::{Effect, ScreenEvent};
use crate::tui::models::Phase;
use crate::tui::overlays::Overlay;
use crate::tui::state::ScreenState;
use crate::tui::tests::{answer, loaded, say, say_all, screen_of, type_keys};
use crate::tui::update::update;
use crate::worker::{Event, Job};

#[test]
fn controls_are_applied_before_a_question_is_sent() {
    let mut state = loaded(80, 24);
    let effects = type_keys(&mut state, "hello<enter>");
    assert!(matches!(&effects[0], Effect::Apply(controls) if controls.generation == 1));
    let sent = job(&effects);
    assert_eq!((sent.generation, sent.max_tokens), (1, Job::ROOM_LEFT));
    assert_eq!(sent.messages.len(), 1);
    assert!(state.input.is_empty());
    say_all(&mut state, answer(1, "Once upon a time there was a fox.", 16));
    assert_eq!(texts(&state)[1].1, "Once upon a time there was a fox.");
    assert_eq!(state.models.phase, Phase::Idle);
    let sent = type_keys(&mut state, "more<enter>");
    assert_eq!(job(&sent).messages.len(), 3);
}

#[test]
fn late_events_of_a_stopped_answer_are_dropped() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "one<enter>");
    let events = answer(1, "This answer is not wanted any more after a while.", 16);
    for event in &events[..3] {
        say(&mut state, event.clone());
    }
    let effects = type_keys(&mut state, "<esc>");
    assert!(matches!(&effects[0], Effect::Apply(controls) if controls.generation == 2));
    assert!(matches!(&effects[1], Effect::Save { .. }));
    let before = texts(&state);
    for event in &events[3..] {
        say(&mut state, event.clone());
    }
    assert_eq!(texts(&state), before);
    assert_eq!(state.chat.turns()[1].outcome, Some(AnswerOutcome::STOPPED));
    // The next answer is not disturbed by what is left of the first.
    type_keys(&mut state, "two<enter>");
    say(&mut state, events[3].clone());
    assert_eq!(texts(&state)[3].1, "");
    let of = state.generation();
    say_all(&mut state, answer(of, "Wanted.", 4));
    assert_eq!(texts(&state)[3].1, "Wanted.");
}

#[test]
fn a_failed_question_returns_to_the_input() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "a very long question<enter>");
    let error = "the prompt has 3,000 tokens, the context 2,048: shorten it".to_string();
    say(&mut state, Event::Failed { generation: Some(1), error: error.clone() });
    assert_eq!(state.input.text(), "a very long question");
    assert!(state.chat.turns().is_empty());
    assert!(matches!(&state.overlays.open, Some(Overlay::Error { text, .. }) if *text == error));
    // What was written meanwhile is not overwritten.
    type_keys(&mut state, "<esc><enter>");
    type_keys(&mut state, "next");
    say(&mut state, Event::Failed { generation: Some(2), error });
    assert_eq!(state.input.text(), "next");
    assert_eq!(texts(&state), [(Role::User, "a very long question".to_string())]);
}

#[test]
fn a_question_that_does_not_fit_the_context_changes_nothing() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "one<enter>");
    say_all(&mut state, answer(1, "First answer, which is here to stay.", 8));
    let shown = |state: &ScreenState| {
        let meters = &state.meters.answer;
        let summary = &meters.summary;
        (state.tree.len(), summary.tokens, summary.rounds, meters.context(), texts(state))
    };
    let before = shown(&state);
    type_keys(&mut state, "more<enter>");
    assert!(state.tree.len() == 0);
    say(&mut state, Event::Prefill { generation: 2, done: 0, total: 2100 });
    let error = "the prompt has 2100 tokens, but the context holds 2048".to_string();
    say(&mut state, Event::Failed { generation: Some(2), error });
    assert!(
        matches!(state.overlays.open, Some(Overlay::Full { .. })),
        "there is something to forget"
    );
    type_keys(&mut state, "<down><down><enter>");
    assert_eq!(shown(&state), before);
    assert_eq!(state.input.text(), "more");
    let Some(Overlay::Error { text, .. }) = &state.overlays.open else { panic!("nothing is said") };
    for words in ["2100", "2048", "/new", "/when-full", "--context", "8192"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // One that is stopped before its first token costs as little.
    type_keys(&mut state, "<esc><enter><esc>");
    assert_eq!((shown(&state), state.input.text()), (before, "more".to_string()));
    // Once the new answer has begun, the old tree is gone for good.
    type_keys(&mut state, "<enter>");
    let generation = state.generation();
    say_all(&mut state, answer(generation, "Second answer.", 8).into_iter().take(2));
    type_keys(&mut state, "<esc>");
    assert!(state.tree.len() == 0 && state.meters.answer.summary.tokens == 1);
}

#[test]
fn a_message_is_sent_as_it_was_typed() {
    let mut state = loaded(80, 24);
    for (typed, wanted) in
        [("    indented  ", "    indented"), (" /new is a command", "/new is a command")]
    {
        let effects = type_keys(&mut state, &format!("{typed}<enter>"));
        assert_eq!(job(&effects).messages.last().unwrap().content, wanted);
        type_keys(&mut state, "<esc><c-u>");
    }
}

#[test]
fn tokens_are_counted_once() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "one<enter>");
    let events = answer(1, "A fox is a small wild animal with a bushy tail.", 16);
    let Some(Event::Finished { summary, .. }) = events.last().cloned() else { panic!() };
    for event in &events[..events.len() - 1] {
        say(&mut state, event.clone());
    }
    let tokens = state.meters.answer.summary.tokens;
    let tau = state.meters.answer.summary.tau;
    assert_eq!((tokens, state.meters.answer.summary.rounds), (summary.tokens, summary.rounds));
    assert!((tau - summary.tau).abs() < 1e-9);
    say(&mut state, events[events.len() - 1].clone());
    assert_eq!(state.meters.answer.summary.tokens, tokens);
    state.display.size = (200, 50);
    let said = screen_of(&mut state);
    let counted = format!("{tokens} tokens in {} rounds", summary.rounds);
    assert_eq!(said.matches(&counted).count(), 2, "below the answer and in the meters: {said}");
}

#[test]
fn a_question_stopped_before_its_first_token_can_be_edited() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "one<enter><esc>");
    assert_eq!(state.input.text(), "one");
    assert!(state.chat.turns().is_empty());
    // Written over meanwhile, it stays in the conversation and goes along with the next.
    type_keys(&mut state, "<enter>two<esc>");
    assert_eq!(state.input.text(), "two");
    let effects = type_keys(&mut state, "<enter>");
    assert_eq!(job(&effects).messages.len(), 1);
    assert_eq!(job(&effects).messages[0].content, "one\n\ntwo");
}

#[test]
fn an_answer_that_fails_half_way_keeps_its_text() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "go<enter>");
    for event in &answer(1, "Half of an answer is better than none.", 8)[..3] {
        say(&mut state, event.clone());
    }
    say(&mut state, Event::Failed { generation: Some(1), error: "device lost".to_string() });
    assert!(!texts(&state)[1].1.is_empty());
    assert_eq!(state.chat.turns()[1].outcome, Some(AnswerOutcome::Failed));
}

#[test]
fn a_message_sent_while_an_answer_comes_waits_for_its_end() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "one<enter>");
    let effects = type_keys(&mut state, "two<enter>three<enter>");
    assert!(effects.is_empty() && state.input.is_empty());
    let mut sent = Vec::new();
    for _ in 0..2 {
        for event in answer(state.generation(), "Answered.", 8) {
            sent.extend(say(&mut state, event));
        }
    }
    assert_eq!(job(&sent).messages.last().unwrap().content, "two");
    assert_eq!(texts(&state)[4].1, "three");
    // Stopped, what waits comes back to be edited, and quitting keeps it in the conversation.
    type_keys(&mut state, "four<enter>fi<esc>");
    assert_eq!(state.input.text(), "four\n\nfi");
    type_keys(&mut state, "<enter>six<enter>");
    let effects = type_keys(&mut state, "<c-q>");
    let kept = effects.iter().any(|effect| {
        matches!(effect, Effect::Save { turns, .. }
            if turns.iter().any(|turn| turn.message.content.contains("six")))
    });
    assert!(kept, "{effects:?}");
}

#[test]
fn the_very_first_answer_is_slow_until_a_key() {
    for (at, key) in ["x", "<f2>", " ", "<esc>", "<enter>"].into_iter().enumerate() {
        let mut state = loaded(80, 24);
        state.controls.first_answer = FirstAnswer::ToCome;
        if let (0, Some(ready)) = (at, &mut state.models.ready) {
            ready.models.target = Some("bundled".to_string());
        }
        let effects = type_keys(&mut state, "one<enter>");
        assert!(effects.contains(&Effect::Answered), "it is never slow again");
        assert_eq!(state.controls.worker.pace, FirstAnswer::PACE);
        let effects = type_keys(&mut state, key);
        assert!(matches!(&effects[..], [Effect::Apply(controls), ..] if controls.pace == 0));
        assert_eq!(state.input.text(), if key == "x" { "x" } else { "" }, "{key}");
        assert!(state.answering(), "{key}: it continues");
    }
    let mut state = loaded(80, 24);
    state.controls.first_answer = FirstAnswer::ToCome;
    type_keys(&mut state, "one<enter>");
    let mut effects = Vec::new();
    for event in answer(1, "A whole answer.", 8) {
        effects.extend(say(&mut state, event));
    }
    assert!(matches!(effects.last(), Some(Effect::Apply(controls)) if controls.pace == 0));
    type_keys(&mut state, "two<enter>");
    assert_eq!(state.controls.worker.pace, 0);
    // Another model's is not.
    let mut state = loaded(80, 24);
    state.controls.first_answer = FirstAnswer::ToCome;
    if let Some(ready) = &mut state.models.ready {
        ready.models.target = Some("q.gguf".to_string());
    }
    type_keys(&mut state, "one<enter>");
    assert_eq!(state.controls.worker.pace, 0);
}

#[test]
fn the_keys_that_end_the_slow_answer_do_no_more_than_that() {
    for key in [" ", "<enter>", "<esc>"] {
        let mut state = loaded(80, 24);
        state.controls.first_answer = FirstAnswer::ToCome;
        type_keys(&mut state, "one<enter>");
        // With any message begun, and in any panel.
        state.input.set("next");
        let effects = type_keys(&mut state, key);
        // The tree leaves the screen with the slow answer, and the worker learns it.
        assert_eq!(effects.last(), Some(&Effect::Apply(state.controls.worker.clone())), "{key}");
        assert!(effects.iter().all(|effect| matches!(effect, Effect::Apply(_))), "{effects:?}");
        assert!(state.controls.worker.pace == 0 && !state.controls.worker.watched, "{key}");
        assert_eq!((state.input.text().as_str(), state.input.queue.len()), ("next", 0), "{key}");
        assert!(state.answering() && !state.controls.worker.paused, "{key}");
        // From then on they are themselves.
        type_keys(&mut state, "<enter>");
        assert_eq!(state.input.queue, ["next"], "{key}");
    }
    let mut state = loaded(80, 24);
    state.controls.first_answer = FirstAnswer::ToCome;
    type_keys(&mut state, "one<enter>");
    state.display.focus = Focus::Tree;
    type_keys(&mut state, " ");
    assert!(!state.controls.worker.paused, "Space would pause there");
}

#[test]
fn what_comes_at_once_ends_the_slow_answer_and_enter_sends_it() {
    let burst = "next".chars().map(|c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
    for event in [ScreenEvent::Typed(burst.collect()), ScreenEvent::Paste("next".to_string())] {
        let mut state = loaded(80, 24);
        state.controls.first_answer = FirstAnswer::ToCome;
        type_keys(&mut state, "one<enter>");
        let effects = update(&mut state, event, Duration::ZERO);
        assert!(matches!(&effects[..], [Effect::Apply(controls), ..] if controls.pace == 0));
        type_keys(&mut state, "<enter>");
        assert_eq!(
            (state.input.queue.as_slice(), state.input.is_empty()),
            (&["next".to_string()][..], true)
        );
    }
}

#[test]
fn regenerating_moves_the_seed_only_when_sampling() {
    let mut state = loaded(80, 24);
    assert!(type_keys(&mut state, "<c-r>").is_empty());
    type_keys(&mut state, "one<enter>");
    say_all(&mut state, answer(1, "First answer.", 8));
    let effects = type_keys(&mut state, "<c-r>");
    assert_eq!(job(&effects).messages.len(), 1);
    assert_eq!(state.controls.worker.sampler.seed, 0);
    say_all(&mut state, answer(2, "First answer.", 8));
    type_keys(&mut state, "/temperature 0.8<enter><c-r>");
    assert_eq!(state.controls.worker.sampler.seed, 1);
    assert_eq!(state.chat.turns().len(), 2);
}

#[test]
fn an_answer_survives_a_regeneration_without_tokens() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "one<enter>");
    say_all(&mut state, answer(1, "First answer.", 8));
    for end in ["<esc>", "failed"] {
        type_keys(&mut state, "<c-r>");
        assert_eq!(state.chat.last_answer(), None);
        let generation = state.generation();
        let effects = if end == "failed" {
            let error = "the device is lost".to_string();
            say(&mut state, Event::Failed { generation: Some(generation), error })
        } else {
            type_keys(&mut state, end)
        };
        assert_eq!(state.chat.last_answer(), Some("First answer."), "{end}");
        assert!(state.input.is_empty(), "the question is answered");
        let saved = effects
            .iter()
            .any(|effect| matches!(effect, Effect::Save { turns, .. } if turns.len() == 2));
        assert!(saved, "{end}: {effects:?}");
        state.overlays.open = None;
    }
    // Once it says something else, that stands.
    type_keys(&mut state, "<c-r>");
    let generation = state.generation();
    say_all(&mut state, answer(generation, "Second answer.", 8).into_iter().take(2));
    type_keys(&mut state, "<esc>");
    assert_eq!(state.chat.last_answer(), Some("Second"));
}
