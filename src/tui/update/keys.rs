//! Keys: to the action that the table names, else to the text that is being written. Must never
//! know what an action does.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui_textarea::TextArea;

use super::action::act;
use crate::tui::actions::Action;
use crate::tui::chat::answer::end_first_answer;
use crate::tui::display::Focus;
use crate::tui::input::ViMode;
use crate::tui::keymap;
use crate::tui::state::ScreenState;

/// A key was pressed.
pub(super) fn key(state: &mut ScreenState, event: KeyEvent) {
    if event.kind == KeyEventKind::Release {
        return;
    }
    state.chat.selection = None;
    // Every key gives full speed and does what it does. The keys that people press as "any key" do
    // no more, or a space would get into the message and Esc would stop the answer.
    if full_speed(state) && matches!(event.code, KeyCode::Char(' ') | KeyCode::Enter | KeyCode::Esc)
    {
        return;
    }
    if vi(state, &event) {
        return;
    }
    let action = keymap::lookup(state, &event);
    if action != Some(Action::Interrupt) {
        state.leaving.quits_until = None;
    }
    if let Some(action) = action {
        return act(state, action, "").unwrap_or_else(|why| state.complain(why));
    }
    if !keymap::writes(state, &event) {
        if state.overlays.open.is_none() && state.display.focus == Focus::Input {
            write(state, event);
        }
        return;
    }
    let typed = state.overlays.edit(|text| match event.code {
        KeyCode::Char(c) if !c.is_control() => text.push(c),
        KeyCode::Char(_) => {}
        _ => drop(text.pop()),
    });
    if !typed {
        // A box came up while something was typed: no character of it is lost.
        state.overlays.open = None;
        state.display.focus = Focus::Input;
        write(state, event);
    }
}

/// Does what the keys of vi do in the message; `false` leaves the key to the others.
fn vi(state: &mut ScreenState, event: &KeyEvent) -> bool {
    let here = state.display.focus == Focus::Input && state.overlays.open.is_none();
    if !state.display.vi || !here || state.offers_starters() {
        return false;
    }
    let plain = !event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    match event.code {
        KeyCode::Esc if !state.input.commands() && state.input.offered().is_empty() => {
            state.input.vi = ViMode::Normal(None);
        }
        // A command begins as always.
        KeyCode::Char('/') if state.input.commands() && state.input.is_empty() => {
            state.input.vi = ViMode::Insert;
            return false;
        }
        KeyCode::Char(c) if plain && state.input.commands() => state.input.command(c),
        _ => return false,
    }
    true
}

/// What comes while the first answer plays slowly gives full speed, and the key after it is not
/// that one any more; `true` if it plays.
pub(super) fn full_speed(state: &mut ScreenState) -> bool {
    let plays = end_first_answer(state);
    if plays {
        state.apply();
    }
    plays
}

/// Several characters at once: into the message in one step, since each insertion costs the length
/// of its line; elsewhere each is a key of its own.
pub(super) fn typed(state: &mut ScreenState, keys: Vec<KeyEvent>) {
    state.chat.selection = None;
    let text = |key: &KeyEvent| match key.code {
        KeyCode::Char(c) if keymap::lookup(state, key).is_none() => Some(c),
        _ => None,
    };
    let writes = state.overlays.open.is_none() && state.display.focus == Focus::Input;
    let writes = writes && !state.input.commands();
    match keys.iter().map(text).collect::<Option<String>>() {
        Some(text) if writes => {
            full_speed(state);
            state.leaving.quits_until = None;
            state.type_over_starter();
            state.input.paste(&text);
        }
        _ => {
            for event in keys {
                key(state, event);
            }
        }
    }
}

/// Editing keys that are not in the table: the usual ones of a text field.
fn write(state: &mut ScreenState, event: KeyEvent) {
    if matches!(event.code, KeyCode::Char(_) | KeyCode::Backspace | KeyCode::Delete) {
        state.type_over_starter();
    }
    let input = &mut state.input;
    let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
    let plain = !event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    let shift = event.modifiers.contains(KeyModifiers::SHIFT);
    match event.code {
        KeyCode::Up if plain && !shift => input.up(),
        KeyCode::Down if plain && !shift => input.down(),
        KeyCode::Left if plain && !shift => input.step(false),
        KeyCode::Right if plain && !shift => input.step(true),
        KeyCode::Backspace if plain && !input.area().is_selecting() => input.backspace(),
        KeyCode::Delete if plain && !input.area().is_selecting() => input.delete(),
        // As in a shell, rather than the text area's own undo.
        KeyCode::Char('u') if ctrl => input.edit(TextArea::delete_line_by_head),
        // The second is what terminals send for the first.
        KeyCode::Char('_' | '7') if ctrl => input.edit(TextArea::undo),
        // A control character is not text.
        KeyCode::Char(c) if plain && c.is_control() => {}
        _ => input.edit(|area| area.input(event)),
    }
}
