//! A race: two answers that are timed, then played.

use std::time::Duration;

use super::{job, texts};
use crate::tui::event::{Effect, ScreenEvent};
use crate::tui::models::Phase;
use crate::tui::overlays::Overlay;
use crate::tui::state::ScreenState;
use crate::tui::tests::{answer, loaded, say, say_all, screen_of, type_keys};
use crate::tui::update::update;
use crate::worker::{Controls, Event};

fn asked() -> ScreenState {
    let mut state = loaded(120, 36);
    type_keys(&mut state, "one<enter>");
    say_all(&mut state, answer(1, "First answer.", 8));
    state
}

fn applied(effects: &[Effect]) -> &Controls {
    effects
        .iter()
        .rev()
        .find_map(|effect| match effect {
            Effect::Apply(controls) => Some(controls),
            _ => None,
        })
        .expect("controls")
}

/// The answer under way, and what it leads to.
fn run(state: &mut ScreenState) -> Vec<Effect> {
    let events = answer(state.generation(), "The same text twice over.", 8);
    events.into_iter().flat_map(|event| say(state, event)).collect()
}

#[test]
fn the_question_is_answered_plain_then_speculatively_and_played() {
    let mut state = asked();
    let before = texts(&state);
    state.controls.worker.pace = 500;
    let effects = type_keys(&mut state, "<f12>");
    assert_eq!(job(&effects).messages.len(), 1, "the question without its answer");
    assert!(job(&effects).afresh, "not drafted from the answer that is there");
    assert!(!applied(&effects).speculate && applied(&effects).pace == 0);
    let effects = run(&mut state);
    assert!(applied(&effects).speculate);
    assert_eq!(job(&effects).messages.len(), 1);
    let effects = run(&mut state);
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
    let mut state = asked();
    type_keys(&mut state, "<f12>");
    assert!(screen_of(&mut state).contains("timing plain …"));
    let events = answer(state.generation(), "The same text twice over.", 8);
    events[..3].iter().for_each(|event| drop(say(&mut state, event.clone())));
    let shown = screen_of(&mut state);
    assert!(shown.contains("The same text") && !shown.contains("over."), "{shown}");
    events[3..].iter().for_each(|event| drop(say(&mut state, event.clone())));
    let shown = screen_of(&mut state);
    assert!(shown.contains("timing speculative") && !shown.contains("timing plain"), "{shown}");
    assert_eq!(shown.matches("twice over.").count(), 1, "{shown}");
    let events = answer(state.generation(), "The same text twice over.", 8);
    events[..3].iter().for_each(|event| drop(say(&mut state, event.clone())));
    let shown = screen_of(&mut state);
    assert_eq!(shown.matches("The same text").count(), 2, "{shown}");
}

#[test]
fn a_race_that_is_stopped_or_fails_leaves_everything_as_it_was() {
    for stopped in [true, false] {
        let mut state = asked();
        let before = texts(&state);
        type_keys(&mut state, "<f12>");
        let generation = state.generation();
        let effects = if stopped {
            type_keys(&mut state, "<esc>")
        } else {
            say(&mut state, Event::Failed { generation: Some(generation), error: "lost".into() })
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
