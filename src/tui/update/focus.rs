//! Which panel is shown and where keys go. Must never know what the panels hold.

use crate::tui::actions::Action;
use crate::tui::display::Focus;
use crate::tui::state::ScreenState;

/// Shows a panel; pressed again, hides it. The keyboard stays with the message, or goes back to it:
/// only [`step`] moves it to a panel, so that a sentence never turns a dial.
pub(super) fn show(state: &mut ScreenState, panel: Focus) {
    state.display.focus = Focus::Input;
    if state.display.side.take() == Some(panel) {
        return;
    }
    state.display.side = Some(panel);
    if ring(state).contains(&panel) {
        let next = state.display.keys.name(Action::FocusNext);
        state.say(format!("{next} moves the keyboard to {}", panel.name()));
    }
}

/// The places that the keyboard goes through. Meters have nothing to move: they are one of them
/// only where they replace another panel.
fn ring(state: &ScreenState) -> &'static [Focus] {
    if state.display.wide() {
        &[Focus::Input, Focus::Tree, Focus::Controls, Focus::Chat]
    } else {
        &[Focus::Input, Focus::Tree, Focus::Meters, Focus::Controls, Focus::Chat]
    }
}

/// Goes to the next panel (1), from the message to the one that is shown, or to the one before
/// (-1), round the end.
pub(super) fn step(state: &mut ScreenState, by: i64) {
    let ring = ring(state);
    // Nothing said before may cover where the keys go now.
    state.toasts.sent(state.now);
    let shown = state.display.side.filter(|panel| ring.contains(panel));
    let at = ring.iter().position(|focus| *focus == state.display.focus).unwrap_or(0) as i64;
    let focus = match shown {
        Some(panel) if state.display.focus == Focus::Input && by > 0 => panel,
        _ => ring[(at + by).rem_euclid(ring.len() as i64) as usize],
    };
    state.display.focus = focus;
    state.display.side = (!matches!(focus, Focus::Input | Focus::Chat)).then_some(focus);
}
