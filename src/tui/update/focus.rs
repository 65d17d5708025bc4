//! Which panel is shown and where keys go. Must never know what the panels hold.

use crate::tui::actions::Action;
use crate::tui::display::Focus;
use crate::tui::state::ScreenState;

/// Shows the meters or the controls; pressed again, hides them. The keyboard stays with the
/// message, or goes back to it: only [`step`] moves it to a panel, so that a sentence never turns a
/// dial.
pub(super) fn show(state: &mut ScreenState, panel: Focus) {
    let display = &mut state.display;
    display.focus = Focus::Input;
    if panel == Focus::Meters && display.beside() {
        display.meters = !display.meters;
    } else if display.side.take() != Some(panel) {
        display.side = Some(panel);
        let next = display.keys.name(Action::FocusNext);
        state.say(format!("{next} moves the keyboard to {}", panel.name()));
    }
}

/// Goes to the next panel that is shown (1), from the message to the one that a key has opened, or
/// to the one before (-1), round the end.
pub(super) fn step(state: &mut ScreenState, by: i64) {
    // Nothing said before may cover where the keys go now.
    state.toasts.sent(state.now);
    let mut ring = vec![Focus::Input, Focus::Tree, Focus::Meters, Focus::Controls, Focus::Chat];
    // Meters have nothing to move: they are one of them only where they replace the tree.
    ring.retain(|panel| {
        state.shows(*panel) && !(*panel == Focus::Meters && state.display.beside())
    });
    if let Some(opened) = ring.iter().position(|panel| Some(*panel) == state.display.side) {
        // The ring begins with it, and has the others after it.
        ring[1..=opened].rotate_right(1);
    }
    let at = ring.iter().position(|focus| *focus == state.display.focus).unwrap_or(0) as i64;
    state.display.focus = ring[(at + by).rem_euclid(ring.len() as i64) as usize];
}
