//! Answers: asked for, stopped, failed, given again.

use super::*;
use crate::chat::SessionStore;

#[test]
fn controls_are_applied_before_a_question_is_sent() {
    let mut state = loaded(80, 24);
    let effects = type_keys(&mut state, "hello<enter>");
    assert!(matches!(&effects[0], Effect::Apply(controls) if controls.generation == 1));
    assert_eq!(kept_turns(&effects).map(<[_]>::len), Some(1), "it is safe before it is answered");
    let sent = job(&effects);
    assert_eq!((sent.generation, sent.max_tokens, sent.messages.len()), (1, Job::ROOM_LEFT, 1));
    assert!(state.input.is_empty());
    answered(&mut state, "Once upon a time there was a fox.");
    assert_eq!(texts(&state)[1].1, "Once upon a time there was a fox.");
    assert_eq!(state.models.phase, Phase::Idle);
    assert_eq!(contents(&type_keys(&mut state, "more<enter>")).len(), 3);
}

#[test]
fn late_events_of_a_stopped_answer_are_dropped() {
    let mut state = typed("one<enter>");
    let events = answer(1, "This answer is not wanted any more after a while.", 16);
    say_all(&mut state, events[..3].to_vec());
    let effects = type_keys(&mut state, "<esc>");
    assert!(matches!(&effects[0], Effect::Apply(controls) if controls.generation == 2));
    assert!(matches!(&effects[1], Effect::Save { .. }));
    let before = texts(&state);
    say_all(&mut state, events[3..].to_vec());
    assert_eq!(texts(&state), before);
    assert_eq!(state.chat.turns()[1].outcome, Some(AnswerOutcome::STOPPED));
    // The next answer is not disturbed by what is left of the first.
    type_keys(&mut state, "two<enter>");
    say(&mut state, events[3].clone());
    assert_eq!(texts(&state)[3].1, "");
    answered(&mut state, "Wanted.");
    assert_eq!(texts(&state)[3].1, "Wanted.");
}

#[test]
fn a_failed_question_returns_to_the_input_and_half_an_answer_stays() {
    let mut state = typed("a very long question<enter>");
    let error = "The prompt has 3,000 tokens, the context 2,048: shorten it";
    fails(&mut state, error);
    assert_eq!(state.input.text(), "a very long question");
    assert!(state.chat.turns().is_empty());
    assert_eq!(failure(&state).1, error);
    // What was written meanwhile is not overwritten.
    type_keys(&mut state, "<esc><enter>next");
    fails(&mut state, error);
    assert_eq!(state.input.text(), "next");
    assert_eq!(texts(&state), [(Role::User, "a very long question".to_string())]);
    type_keys(&mut state, "<esc><enter>");
    begun(&mut state, "Half of an answer is better than none.", 3);
    fails(&mut state, "device lost");
    let last = state.chat.turns().last().unwrap();
    assert!(!last.text.is_empty() && last.outcome == Some(AnswerOutcome::Failed));
}

#[test]
fn a_question_that_does_not_fit_the_context_changes_nothing() {
    let mut state = exchange("one", "First answer, which is here to stay.");
    let shown = |state: &ScreenState| {
        let meters = &state.meters.answer;
        let summary = &meters.summary;
        (state.tree.len(), summary.tokens, summary.rounds, meters.context(), texts(state))
    };
    let before = shown(&state);
    type_keys(&mut state, "more<enter>");
    assert_eq!(state.tree.len(), 0);
    say(&mut state, Event::Prefill { generation: 2, done: 0, total: 2100 });
    fails(&mut state, "the prompt has 2100 tokens, but the context holds 2048");
    assert!(
        matches!(state.overlays.open, Some(Overlay::Full { .. })),
        "something can be forgotten"
    );
    type_keys(&mut state, "<down><down><enter>");
    assert_eq!((shown(&state), state.input.text()), (before.clone(), "more".to_string()));
    let text = failure(&state).1;
    for words in ["2100", "2048", "/new", "/when-full", "--context", "8192"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // One that is stopped before its first token costs as little.
    type_keys(&mut state, "<esc><enter><esc>");
    assert_eq!((shown(&state), state.input.text()), (before, "more".to_string()));
    // Once the new answer has begun, the old tree is gone for good.
    type_keys(&mut state, "<enter>");
    begun(&mut state, "Second answer.", 2);
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
        assert_eq!(contents(&effects).last(), Some(&wanted));
        type_keys(&mut state, "<esc><c-u>");
    }
}

