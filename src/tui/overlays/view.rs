//! Boxes over the panels, one file each. All they change of the state is the first row seen, which
//! they limit to the rows there are.

use ratatui::Frame;

use super::sessions::view as sessions;
use super::{Overlay, questions, reopened, strategies, text};
use crate::tui::chat::full::view as full;
use crate::tui::draw::areas::Areas;
use crate::tui::models::view as models;
use crate::tui::race;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

pub(crate) fn draw(frame: &mut Frame<'_>, areas: &Areas, state: &mut ScreenState, styles: &Styles) {
    match &state.overlays.open {
        Some(Overlay::Error { title, text }) => {
            text::error(frame, areas, title, text, &state.display.keys, styles);
        }
        Some(Overlay::Details { .. } | Overlay::System { .. }) => {
            text::scrolled(frame, areas, state, styles);
        }
        Some(Overlay::Sessions(list)) => sessions::draw(frame, areas, state, list, styles),
        Some(Overlay::Questions { list, purpose }) => {
            questions::draw(frame, areas, list, *purpose, &state.display.keys, styles);
        }
        Some(Overlay::Race) => race::view::draw(frame, areas, state, styles),
        Some(Overlay::Reopened) => reopened::draw(frame, areas, state, styles),
        Some(Overlay::Full { selected }) => full::draw(frame, areas, state, *selected, styles),
        Some(Overlay::Models(picker)) => {
            models::draw(frame, areas, picker, &state.display.keys, styles)
        }
        Some(Overlay::Strategies { selected }) => {
            strategies::draw(frame, areas, state, *selected, styles);
        }
        Some(Overlay::Help(_)) | None => {}
    }
}
