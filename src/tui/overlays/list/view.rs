//! A list that is filtered as one types: the words, then the rows that have them. Must never know
//! what the rows stand for.

use ratatui::Frame;
use ratatui::text::{Line, Span};

use crate::tui::draw::areas::Areas;
use crate::tui::draw::frames::WIDTH;
use crate::tui::draw::frames::{Edges, boxed};
use crate::tui::draw::rows::{cut, draw_rows, ends};
use crate::tui::overlays::{FilteredList, Listed};
use crate::tui::theme::Styles;

/// What a list says about itself.
pub(crate) struct Texts<'a> {
    /// On the frame above.
    pub(crate) title: &'a str,
    /// On the frame below: what the keys do.
    pub(crate) foot: &'a str,
    /// In the place of rows, if none fits.
    pub(crate) none: &'a str,
}

/// Draws `list`, each of its rows as `line` makes it for a number of columns.
pub(crate) fn draw<T: Listed>(
    frame: &mut Frame<'_>,
    areas: &Areas,
    list: &FilteredList<T>,
    texts: &Texts<'_>,
    styles: &Styles,
    line: impl Fn(&T, u16) -> Line<'static>,
) {
    draw_with(frame, areas, list, texts, &[], styles, line);
}

/// The same with rows below the list.
pub(crate) fn draw_with<T: Listed>(
    frame: &mut Frame<'_>,
    areas: &Areas,
    list: &FilteredList<T>,
    texts: &Texts<'_>,
    below: &[Line<'static>],
    styles: &Styles,
    line: impl Fn(&T, u16) -> Line<'static>,
) {
    let area = areas.column;
    let width = WIDTH.min(area.width.saturating_sub(2));
    let most = area.height.saturating_sub(4).max(4);
    let under = if below.is_empty() { 0 } else { below.len() + 1 };
    let height = u16::try_from(list.len().max(1) + 3 + under).unwrap_or(most).min(most);
    let edges = Edges { title: texts.title.into(), foot: texts.foot.to_string() };
    let inner = boxed(frame, areas, area, width, height, edges, styles);
    let shown = list.shown();
    let count = Line::styled(format!("{} of {}", shown.len(), list.len()), styles.dim);
    let words = if list.filter().is_empty() {
        Line::styled("type to filter", styles.dim)
    } else {
        Line::from_iter([
            Span::styled(list.filter().to_string(), styles.strong),
            Span::styled("▏", styles.accent),
        ])
    };
    let mut rows = vec![ends(words, count, inner.width)];
    if shown.is_empty() {
        rows.push(Line::styled(texts.none.to_string(), styles.dim));
    }
    let fit = usize::from(inner.height).saturating_sub(1 + under).max(1);
    let top = (list.selected() + 1).saturating_sub(fit);
    rows.extend(shown.into_iter().enumerate().skip(top).take(fit).map(|(index, row)| {
        let line = cut(line(row, inner.width), usize::from(inner.width));
        if index == list.selected() { line.patch_style(styles.selected) } else { line }
    }));
    if under > 0 {
        let rule = "─".repeat(usize::from(inner.width));
        rows.resize(usize::from(inner.height).saturating_sub(under), Line::default());
        rows.push(Line::styled(rule, styles.faint));
        rows.extend(below.iter().cloned());
    }
    draw_rows(frame, inner, rows);
}
