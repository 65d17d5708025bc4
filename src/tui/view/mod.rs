//! The state of the screen as a frame: each component draws itself into the area that `layout`
//! gives it. A view reads the state; all it writes back is the size of the screen and which rows
//! were drawn where, which scrolling and the mouse need. Must never know where data comes from.

mod edges;
mod layout;

use ratatui::Frame;

use super::overlays;
use super::state::ScreenState;
use super::theme::ThemeName;
use super::toasts::LaidOut;
use super::{chat, controls, input, meters, theme, tree};

/// Draws the whole screen. Any size will do, none included.
pub fn draw(frame: &mut Frame<'_>, state: &mut ScreenState) {
    let area = frame.area();
    // The terminal knows its size before the message that tells of it.
    state.display.size = (area.width, area.height);
    let styles = theme::styles(if state.display.colours {
        match state.display.theme {
            ThemeName::Auto => state.display.background,
            theme => theme,
        }
    } else {
        ThemeName::Mono
    });
    let (areas, said) = layout::areas(area, state, &styles);
    edges::header(frame, areas.header, state, &styles);
    chat::view::draw(frame, areas.chat, state, &styles);
    if let Some(area) = areas.tree {
        tree::view::draw(frame, area, state, &styles);
    }
    match areas.meters {
        Some(area) => meters::view::draw(frame, area, state, &styles),
        None => state.meters.clock = Default::default(),
    }
    if let Some(area) = areas.controls {
        controls::view::draw(frame, area, state, &styles);
    }
    edges::status(frame, areas.status, state, &styles);
    let has_title = matches!(said, LaidOut::Above(_));
    input::view::draw(frame, areas.input, state, has_title, &styles);
    said.draw(frame, &areas);
    edges::hints(frame, areas.hints, state, &styles);
    input::view::draw_suggestions(frame, &areas, state, &styles);
    overlays::view::draw(frame, &areas, state, &styles);
    if !state.display.colours {
        theme::strip_colours(frame.buffer_mut());
    }
}

#[cfg(test)]
mod tests;
