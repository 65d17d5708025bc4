//! The strategies, each with what it does, or what it needs. Must never know how one drafts.

use ratatui::Frame;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::plan::Strategy;
use crate::tui::controls::strategies::{StrategyRow, title};
use crate::tui::draw::areas::Areas;
use crate::tui::draw::frames::WIDTH;
use crate::tui::draw::frames::{Edges, boxed};
use crate::tui::draw::rows::{draw_rows, list_row};
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

pub(crate) fn draw(
    frame: &mut Frame<'_>,
    areas: &Areas,
    state: &ScreenState,
    selected: usize,
    styles: &Styles,
) {
    let area = areas.column;
    let width = WIDTH.min(area.width.saturating_sub(2));
    let most = area.height.saturating_sub(2).max(3);
    let listed = state.listed_strategies();
    let name_width = listed.iter().map(|row| title(&row.status.name).width()).max().unwrap_or(0);
    let mut rows: Vec<Line<'_>> = Vec::new();
    let mut cursor = 0;
    let mut heading = None;
    for (at, row) in listed.iter().enumerate() {
        if row.group.heading() != heading {
            heading = row.group.heading();
            rows.extend(heading.map(|words| Line::styled(format!("  {words}"), styles.strong)));
        }
        let line = line(row, at == state.chosen(), name_width + 2, styles);
        if at == selected {
            cursor = rows.len();
        }
        rows.push(list_row(line, at == selected, width.saturating_sub(4), styles));
    }
    let height = u16::try_from(rows.len() + 2).unwrap_or(most).min(most);
    let foot =
        format!(" {} select · {} close ", state.display.keys.take(), state.display.keys.close());
    let edges = Edges { title: " strategies · the text is always the same ".into(), foot };
    let inner = boxed(frame, areas, area, width, height, edges, styles);
    let top = (cursor + 1).saturating_sub(usize::from(inner.height).max(1));
    draw_rows(frame, inner, rows.into_iter().skip(top));
}

/// What a strategy does, or what it needs.
fn line(
    row: &StrategyRow<'_>,
    in_force: bool,
    name_width: usize,
    styles: &Styles,
) -> Line<'static> {
    let name = row.status.name.as_str();
    let (words, title_style, style) = match &row.status.missing {
        Some(missing) => (format!("needs {missing}"), styles.faint, styles.faint),
        None => {
            let summary = Strategy::named(name).map(|row| row.summary).unwrap_or_default();
            (summary.to_string(), styles.text, styles.dim)
        }
    };
    let mark = if in_force { "●" } else { " " };
    Line::from_iter([
        Span::styled(format!("{mark} "), styles.accent),
        Span::styled(format!("{:<name_width$}", title(name)), title_style),
        Span::styled(words, style),
    ])
}