#[test]
fn tokens_are_counted_once() {
    let mut state = loaded(200, 50);
    type_keys(&mut state, "one<enter>");
    let mut events = answer(1, "A fox is a small wild animal with a bushy tail.", 16);
    let Some(Event::Finished { summary, .. }) = events.last().cloned() else { panic!() };
    let last = events.split_off(events.len() - 1);
    say_all(&mut state, events);
    let counted = &state.meters.answer.summary;
    assert_eq!((counted.tokens, counted.rounds), (summary.tokens, summary.rounds));
    assert!((counted.tau - summary.tau).abs() < 1e-9);
    say_all(&mut state, last);
    let tokens = state.meters.answer.summary.tokens;
    assert_eq!(tokens, summary.tokens);
    state.display.layout = Some(crate::settings::Layout::Lab);
    let seen = screen_of(&mut state);
    let counted = format!("{tokens} tokens in {} rounds", summary.rounds);
    assert_eq!(seen.matches(&counted).count(), 2, "below the answer and in the meters: {seen}");
}

#[test]
fn a_question_stopped_before_its_first_token_can_be_edited() {
    let mut state = typed("one<enter><esc>");
    assert!(state.input.text() == "one" && state.chat.turns().is_empty());
    // Written over meanwhile, it stays in the conversation and goes along with the next.
    type_keys(&mut state, "<enter>two<esc>");
    assert_eq!(state.input.text(), "two");
    assert_eq!(contents(&type_keys(&mut state, "<enter>")), ["one\n\ntwo"]);
}

#[test]
fn a_message_sent_while_an_answer_comes_waits_for_its_end() {
    let mut state = typed("one<enter>");
    assert!(type_keys(&mut state, "two<enter>three<enter>").is_empty() && state.input.is_empty());
    let sent = answered(&mut state, "Answered.");
    assert_eq!(contents(&sent).last(), Some(&"two"));
    answered(&mut state, "Answered.");
    assert_eq!(texts(&state)[4].1, "three");
    // Stopped, what waits comes back to be edited, and quitting keeps it in the conversation.
    type_keys(&mut state, "four<enter>fi<esc>");
    assert_eq!(state.input.text(), "four\n\nfi");
    type_keys(&mut state, "<enter>six<enter>");
    let effects = type_keys(&mut state, "<c-q>");
    let kept = kept_turns(&effects).unwrap();
    assert!(kept.iter().any(|turn| turn.message.content.contains("six")), "{kept:?}");
}

/// A question to the bundled model, which has never answered here.
fn first_answer() -> (ScreenState, Vec<Effect>) {
    let mut state = loaded(80, 24);
    state.controls.first_answer = FirstAnswer::ToCome;
    let effects = type_keys(&mut state, "one<enter>");
    (state, effects)
}

