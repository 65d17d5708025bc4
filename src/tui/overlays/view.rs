//! Boxes over the panels. All they change of the state is the first row seen, which they limit to
//! the rows there are.

use std::ops::Range;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::sessions::view as sessions;
use super::{Overlay, help, questions, strategies, text};
use crate::tui::chat::full;
use crate::tui::draw::areas::Areas;
use crate::tui::draw::frames::{Edges, WIDTH, boxed, centre};
use crate::tui::draw::rows::{cut, draw_rows, foot};
use crate::tui::models::view as models;
use crate::tui::race;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

/// What a box of rows shows.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) rows: Vec<Line<'static>>,
    /// What the keys do.
    pub(crate) foot: Vec<String>,
    /// The first row to be seen, if there are so many below it.
    pub(crate) top: usize,
    /// The rows that have to be seen.
    pub(crate) cursor: Option<Range<usize>>,
    /// Whether the foot says which rows are seen, if not all are.
    pub(crate) counts: bool,
}

impl Page {
    /// Draws it in the middle of `area`, its rows of so many columns; returns the first row seen.
    pub(crate) fn draw(
        mut self,
        frame: &mut Frame<'_>,
        areas: &Areas,
        area: Rect,
        columns: u16,
        styles: &Styles,
    ) -> usize {
        let all = self.rows.len();
        let height = u16::try_from(all).unwrap_or(u16::MAX).saturating_add(2);
        let rect = centre(area, columns + 4, height);
        let fit = usize::from(rect.height.saturating_sub(2));
        let mut top = self.top;
        if let Some(cursor) = self.cursor {
            top = top.min(cursor.start).max(cursor.end.saturating_sub(fit));
        }
        let top = top.min(all.saturating_sub(fit));
        if fit < all && self.counts {
            self.foot.insert(0, format!("{}–{} of {all}", top + 1, top + fit));
        }
        let title = format!(" {} ", self.title).into();
        let edges = Edges { title, foot: foot(&self.foot, rect.width) };
        let inner = boxed(frame, areas, area, rect.width, height, edges, styles);
        let room = usize::from(inner.width);
        let fitted = |row: Line<'static>| if row.width() > room { cut(row, room) } else { row };
        draw_rows(frame, inner, self.rows.into_iter().skip(top).map(fitted));
        top
    }
}

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
