//! A box of rows. Must never know what they say.

use std::ops::Range;

use crate::tui::draw::{Areas, Edges, Frame, Line, Rect, Styles};
use crate::tui::draw::{boxed, cut, draw_rows, foot};

/// What a box of rows shows.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) title: String,
    /// Stays above the rows.
    pub(crate) head: Option<Line<'static>>,
    pub(crate) rows: Vec<Line<'static>>,
    /// Stays below the rows, after a rule.
    pub(crate) below: Vec<Line<'static>>,
    /// What the keys do.
    pub(crate) foot: Vec<String>,
    /// The first row to be seen, if there are so many below it.
    pub(crate) top: usize,
    /// The rows that have to be seen.
    pub(crate) cursor: Option<Range<usize>>,
    /// Whether the foot says which rows are seen, if not all are.
    pub(crate) counts: bool,
    /// Rows of the area that stay free above and below the box, where there is room for a few rows.
    pub(crate) free: u16,
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
        let free = self.free.min(area.height.saturating_sub(4) / 2);
        let area = Rect { y: area.y + free, height: area.height - 2 * free, ..area };
        let all = self.rows.len();
        let under = if self.below.is_empty() { 0 } else { self.below.len() + 1 };
        let fixed = usize::from(self.head.is_some()) + under;
        let height = u16::try_from(all + fixed + 2).unwrap_or(u16::MAX);
        let width = area.width.min(columns + 4);
        let fit = usize::from(area.height.min(height)).saturating_sub(2 + fixed).max(1);
        let mut top = self.top;
        if let Some(cursor) = self.cursor {
            top = top.min(cursor.start).max(cursor.end.saturating_sub(fit));
        }
        let top = top.min(all.saturating_sub(fit));
        if fit < all && self.counts {
            self.foot.insert(0, format!("{}–{} of {all}", top + 1, top + fit));
        }
        let title = format!(" {} ", self.title).into();
        let edges = Edges { title, foot: foot(&self.foot, width) };
        let inner = boxed(frame, areas, area, width, height, edges, styles);
        let room = usize::from(inner.width);
        let seen = self.rows.into_iter().skip(top).take(fit);
        let mut rows: Vec<Line<'_>> = self.head.into_iter().chain(seen).collect();
        if under > 0 {
            rows.push(Line::styled("─".repeat(room), styles.faint));
            rows.extend(self.below);
        }
        let fitted = |row: Line<'static>| if row.width() > room { cut(row, room) } else { row };
        draw_rows(frame, inner, rows.into_iter().map(fitted));
        top
    }
}
