//! A race from its start to its end: the last question is answered twice with the same seed, plain
//! and speculatively or by two models; then both answers are played. The conversation stays as it
//! is. Must never do IO.

use super::Race;
use crate::chat::Role;
use crate::tui::chat::answer::{STILL_LOADING, refuse_now, stop};
use crate::tui::models::{ModelRow, Phase, update as models};
use crate::tui::overlays::Overlay;
use crate::tui::state::ScreenState;
use crate::worker::{Event, Job};

/// Begins one on the last question.
pub(crate) fn begin(state: &mut ScreenState) {
    start(state, Race::new(state.strategy(), state.models.counts_rounds()));
}

/// Asks the model in use and the one of this name.
pub(crate) fn compare(state: &mut ScreenState, name: &str) {
    let Some(ready) = &state.models.ready else { return state.refuse(STILL_LOADING) };
    let models = ready.models.clone();
    let former = ModelRow { title: ready.target.clone(), models, ..ModelRow::default() };
    let other = models::named(name).unwrap_or_else(|| models::row(name));
    start(state, Race::of_models([former, other]));
}

fn start(state: &mut ScreenState, race: Race) {
    if !state.chat.can_regenerate() {
        return state.refuse("Ask something first: your last question is answered twice");
    }
    if state.models.load.is_some() {
        return state.refuse(STILL_LOADING);
    }
    if state.models.phase != Phase::Idle {
        return refuse_now(state);
    }
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
    messages.pop_if(|last| last.role == Role::Assistant);
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
    let measuring = race.measuring();
    match race.models().cloned() {
        None if measuring => return run(state),
        Some([_, other]) if measuring => {
            state.models.phase = Phase::Idle;
            return models::load(state, other);
        }
        _ => {}
    }
    race.play(state.now);
    restore(state);
    models_back(state);
}

/// Another model is in use: the second answer is its own.
pub(crate) fn swapped(state: &mut ScreenState) {
    let target = state.models.target().to_string();
    match &mut state.overlays.race {
        Some((race, _)) if race.models().is_some() && race.measuring() => {
            race.name_other(target);
            run(state);
        }
        Some((race, _)) if race.models().is_some() => restore(state),
        _ => {}
    }
}

/// The second model cannot be loaded.
pub(crate) fn not_swapped(state: &mut ScreenState) {
    let of_models = |(race, _): &(Race, _)| race.models().is_some() && race.measuring();
    if state.overlays.race.as_ref().is_some_and(of_models) {
        restore(state);
        state.overlays.race = None;
        state.overlays.open = None;
    }
}

/// Loads the model from before again, if another is in use. A question waits for it.
fn models_back(state: &mut ScreenState) {
    let Some((race, _)) = &state.overlays.race else { return };
    let (Some([former, _]), Some(ready)) = (race.models().cloned(), &state.models.ready) else {
        return;
    };
    if state.models.load.is_some() && race.measuring() {
        models::stop_load(state);
    } else if ready.models != former.models && state.models.load.is_none() {
        let stage = "loading the model from before".to_string();
        models::load(state, former);
        state.models.phase = Phase::Loading { stage, fraction: None };
    }
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
    models_back(state);
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
        models_back(state);
    }
    state.overlays.race = None;
}
