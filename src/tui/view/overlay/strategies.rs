//! The strategies, each with what it does, or what it lacks. Must never know how one drafts.

use ratatui::Frame;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::WIDTH;
use crate::plan::Strategy;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;
use crate::tui::view::areas::Areas;
use crate::tui::view::frames::{centred, panel};
use crate::tui::view::rows::{draw_rows, ends};

pub(super) fn draw(
    frame: &mut Frame<'_>,
    areas: &Areas,
    state: &ScreenState,
    selected: usize,
    styles: &Styles,
) {
    let area = areas.column;
    let width = WIDTH.min(area.width.saturating_sub(2));
    let most = area.height.saturating_sub(2).max(3);
    let statuses = state.statuses();
    let height = u16::try_from(statuses.len() + 2).unwrap_or(most).min(most);
    let rect = centred(frame, areas, area, width, height);
    let foot = format!(" {} take · {} close ", state.keys.take(), state.keys.close());
    let foot = Line::styled(foot, styles.dim).right_aligned();
    let block = panel(" strategies: the text is the same ", true, styles).title_bottom(foot);
    let inner = block.inner(rect);
    frame.render_widget(block, rect);
    let fit = usize::from(inner.height).max(1);
    let top = (selected + 1).saturating_sub(fit);
    let name_width = statuses.iter().map(|status| status.name.width()).max().unwrap_or(0) + 2;
    let rows = statuses.iter().enumerate().skip(top).take(fit).map(|(index, status)| {
        let (words, style) = match &status.missing {
            Some(missing) => (format!("needs {missing}"), styles.faint),
            None => {
                let row = Strategy::named(&status.name);
                (row.map(|row| row.summary).unwrap_or_default().to_string(), styles.dim)
            }
        };
        let name = if status.missing.is_some() { styles.faint } else { styles.text };
        let mark = if index == state.chosen() { "●" } else { " " };
        let line = Line::from_iter([
            Span::styled(format!("{mark} "), styles.accent),
            Span::styled(format!("{:<name_width$}", status.name), name),
            Span::styled(words, style),
        ]);
        let line = ends(line, Line::default(), inner.width);
        if index == selected { line.patch_style(styles.selected) } else { line }
    });
    draw_rows(frame, inner, rows);
}
