//! The state of the screen as a frame, one file a panel. A view reads the state; all it writes back
//! is the size of the screen and which rows were drawn where, which scrolling and the mouse need.
//! Must never know where data comes from.
//!
//! From the bottom up: `areas`, `rows`, `figures`; `frames`; the panels; `layout`, which asks the
//! panels how many rows they need; and [`draw`].

mod areas;
mod chat;
mod controls;
mod figures;
mod footer;
mod frames;
mod header;
mod help;
mod hints;
mod input;
mod layout;
mod meters;
mod notice;
mod overlay;
mod payoff;
mod picture;
mod race;
mod rows;
mod strip;
mod thought;
mod tree;

use ratatui::Frame;

use super::state::{Overlay, ScreenState};
use super::theme;

pub use race::draw as draw_race;

/// Draws the whole screen. Any size will do, none included.
pub fn draw(frame: &mut Frame<'_>, state: &mut ScreenState) {
    let area = frame.area();
    // The terminal knows its size before the message that tells of it.
    state.size = (area.width, area.height);
    let styles = theme::styles(if state.colours { state.theme } else { theme::ThemeName::Mono });
    let areas = layout::areas(area, state);
    header::draw(frame, areas.header, state, &styles);
    chat::draw(frame, areas.chat, state, &styles);
    if let Some(area) = areas.tree {
        tree::draw(frame, area, state, &styles);
    }
    if let Some(area) = areas.meters {
        meters::draw(frame, area, state, &styles);
    }
    if let Some(area) = areas.reasons {
        overlay::reasons(frame, area, state, &styles);
    }
    if let Some(area) = areas.controls {
        controls::draw(frame, area, state, &styles);
    }
    strip::draw(frame, areas.strip, state, &styles);
    input::draw(frame, areas.input, state, &styles);
    notice::draw(frame, &areas, state, &styles);
    hints::draw(frame, areas.hints, state, &styles);
    input::draw_suggestions(frame, &areas, state, &styles);
    match &state.overlay {
        Some(Overlay::Help(_)) => help::draw(frame, &areas, state, &styles),
        Some(_) => overlay::draw(frame, &areas, state, &styles),
        None => {}
    }
    if !state.colours {
        theme::strip_colours(frame.buffer_mut());
    }
}

#[cfg(test)]
mod escapes;
#[cfg(test)]
mod tests;
