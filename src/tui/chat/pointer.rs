//! The mouse's button: a drag in the conversation selects and copies, a click on a word of an
//! answer or on the clock goes to its round. Must never do IO.

use super::selection::{Selection, TextPoint, byte_at, first_byte, selected_text};
use super::view::Shows;
use crate::chat::Role;
use crate::tui::actions::Action;
use crate::tui::display::Focus;
use crate::tui::event::{Button, Effect};
use crate::tui::state::ScreenState;

/// The button was pressed, moved or released at this cell.
pub(crate) fn button(state: &mut ScreenState, button: Button, x: u16, y: u16) {
    if state.overlays.open.is_some() {
        return;
    }
    let pressed = button == Button::Pressed;
    if pressed && let Some(round) = state.meters.clock.round(x, y) {
        state.tree.go(round);
        let sees_tree = state.shows(Focus::Tree);
        state.display.focus = if sees_tree { Focus::Tree } else { Focus::Meters };
        return state.look_at_end_of_round();
    }
    match button {
        Button::Pressed => {
            let inside = state.chat.seen.area.contains((x, y).into());
            let row = usize::from(y.saturating_sub(state.chat.seen.area.y));
            let row = state.chat.seen.rows.get(row);
            if inside && row.is_some_and(|row| matches!(row.shows, Shows::Folded(_))) {
                state.chat.shows_files = true;
                return;
            }
            let point = if inside { state.chat.seen.point(x, y) } else { None };
            let begin = |point| Selection { from: point, to: point, held: true };
            state.chat.selection = point.map(begin);
        }
        Button::Moved | Button::Released => {
            let held = state.chat.selection.as_mut().filter(|selection| selection.held);
            let Some(selection) = held else { return };
            if let Some(point) = state.chat.seen.point(x, y) {
                selection.to = point;
            }
            if button == Button::Released {
                selection.held = false;
                let selection = *selection;
                return released(state, selection);
            }
            // The pointer on the first or last row shows more.
            let area = state.chat.seen.area;
            if y <= area.y {
                state.chat.scroll(-1);
            } else if y + 1 >= area.bottom() {
                state.chat.scroll(1);
            }
        }
    }
}

fn released(state: &mut ScreenState, selection: Selection) {
    if selection.from == selection.to {
        state.chat.selection = None;
        return click(state, selection.from);
    }
    let turns = state.chat.turns();
    let text = selected_text(turns, &selection, state.chat.shows_thoughts);
    let first = first_byte(turns, &selection);
    // The tree of an answer under way stays with its latest round.
    if !state.answering()
        && let Some((turn, byte)) = first
    {
        // Text that has no round kept is selected all the same.
        let _ = state.show_round_of(turn, byte);
    }
    if text.trim().is_empty() {
        state.chat.selection = None;
    } else {
        state.emit(Effect::Copy(text));
    }
}

/// A click on a word goes to its round.
fn click(state: &mut ScreenState, point: TextPoint) {
    let Some(turn) = state.chat.turns().get(point.turn) else { return };
    let answer = turn.role == Role::Assistant;
    let byte = if answer { byte_at(turn, point) } else { None };
    match byte.map(|byte| state.show_round_of(point.turn, byte)) {
        Some(Ok(())) => {
            state.no_tip_about(Action::LookWord(1));
            state.display.focus = Focus::Tree;
            state.display.side = Some(Focus::Tree);
        }
        Some(Err(why)) => state.refuse(why),
        None => {}
    }
}
