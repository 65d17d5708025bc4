//! A race from its start to its end: the last question is answered plain, then speculatively, with
//! the same seed; then both are played. The conversation stays as it is. Must never do IO.

use super::Race;
use crate::chat::Role;
use crate::tui::chat::answer::{refuse_now, stop};
use crate::tui::models::Phase;
use crate::tui::overlays::Overlay;
use crate::tui::state::ScreenState;
use crate::worker::{Event, Job};

/// Begins one on the last question.
pub(crate) fn begin(state: &mut ScreenState) {
    if !state.chat.can_regenerate() {
        return state.refuse("Ask something first: a race answers your last question twice");
    }
    if state.models.phase != Phase::Idle {
        return refuse_now(state);
    }
    let race = Race::new(state.strategy(), state.models.counts_rounds());
    state.overlays.race = Some((race, state.controls.worker.clone()));
    state.overlays.open = Some(Overlay::Race);
    run(state);
}

/// Asks for the answer whose turn it is.
fn run(state: &mut ScreenState) {
    let Some((race, _)) = &state.overlays.race else { return };
    race.prepare(&mut state.controls.worker);
    state.controls.worker.paused = false;
    let mut messages = state.chat.messages();
    if messages.last().is_some_and(|last| last.role == Role::Assistant) {
        messages.pop();
    }
    state.generate(Job {
        messages,
        max_tokens: state.controls.max_tokens.or(Race::LONGEST).min(Race::LONGEST),
        thinking: state.controls.thinking,
        afresh: true,
        ..Job::default()
    });
}

/// Something of the answer under way came.
pub(crate) fn event(state: &mut ScreenState, event: Event) {
    if let Event::Round { round, .. } = &event {
        state.note_pace(round);
    }
    let Some((race, _)) = &mut state.overlays.race else { return };
    if !race.take(&event) {
        return;
    }
    if race.measuring() {
        return run(state);
    }
    race.play(state.now);
    restore(state);
}

/// The controls are again what they were.
fn restore(state: &mut ScreenState) {
    let Some((_, before)) = &state.overlays.race else { return };
    state.controls.worker.speculate = before.speculate;
    state.controls.worker.strategy = before.strategy;
    state.controls.worker.pace = before.pace;
    state.models.phase = Phase::Idle;
    state.apply();
}

/// It cannot be run.
pub(crate) fn failed(state: &mut ScreenState, error: String) {
    restore(state);
    state.overlays.race = None;
    state.fail("No race", error);
}

/// Skips to the end of the play, or plays it once more.
pub(crate) fn again(state: &mut ScreenState) {
    if let Some((race, _)) = state.overlays.race.as_mut().filter(|(race, _)| !race.measuring()) {
        if race.playing(state.now) {
            race.skipped = true;
        } else {
            race.play(state.now);
        }
    }
    state.overlays.open = Some(Overlay::Race);
}

/// Leaves it; an answer under way is stopped.
pub(crate) fn close(state: &mut ScreenState) {
    if state.racing() {
        stop(state);
        restore(state);
    }
    state.overlays.race = None;
}