#[test]
fn the_very_first_answer_is_slow_until_a_key() {
    for (key, typed) in [("x", "x"), ("<f2>", ""), (" ", ""), ("<esc>", ""), ("<enter>", "")] {
        for begun in ["", "next"] {
            let (mut state, effects) = first_answer();
            assert!(
                effects.contains(&Effect::Remember(SessionStore::ANSWERED, String::new())),
                "it is never slow again"
            );
            assert_eq!(state.controls.worker.pace, FirstAnswer::PACE);
            state.input.set(begun);
            let effects = type_keys(&mut state, key);
            // The tree leaves the screen with the slow answer, and the worker learns it.
            assert_eq!(effects.last(), Some(&Effect::Apply(state.controls.worker.clone())));
            let works =
                |effect: &Effect| !matches!(effect, Effect::Apply(_) | Effect::Remember(..));
            assert!(!effects.iter().any(works), "{effects:?}");
            let Controls { pace, watched, paused, .. } = state.controls.worker;
            assert_eq!((pace, watched, paused), (0, key == "<f2>", false), "{key}");
            assert!(state.answering() && state.input.queue.is_empty(), "{key}: it continues");
            let text = format!("{begun}{typed}");
            assert_eq!(state.input.text(), text, "{key}");
            // From then on the keys are themselves.
            type_keys(&mut state, "<enter>");
            assert!(text.is_empty() || state.input.queue == [text], "{key}");
        }
    }
    let (mut state, _) = first_answer();
    state.display.focus = Focus::Tree;
    type_keys(&mut state, " ");
    assert!(!state.controls.worker.paused, "Space would pause there");
    let (mut state, _) = first_answer();
    assert_eq!(applied(&answered(&mut state, "A whole answer.")).pace, 0);
    type_keys(&mut state, "two<enter>");
    assert_eq!(state.controls.worker.pace, 0);
    // Named, it is the bundled model too; another one's answer is not slow.
    for (target, pace) in [("bundled", FirstAnswer::PACE), ("q.gguf", 0)] {
        let mut state = loaded(80, 24);
        state.controls.first_answer = FirstAnswer::ToCome;
        state.models.ready.as_mut().unwrap().models = named(target);
        type_keys(&mut state, "one<enter>");
        assert_eq!(state.controls.worker.pace, pace, "{target}");
    }
}

#[test]
fn a_first_answer_that_is_refused_slows_nothing_any_more() {
    let (mut state, _) = first_answer();
    let generation = Some(state.generation());
    say(&mut state, Event::Failed { generation, error: "too long".to_string() });
    assert!(!state.controls.first_answer.plays() && !state.answering());
    assert_eq!(state.controls.worker.pace, 0);
}

#[test]
fn what_comes_at_once_ends_the_slow_answer_and_enter_sends_it() {
    for event in [burst("next"), ScreenEvent::Paste("next".to_string())] {
        let (mut state, _) = first_answer();
        assert_eq!(applied(&tell(&mut state, event)).pace, 0);
        type_keys(&mut state, "<enter>");
        assert!(state.input.queue == ["next"] && state.input.is_empty());
    }
}

#[test]
fn regenerating_moves_the_seed_only_when_sampling() {
    let mut state = loaded(80, 24);
    assert!(type_keys(&mut state, "<c-r>").is_empty());
    asked(&mut state, "one", "First answer.");
    assert_eq!(contents(&type_keys(&mut state, "<c-r>")).len(), 1);
    assert_eq!(state.controls.worker.sampler.seed, 0);
    answered(&mut state, "First answer.");
    type_keys(&mut state, "/temperature 0.8<enter><c-r>");
    assert_eq!((state.controls.worker.sampler.seed, state.chat.turns().len()), (1, 2));
}

#[test]
fn an_answer_survives_a_regeneration_without_tokens() {
    let mut state = exchange("one", "First answer.");
    for stopped in [true, false] {
        let effects = type_keys(&mut state, "<c-r>");
        assert_eq!(kept_turns(&effects), None, "until then the one before stays on the disk");
        assert_eq!(state.chat.last_answer(), None);
        let effects = match stopped {
            true => type_keys(&mut state, "<esc>"),
            false => fails(&mut state, "the device is lost"),
        };
        assert_eq!(state.chat.last_answer(), Some("First answer."));
        let versions = state.chat.turns().last().unwrap().versions.place();
        assert_eq!(versions, (1, 1), "a version has at least a token");
        assert!(state.input.is_empty(), "the question is answered");
        assert_eq!(kept_turns(&effects).map(<[_]>::len), Some(2), "{effects:?}");
        state.overlays.open = None;
    }
    // Once it says something else, that stands.
    type_keys(&mut state, "<c-r>");
    begun(&mut state, "Second answer.", 2);
    type_keys(&mut state, "<esc>");
    assert_eq!(state.chat.last_answer(), Some("Second"));
}
