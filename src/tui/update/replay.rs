//! A record shown again: no model answers, and what the record does not hold stays as it was
//! recorded. Only the pace can be changed. Must never do IO.

use crate::tui::actions::Action;
use crate::tui::event::Effect;
use crate::tui::state::ScreenState;
use crate::worker::Controls;

/// Why nothing else is possible.
const NO_MODEL: &str = "Replay: read only, since no model is loaded · the pace can be changed";

/// Why the temperature cannot be changed.
fn other_draws(recorded: f32) -> String {
    format!("This was recorded at temperature {recorded:.2}, which a replay cannot change")
}

/// Says so, if `action` wants a model.
pub(crate) fn refuses(state: &mut ScreenState, action: Action) -> bool {
    let refuses = state.models.replay && action.wants_model();
    if refuses {
        say(state);
    }
    refuses
}

/// Says that a record has no model.
pub(crate) fn say(state: &mut ScreenState) {
    state.complain(NO_MODEL);
}

/// Restores in the controls what a record keeps of `before`.
pub(crate) fn keep(state: &mut ScreenState, before: &Controls) {
    let now = &mut state.controls.worker;
    let kept = Controls {
        strategy: before.strategy,
        overlap: before.overlap,
        coupled: before.coupled,
        sampler: before.sampler,
        speculate: before.speculate,
        tree: before.tree,
        ..now.clone()
    };
    if *now == kept {
        return;
    }
    let drawn = now.sampler != before.sampler;
    *now = kept;
    for effect in &mut state.effects {
        if let Effect::Apply(controls) = effect {
            *controls = state.controls.worker.clone();
        }
    }
    if drawn {
        state.complain(other_draws(before.sampler.temperature));
    } else {
        say(state);
    }
}
