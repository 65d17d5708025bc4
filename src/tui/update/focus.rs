//! Which panel is shown and where keys go. Must never know what the panels hold.

use crate::tui::state::{Focus, ScreenState, Side};

/// Shows a panel and puts the focus there; pressed again, goes back.
pub(super) fn show(state: &mut ScreenState, side: Side) {
    let there = state.focus == side.focus() && (state.wide() || state.side == Some(side));
    if there {
        state.focus = Focus::Input;
        state.side = None;
    } else {
        state.side = Some(side);
        // Meters have nothing to move: where they are beside the chat, they need no focus.
        if side == Side::Meters {
            state.focus = Focus::Input;
            if !state.wide() {
                state.focus = Focus::Meters;
            }
        } else {
            state.focus = side.focus();
        }
    }
}

/// Goes to the next panel (1) or the one before (-1), round the end.
pub(super) fn step(state: &mut ScreenState, by: i64) {
    let ring: &[Focus] = if state.wide() {
        &[Focus::Input, Focus::Tree, Focus::Controls, Focus::Chat]
    } else {
        &[Focus::Input, Focus::Tree, Focus::Meters, Focus::Controls, Focus::Chat]
    };
    let at = ring.iter().position(|focus| *focus == state.focus).unwrap_or(0) as i64;
    state.focus = ring[(at + by).rem_euclid(ring.len() as i64) as usize];
    state.side = match state.focus {
        Focus::Tree => Some(Side::Tree),
        Focus::Meters => Some(Side::Meters),
        Focus::Controls => Some(Side::Controls),
        Focus::Chat => None,
        Focus::Input => None,
    };
}
