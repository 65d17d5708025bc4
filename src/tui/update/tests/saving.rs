//! Conversations are saved on every way out and come back as they were.

use super::*;
use crate::chat::Session;

#[test]
fn a_new_conversation_keeps_the_old_one_saved() {
    let mut state = typed("one<enter>");
    assert_saved_before(&type_keys(&mut state, "/new<enter>"), 1, &Effect::Forget);
    assert!(state.chat.turns().is_empty() && state.models.phase == Phase::Idle);
}

#[test]
fn a_lost_decode_thread_is_reported_once_and_saved() {
    let mut state = typed("one<enter>");
    let effects = tell(&mut state, ScreenEvent::WorkerGone(Some("boom".to_string())));
    assert!(matches!(&effects[..], [Effect::Save { .. }]));
    assert!(failure(&state).1.contains("boom"));
    state.overlays.open = None;
    assert!(tell(&mut state, ScreenEvent::WorkerGone(None)).is_empty());
    type_keys(&mut state, "two<enter>");
    assert_eq!(state.input.text(), "two");
}

#[test]
fn an_answer_comes_back_with_its_figures_and_why_it_was_cut() {
    for (finish, says) in [
        (Finish::Eos, "tokens in"),
        (Finish::MaxTokens, "stopped at the limit of 9 tokens"),
        (Finish::ContextFull, "context full"),
    ] {
        let mut state = loaded(100, 24);
        type_keys(&mut state, "go<enter>");
        let mut events = answer(1, "Half of an answer is better than none.", 8);
        if let Some(Event::Finished { summary, .. }) = events.last_mut() {
            summary.finish = Some(finish);
            summary.tokens = 9;
        }
        say_all(&mut state, events);
        let below = |state: &mut ScreenState| -> Vec<String> {
            let shown = screen_of(state);
            let rows = shown.lines().map(|row| row.trim_matches(['"', ' ']));
            let rows = rows.skip_while(|row| !row.contains("tokens in"));
            rows.take_while(|row| !row.is_empty()).map(str::to_string).collect()
        };
        let before = below(&mut state);
        assert!(before.concat().contains(says), "{before:?}");
        // Through the file.
        let mut session = Session::new("demo");
        session.update(state.chat.saved_turns());
        let text = serde_json::to_string(&session).unwrap();
        let session: Session = serde_json::from_str(&text).unwrap();
        let mut again = loaded(100, 24);
        tell(&mut again, ScreenEvent::Loaded(Ok(session.chat())));
        again.overlays.open = None;
        assert_eq!(below(&mut again), before);
        assert_eq!(again.chat.saved_turns(), state.chat.saved_turns());
    }
}

#[test]
fn an_interrupted_answer_is_marked_until_it_is_regenerated() {
    let mut state = loaded(80, 24);
    for way in ["<esc>", "/new<enter>", "<c-q>"] {
        type_keys(&mut state, "go<enter>");
        begun(&mut state, "Half of an answer is better than none.", 3);
        let effects = type_keys(&mut state, way);
        let marks = |effect: &Effect| match effect {
            Effect::Save { turns, .. } => turns.last().is_some_and(|turn| turn.interrupted),
            _ => false,
        };
        assert!(effects.iter().any(marks), "{way}: {effects:?}");
    }
    let turns = vec![saved("go", false), saved("Half of", true)];
    tell(&mut state, ScreenEvent::Loaded(Ok(turns.clone().into())));
    assert_eq!(state.chat.turns()[1].outcome, Some(AnswerOutcome::Interrupted));
    assert_eq!(state.chat.saved_turns(), turns, "the mark stays in the file");
    type_keys(&mut state, "<c-r>");
    answered(&mut state, "All of it.");
    assert!(state.chat.saved_turns().iter().all(|turn| !turn.interrupted));
}

#[test]
fn an_answer_says_what_it_was_given_unless_its_parts_were_given_different_things() {
    let given = |state: &ScreenState| state.chat.turns().last().unwrap().given.clone();
    let mut state = exchange("one", "First words.");
    let first = given(&state).unwrap();
    assert!(first.is_to(&[Message::new(Role::User, "one")]));
    assert_eq!((first.forgotten, first.sampler), (0, state.controls.worker.sampler));
    // Stopped and continued.
    type_keys(&mut state, "two<enter>");
    begun(&mut state, "Second words are more than the first.", 3);
    type_keys(&mut state, "<esc>");
    let stopped = given(&state).unwrap();
    type_keys(&mut state, "<enter>");
    assert_eq!(given(&state).as_ref(), Some(&stopped));
    begun(&mut state, " and more of them to come.", 3);
    // Hotter in the middle of the answer.
    type_keys(&mut state, "/temperature 0.9<enter>");
    answered(&mut state, "and the end.");
    assert_eq!(given(&state), None);
    asked(&mut state, "three", "Third words.");
    assert_eq!(given(&state).unwrap().sampler.temperature, 0.9);
}
