//! The strategies, each with what it does, or what it needs. Must never know how one drafts.

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::page::Page;
use crate::plan::Strategy;
use crate::tui::controls::strategies::{StrategyRow, title};
use crate::tui::draw::rows::list_row;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

/// The strategies, the one in force marked.
pub(crate) fn page(state: &ScreenState, selected: usize, columns: u16, styles: &Styles) -> Page {
    let listed = state.listed_strategies();
    let name_width = listed.iter().map(|row| title(&row.status.name).width()).max().unwrap_or(0);
    let mut rows: Vec<Line<'_>> = Vec::new();
    let mut cursor = None;
    let mut heading = None;
    for (at, row) in listed.iter().enumerate() {
        if row.heading != heading {
            heading = row.heading;
            rows.extend(heading.map(|words| Line::styled(format!("  {words}"), styles.strong)));
        }
        let line = line(row, at == state.chosen(), name_width + 2, styles);
        if at == selected {
            cursor = Some(rows.len()..rows.len() + 1);
        }
        rows.push(list_row(line, at == selected, columns, styles));
    }
    let keys = &state.display.keys;
    let foot = vec![format!("{} select", keys.take()), format!("{} close", keys.close())];
    let title = "strategies · the text is always the same".to_string();
    Page { title, rows, foot, cursor, ..Page::default() }
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
