//! A race: two answers that are timed, then played.

use super::*;

const TEXT: &str = "The same text twice over.";

/// A race on the only question.
fn begin(pace: usize) -> (ScreenState, Vec<Effect>) {
    let mut state = loaded(120, 36);
    asked(&mut state, "one", "First answer.");
    state.controls.worker.pace = pace;
    let effects = type_keys(&mut state, "<f12>");
    (state, effects)
}

#[test]
fn the_question_is_answered_plain_then_speculatively_and_played() {
    let (mut state, effects) = begin(500);
    let before = texts(&state);
    assert_eq!(job(&effects).messages.len(), 1, "the question without its answer");
    assert!(job(&effects).afresh, "not drafted from the answer that is there");
    assert!(!applied(&effects).speculate && applied(&effects).pace == 0);
    let effects = answered(&mut state, TEXT);
    assert!(applied(&effects).speculate);
    assert_eq!(job(&effects).messages.len(), 1);
    let effects = answered(&mut state, TEXT);
    assert!(applied(&effects).speculate && applied(&effects).pace == 500, "as it was");
    assert_eq!((texts(&state), &state.models.phase), (before, &Phase::Idle));
    // It plays: the screen changes by itself until the slower one is there.
    assert!(state.deadline().is_some_and(|at| at < state.now + Duration::from_millis(50)));
    let end = state.now + Duration::from_secs(30);
    update(&mut state, ScreenEvent::Tick, end);
    assert_eq!(state.deadline(), None);
    assert!(screen_of(&mut state).contains("Enter play again"));
    type_keys(&mut state, "<enter>");
    assert!(state.deadline().is_some(), "once more");
    assert!(screen_of(&mut state).contains("Enter skip"));
    type_keys(&mut state, "<enter>");
    assert_eq!(state.deadline(), None, "its end is shown at once");
    let shown = screen_of(&mut state);
    assert_eq!(shown.matches("The same text twice over.").count(), 2, "{shown}");
    assert!(shown.contains("Same text, 2 rounds instead of 2"), "{shown}");
    type_keys(&mut state, "<esc>");
    assert!(state.overlays.race.is_none() && state.overlays.open.is_none());
}

#[test]
fn each_answer_is_shown_while_it_is_timed() {
    let (mut state, _) = begin(0);
    assert!(screen_of(&mut state).contains("timing plain …"));
    let mut events = answer(state.generation(), TEXT, 8);
    let later = events.split_off(3);
    say_all(&mut state, events);
    let shown = screen_of(&mut state);
    assert!(shown.contains("The same text") && !shown.contains("over."), "{shown}");
    say_all(&mut state, later);
    let shown = screen_of(&mut state);
    assert!(shown.contains("timing speculative") && !shown.contains("timing plain"), "{shown}");
    assert_eq!(shown.matches("twice over.").count(), 1, "{shown}");
    begun(&mut state, TEXT, 3);
    let shown = screen_of(&mut state);
    assert_eq!(shown.matches("The same text").count(), 2, "{shown}");
}

#[test]
fn a_race_that_is_stopped_or_fails_leaves_everything_as_it_was() {
    for stopped in [true, false] {
        let (mut state, _) = begin(0);
        let before = texts(&state);
        let effects = match stopped {
            true => type_keys(&mut state, "<esc>"),
            false => fails(&mut state, "lost"),
        };
        assert!(applied(&effects).speculate, "{effects:?}");
        assert_eq!((texts(&state), &state.models.phase), (before, &Phase::Idle));
        assert!(state.overlays.race.is_none());
        assert_eq!(matches!(state.overlays.open, Some(Overlay::Error { .. })), !stopped);
    }
}

#[test]
fn a_race_needs_a_question() {
    let mut state = loaded(120, 36);
    assert!(type_keys(&mut state, "<f12>").is_empty() && state.overlays.race.is_none());
}
