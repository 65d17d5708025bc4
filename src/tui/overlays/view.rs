//! Boxes over the panels. All they change of the state is the first row seen, which they limit to
//! the rows there are.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::sessions::view as sessions;
use super::{Overlay, help, questions, strategies, text};
use crate::tui::chat::full;
use crate::tui::draw::areas::Areas;
use crate::tui::draw::frames::WIDTH;
use crate::tui::models::view as models;
use crate::tui::race;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

/// Draws the overlay that is open.
pub(crate) fn draw(frame: &mut Frame<'_>, areas: &Areas, state: &mut ScreenState, styles: &Styles) {
    let columns = WIDTH.min(areas.column.width.saturating_sub(2)).saturating_sub(4).max(1);
    let mut area = areas.column;
    let mut look = *styles;
    let page = match &state.overlays.open {
        Some(Overlay::Sessions(list)) => return sessions::draw(frame, areas, state, list, styles),
        Some(Overlay::Questions { list, purpose }) => {
            return questions::draw(frame, areas, state, list, *purpose, styles);
        }
        Some(Overlay::Models(picker)) => return models::draw(frame, areas, state, picker, styles),
        Some(Overlay::Race) => return race::view::draw(frame, areas, state, styles),
        Some(Overlay::Help(_)) => return help::view::draw(frame, areas, state, styles),
        None => return,
        Some(Overlay::Error { title, text }) => {
            look.accent = styles.error;
            text::error(state, title, text, columns, styles)
        }
        Some(Overlay::Details { top }) => text::details(state, *top, columns, styles),
        Some(Overlay::System { top }) => text::system(state, *top, columns, styles),
        Some(Overlay::Reopened) => text::reopened(state, columns, styles),
        Some(Overlay::Full { selected }) => full::page(state, *selected, columns, styles),
        Some(Overlay::Strategies { selected }) => {
            // A row above it and one below stay free.
            area = Rect { y: area.y + 1, height: area.height.saturating_sub(2), ..area };
            strategies::page(state, *selected, columns, styles)
        }
    };
    let seen = page.draw(frame, areas, area, columns, &look);
    if let Some(Overlay::Details { top } | Overlay::System { top }) = &mut state.overlays.open {
        *top = seen;
    }
}
