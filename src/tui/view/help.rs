//! The help: every key and every command, from their tables. Must never name a key itself.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::areas::Areas;
use super::frames::{centred, panel};
use super::picture;
use super::rows::draw_rows;
use crate::tui::commands::COMMANDS;
use crate::tui::keymap::{self, Keymap, Scope};
use crate::tui::state::{Overlay, ScreenState};
use crate::tui::theme::Styles;

/// Width of one column of text.
const COLUMN: u16 = 74;
/// Width of a key or a command in it.
const KEY: usize = 29;

pub(super) fn draw(frame: &mut Frame<'_>, areas: &Areas, state: &mut ScreenState, styles: &Styles) {
    let area = areas.body;
    let Some(Overlay::Help { words, .. }) = &state.overlay else { return };
    let sections = found(sections(&state.keys, styles), words);
    let title = match words.as_str() {
        "" => " help · type to search ".to_string(),
        words => format!(" help · {words}▏ "),
    };
    let two = area.width >= 2 * COLUMN + 6;
    let columns = if two { balance(sections) } else { vec![sections.concat()] };
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    let width = COLUMN * columns.len() as u16 + 4;
    let height = u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(2);
    let rect = centred(frame, areas, area, width, height);
    let fit = usize::from(rect.height.saturating_sub(2));
    let last = rows.saturating_sub(fit);
    let Some(Overlay::Help { top, .. }) = &mut state.overlay else { return };
    *top = (*top).min(last);
    let top = *top;
    let mut block = panel(title, true, styles);
    if last > 0 {
        let words = format!(" {}–{} of {rows} ", top + 1, (top + fit).min(rows));
        block = block.title_bottom(Line::styled(words, styles.dim).right_aligned());
    }
    let inner = block.inner(rect);
    frame.render_widget(block, rect);
    for (index, column) in columns.iter().enumerate() {
        let x = inner.x + index as u16 * COLUMN;
        let area = Rect { x, width: COLUMN, ..inner }.intersection(inner);
        draw_rows(frame, area, column.iter().skip(top).cloned());
    }
}

type Section = Vec<Line<'static>>;

fn sections(keys: &Keymap, styles: &Styles) -> Vec<Section> {
    let row = |key: String, help: &'static str| {
        Line::from_iter([
            Span::styled(format!("{key:<KEY$} "), styles.accent),
            Span::styled(help, styles.text),
        ])
    };
    let section = |title: &'static str, rows: Vec<Line<'static>>| {
        let mut lines = vec![Line::styled(title, styles.strong)];
        lines.extend(rows);
        lines.push(Line::default());
        lines
    };
    let mut sections: Vec<Section> = Scope::ALL
        .into_iter()
        .map(|scope| {
            let rows =
                keymap::help(keys, scope).into_iter().map(|(keys, help)| row(keys, help)).collect();
            section(scope.title(), rows)
        })
        .collect();
    let commands = COMMANDS
        .iter()
        .map(|command| row(format!("/{} {}", command.name, command.argument), command.help))
        .collect();
    sections.insert(2, section("Commands", commands));
    sections.insert(0, section("How one step works", picture::lines(styles)));
    sections
}

/// The rows that have every one of `words`, upper case or lower, below their titles.
fn found(sections: Vec<Section>, words: &str) -> Vec<Section> {
    if words.trim().is_empty() {
        return sections;
    }
    let words = words.to_lowercase();
    let has = |line: &Line<'_>| {
        let text = line.to_string().to_lowercase();
        words.split_whitespace().all(|word| text.contains(word))
    };
    let kept = sections.into_iter().filter_map(|section| {
        let mut rows = section.into_iter();
        let title = rows.next()?;
        let mut found: Section = rows.filter(|row| has(row)).collect();
        if found.is_empty() {
            return None;
        }
        found.insert(0, title);
        found.push(Line::default());
        Some(found)
    });
    let kept: Vec<Section> = kept.collect();
    if kept.is_empty() { vec![vec![Line::from("no key or command has these words")]] } else { kept }
}

/// Two columns of about the same height, in reading order.
fn balance(sections: Vec<Section>) -> Vec<Section> {
    let all: usize = sections.iter().map(Vec::len).sum();
    let mut columns = vec![Section::new(), Section::new()];
    for section in sections {
        let column = usize::from(columns[0].len() + section.len() / 2 > all / 2);
        columns[column].extend(section);
    }
    columns
}
