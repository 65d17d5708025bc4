//! What is typed where lines are the view: a message, a command, or the number of a row of the box
//! that was read out. Must never do IO.

use super::action::act;
use super::leaving::quit;
use crate::tui::actions::Action;
use crate::tui::chat::answer::stop;
use crate::tui::commands::command_in;
use crate::tui::models::{Phase, update as models};
use crate::tui::overlays::Overlay;
use crate::tui::overlays::update::{overlay_row, overlay_take};
use crate::tui::state::ScreenState;

/// A line was typed. An empty one sends a message that came back, or continues the answer.
pub(super) fn line(state: &mut ScreenState, text: &str) {
    if state.overlays.open.is_some() && chosen(state, text.trim()) {
        return;
    }
    let back = state.input.text();
    let is_command = command_in(text).is_some();
    if !text.trim().is_empty() {
        if !is_command {
            state.input.stash();
        }
        state.input.set(text);
    }
    // The list of commands or paths is not seen, so nothing is taken from it.
    state.input.dismiss();
    // It says itself what is wrong.
    let _ = act(state, Action::Send, "");
    if is_command && state.input.is_empty() {
        state.input.set(&back);
    }
    // What is heard takes longer than what is seen.
    if let Some((_, until)) = &mut state.input.sends_as_written {
        *until = std::time::Duration::MAX;
    }
    if state.overlays.open == Some(Overlay::Race) {
        let _ = act(state, Action::OverlayClose, "");
        state.refuse("A race is drawn on the full screen · `dovetail race` prints one");
    }
}

/// Takes the row of this number, if the box has rows to choose from; `false` closes the box for a
/// line that is something else.
fn chosen(state: &mut ScreenState, text: &str) -> bool {
    let rows = match &state.overlays.open {
        Some(Overlay::Sessions(list)) => list.shown().len(),
        Some(Overlay::Models(picker)) => picker.list.shown().len(),
        Some(Overlay::Questions { list, .. }) => list.shown().len(),
        Some(Overlay::Strategies { .. }) => state.listed_strategies().len(),
        Some(Overlay::Full { .. }) => crate::tui::chat::CHOICES.len(),
        Some(Overlay::Reopened) => 1,
        _ => 0,
    };
    match text.parse::<usize>() {
        Ok(number) if (1..=rows).contains(&number) => {
            overlay_row(state, -isize::MAX);
            overlay_row(state, number as isize - 1);
            overlay_take(state);
            true
        }
        _ => {
            let _ = act(state, Action::OverlayClose, "");
            state.overlays.open = None;
            rows > 0 && text.is_empty()
        }
    }
}

/// Ctrl+C ends what is under way. At the prompt it ends nothing, since many press it there to drop
/// a line.
pub(super) fn interrupt(state: &mut ScreenState) {
    match state.models.phase {
        Phase::Answering { .. } => {
            stop(state);
            if state.chat.is_unanswered() {
                state.say("Stopped before the first word · an empty line asks again");
            }
        }
        Phase::Loading { .. } => quit(state),
        Phase::Idle | Phase::Broken if state.models.load.is_some() => models::stop_load(state),
        Phase::Idle | Phase::Broken => {
            state.refuse("Nothing is under way to stop · /quit or Ctrl+D leaves");
        }
    }
}
