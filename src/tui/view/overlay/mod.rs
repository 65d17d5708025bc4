//! Boxes over the panels, one file each. All they change of the state is the first row seen, which
//! they limit to the rows there are.

mod full;
mod list;
mod models;
mod questions;
mod race;
mod reopened;
mod sessions;
mod strategies;
mod text;

use ratatui::Frame;

use super::areas::Areas;
use crate::tui::state::{Overlay, ScreenState};
use crate::tui::theme::Styles;

pub(super) use text::reasons;

/// A box is no wider than a comfortable row.
const WIDTH: u16 = 76;

pub(super) fn draw(frame: &mut Frame<'_>, areas: &Areas, state: &mut ScreenState, styles: &Styles) {
    match &state.overlay {
        Some(Overlay::Error { title, text }) => {
            text::error(frame, areas, (title, text), &state.keys, styles);
        }
        Some(Overlay::Details { .. } | Overlay::System { .. }) => {
            text::scrolled(frame, areas, state, styles);
        }
        Some(Overlay::Sessions(list)) => sessions::draw(frame, areas, state, list, styles),
        Some(Overlay::Questions { list, purpose }) => {
            questions::draw(frame, areas, list, *purpose, &state.keys, styles);
        }
        Some(Overlay::Race) => race::draw(frame, areas, state, styles),
        Some(Overlay::Reopened) => reopened::draw(frame, areas, state, styles),
        Some(Overlay::Full { selected }) => full::draw(frame, areas, state, *selected, styles),
        Some(Overlay::Models(picker)) => models::draw(frame, areas, picker, &state.keys, styles),
        Some(Overlay::Strategies { selected }) => {
            strategies::draw(frame, areas, state, *selected, styles);
        }
        Some(Overlay::Help(_)) | None => {}
    }
}
