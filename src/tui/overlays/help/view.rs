//! The help: its list and the pages that it opens. Must never name a key itself.

use super::picture;
use crate::decode::BothMinds;
use crate::tui::draw::{Areas, Frame, Line, Span, Styles, spans, wrapped};
use crate::tui::overlays::page::Page;
use crate::tui::overlays::{HelpPage, HelpRow, HelpSection, Overlay, help};
use crate::tui::state::ScreenState;

/// Longer rows are hard to read.
const WIDEST: u16 = 88;

pub(crate) fn draw(frame: &mut Frame<'_>, areas: &Areas, state: &mut ScreenState, styles: &Styles) {
    let columns = WIDEST.min(areas.body.width.saturating_sub(4)).max(1);
    let Some(Overlay::Help(help)) = &state.overlays.open else { return };
    let open = help.open;
    let title = match (open, help.words.as_str()) {
        (Some(page), _) => format!("help · {}", page.title()),
        (None, "") => "help · type to search".to_string(),
        (None, words) => format!("help · {words}▏"),
    };
    let (lines, cursor) = match open {
        Some(page) => (page_lines(state, page, columns, styles), None),
        None => {
            let sections = help.sections(&state.display.keys);
            let (lines, places) = list(&sections, Some(help.selected), columns, styles);
            (lines, places.get(help.selected).cloned())
        }
    };
    let keys = &state.display.keys;
    let foot = match open {
        Some(_) => vec![format!("{} back", keys.close())],
        None => vec![format!("{} open", keys.take()), format!("{} close", keys.close())],
    };
    let Some(Overlay::Help(help)) = &mut state.overlays.open else { return };
    let top = if open.is_some() { &mut help.page_top } else { &mut help.top };
    // The first row is seen with what is above it.
    let cursor = cursor.map(|at| if help.selected == 0 { 0..at.end } else { at });
    let page =
        Page { title, rows: lines, foot, top: *top, cursor, counts: true, ..Page::default() };
    *top = page.draw(frame, areas, areas.body, columns, styles);
}

/// The lines of a page, which for a topic are kept from frame to frame.
fn page_lines(
    state: &mut ScreenState,
    page: HelpPage,
    columns: u16,
    styles: &Styles,
) -> Vec<Line<'static>> {
    match page {
        HelpPage::Round => picture::lines(columns, styles),
        HelpPage::Keys(group) => {
            list(&help::keys_of(&state.display.keys, group), None, columns, styles).0
        }
        HelpPage::Commands => list(&[help::commands()], None, columns, styles).0,
        HelpPage::Topic(topic) => {
            let text = topic.with_addresses();
            let rows = state.overlays.guide_page.lay_out(
                &text,
                &BothMinds::default(),
                usize::from(columns),
            );
            rows.iter().map(|row| Line::from_iter(spans(row, styles))).collect()
        }
    }
}

/// The lines of sections, the row at `selected` lit, and where each row's lines are.
fn list(
    sections: &[HelpSection],
    selected: Option<usize>,
    columns: u16,
    styles: &Styles,
) -> (Vec<Line<'static>>, Vec<std::ops::Range<usize>>) {
    let rows = sections.iter().flat_map(|section| &section.rows);
    let widest = rows.map(|row| Line::from(row.name.as_str()).width()).max().unwrap_or(0);
    let names = u16::try_from(widest).unwrap_or(u16::MAX).min(columns * 2 / 5).max(1);
    let mut lines = Vec::new();
    let mut places = Vec::new();
    if sections.is_empty() {
        lines.push(Line::styled("No key, command or topic has these words.", styles.dim));
    }
    for (index, section) in sections.iter().enumerate() {
        if index > 0 {
            lines.push(Line::default());
        }
        lines.push(Line::styled(section.title, styles.strong));
        for row in &section.rows {
            let begin = lines.len();
            let lit = selected == Some(places.len());
            lines.extend(
                entry(row, names, columns, styles)
                    .into_iter()
                    .map(|line| if lit { line.patch_style(styles.selected) } else { line }),
            );
            places.push(begin..lines.len());
        }
    }
    (lines, places)
}

/// A row in two columns, each wrapped.
fn entry(row: &HelpRow, names: u16, columns: u16, styles: &Styles) -> Vec<Line<'static>> {
    let style = if row.opens.is_some() { styles.strong } else { styles.accent };
    let left = wrapped(&row.name, names, style);
    let room = columns.saturating_sub(names + 2).max(1);
    let right = wrapped(&row.words, room, styles.text);
    let line = |at: usize| {
        let mut line = left.get(at).cloned().unwrap_or_default();
        let gap = usize::from(names + 2).saturating_sub(line.width());
        line.push_span(Span::raw(" ".repeat(gap)));
        line.extend(right.get(at).cloned().unwrap_or_default());
        line
    };
    (0..left.len().max(right.len())).map(line).collect()
}
