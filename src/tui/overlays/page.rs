//! A box of rows. Must never know what they say.

use std::ops::Range;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::tui::draw::areas::Areas;
use crate::tui::draw::frames::{Edges, boxed, centre};
use crate::tui::draw::rows::{cut, draw_rows, foot};
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
