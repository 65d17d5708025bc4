//! Overlays: moving in them, filtering lists, taking what is under the cursor. Must never do IO.

use super::{Overlay, sessions};
use crate::tui::chat::full;
use crate::tui::chat::{CHOICES, conversation};
use crate::tui::event::Effect;
use crate::tui::markdown::Document;
use crate::tui::models::update as models;
use crate::tui::race::update as race;
use crate::tui::state::ScreenState;

/// Moves in an overlay.
pub(crate) fn overlay_row(state: &mut ScreenState, by: isize) {
    let strategies = state.statuses().len();
    match &mut state.overlays.open {
        Some(Overlay::Help(help)) => help.step(by, &state.display.keys),
        // The view limits it to the number of rows.
        Some(Overlay::Details { top } | Overlay::System { top }) => {
            *top = top.saturating_add_signed(by);
        }
        Some(Overlay::Strategies { selected }) => {
            *selected = selected.saturating_add_signed(by).min(strategies.saturating_sub(1));
        }
        Some(Overlay::Sessions(list)) => list.select(by),
        Some(Overlay::Models(picker)) => picker.list.select(by),
        Some(Overlay::Questions { list, .. }) => list.select(by),
        Some(Overlay::Full { selected }) => {
            *selected = selected.saturating_add_signed(by).min(CHOICES.len() - 1);
        }
        Some(Overlay::Error { .. } | Overlay::Race | Overlay::Reopened) | None => {}
    }
}

/// Takes what is under the cursor, or closes a box that has none.
pub(crate) fn overlay_take(state: &mut ScreenState) {
    if let Some(renaming) = state.overlays.renaming.take() {
        return sessions::renamed(state, renaming);
    }
    match state.overlays.open.take() {
        Some(Overlay::Sessions(list)) => match list.chosen() {
            Some(session) => state.emit(Effect::Load(session.head.id.clone())),
            // No conversation matches the filter: it stays open for editing.
            None => state.overlays.open = Some(Overlay::Sessions(list)),
        },
        Some(Overlay::Models(picker)) => models::take(state, picker),
        Some(Overlay::Questions { list, purpose }) => match list.chosen() {
            Some(row) => conversation::take(state, row.turn, purpose),
            None => state.overlays.open = Some(Overlay::Questions { list, purpose }),
        },
        Some(Overlay::Full { selected }) => full::choose(state, selected),
        Some(Overlay::Help(mut help)) => {
            // A row of the list opens its page, if it has one; on a page, back to the list.
            let is_page = help.open.take().is_some();
            if is_page || help.take(&state.display.keys) {
                state.overlays.guide_page = Document::default();
                state.overlays.open = Some(Overlay::Help(help));
            }
        }
        Some(Overlay::Reopened) => models::load_former(state),
        Some(Overlay::Race) => race::again(state),
        Some(Overlay::Strategies { selected }) => {
            let name = state.listed_strategies().get(selected).map(|row| row.status.name.clone());
            if let Some(Err(why)) = name.map(|name| state.choose_strategy(&name)) {
                state.complain(why);
            }
        }
        _ => {}
    }
}
