//! Boxes over the panels. All they change of the state is the first row seen, which they limit to
//! the rows there are.

use unicode_width::UnicodeWidthStr;

use super::page::Page;
use super::{FilteredList, Overlay, QuestionPurpose, QuestionRow, details, help, sessions};
use crate::chat::Role;
use crate::plan::Strategy;
use crate::printable::{printable, printable_line};
use crate::tui::chat::full;
use crate::tui::controls::strategies::StrategyRow;
use crate::tui::draw::{Areas, Frame, Line, Span, Styles, WIDTH, list_row, wrapped};
use crate::tui::models::view as models;
use crate::tui::race;
use crate::tui::state::ScreenState;

/// Draws the overlay that is open.
pub(crate) fn draw(frame: &mut Frame<'_>, areas: &Areas, state: &mut ScreenState, styles: &Styles) {
    let columns = WIDTH.min(areas.column.width.saturating_sub(2)).saturating_sub(4).max(1);
    match &state.overlays.open {
        Some(Overlay::Race) => return race::view::draw(frame, areas, state, styles),
        Some(Overlay::Help(_)) => return help::view::draw(frame, areas, state, styles),
        _ => {}
    }
    let Some(page) = page(state, areas.column.height, columns, styles) else { return };
    let mut look = *styles;
    if matches!(state.overlays.open, Some(Overlay::Error { .. })) {
        look.accent = styles.error;
    }
    let seen = page.draw(frame, areas, areas.column, columns, &look);
    if let Some(Overlay::Details { top } | Overlay::System { top }) = &mut state.overlays.open {
        *top = seen;
    }
}

/// What the box that is open says; help and races are no rows.
pub(crate) fn page(
    state: &ScreenState,
    height: u16,
    columns: u16,
    styles: &Styles,
) -> Option<Page> {
    Some(match state.overlays.open.as_ref()? {
        Overlay::Race | Overlay::Help(_) => return None,
        Overlay::Sessions(list) => sessions::page(state, list, height, columns, styles),
        Overlay::Questions { list, purpose } => questions(state, list, *purpose, columns, styles),
        Overlay::Models(picker) => models::page(state, picker, columns, styles),
        Overlay::Error { title, text } => {
            scrolled(state, title, wrapped(text, columns, styles.text), 0)
        }
        Overlay::Details { top } => {
            scrolled(state, "details", details::rows(state, columns, styles), *top)
        }
        Overlay::System { top } => {
            let prompt = printable(state.chat.system.as_deref().unwrap_or_default());
            scrolled(state, "system prompt", wrapped(&prompt, columns, styles.text), *top)
        }
        Overlay::Reopened => reopened(state, columns, styles),
        Overlay::Full { selected } => full::page(state, *selected, columns, styles),
        Overlay::Strategies { selected } => strategies(state, *selected, columns, styles),
    })
}

/// Rows from `top` on.
fn scrolled(state: &ScreenState, title: &str, rows: Vec<Line<'static>>, top: usize) -> Page {
    let foot = vec![format!("{} close", state.display.keys.close())];
    Page { title: title.to_string(), rows, foot, top, counts: true, ..Page::default() }
}

/// Whether to load the model of the conversation that was opened.
fn reopened(state: &ScreenState, columns: u16, styles: &Styles) -> Page {
    let by = state.chat.answered_by.as_ref().map_or("", |by| &by.target);
    let now = state.models.target();
    let question = format!("This chat used {by}. {now} is loaded now. Load {by}?");
    let rows = wrapped(&question, columns, styles.text);
    let keys = &state.display.keys;
    let foot = vec![format!("{} yes", keys.take()), format!("{} no", keys.close())];
    Page { title: "another model".to_string(), rows, foot, ..Page::default() }
}

/// Messages, to choose one.
fn questions(
    state: &ScreenState,
    list: &FilteredList<QuestionRow>,
    purpose: QuestionPurpose,
    columns: u16,
    styles: &Styles,
) -> Page {
    let (title, does) = match purpose {
        QuestionPurpose::Edit => ("edit an earlier message", "edit"),
        QuestionPurpose::Branch => ("branch off after the answer to", "branch"),
        QuestionPurpose::Copy => ("copy a message", "copy"),
    };
    let keys = &state.display.keys;
    let foot = vec![format!("{} {does}", keys.take()), format!("{} close", keys.close())];
    let page = list.page("No match found", columns, styles, |row| {
        // Where answers are listed too, the user's own are marked as they are in the chat.
        let mark = match (purpose, row.role) {
            (QuestionPurpose::Copy, Role::User) => "❯ ",
            (QuestionPurpose::Copy, _) => "  ",
            (QuestionPurpose::Edit | QuestionPurpose::Branch, _) => "",
        };
        Line::from_iter([
            Span::styled(format!("{:>3} ", row.number), styles.dim),
            Span::styled(mark, styles.accent),
            Span::styled(printable_line(&row.text.replace('\n', " ")).into_owned(), styles.text),
        ])
    });
    Page { title: title.to_string(), foot, ..page }
}

/// The strategies, the one in force marked.
fn strategies(state: &ScreenState, selected: usize, columns: u16, styles: &Styles) -> Page {
    let listed = state.listed_strategies();
    let name_width = listed.iter().map(|row| row.status.name.width()).max().unwrap_or(0);
    let mut rows: Vec<Line<'_>> = Vec::new();
    let mut cursor = None;
    let mut heading = None;
    for (at, row) in listed.iter().enumerate() {
        if row.heading != heading {
            heading = row.heading;
            rows.extend(heading.map(|words| Line::styled(format!("  {words}"), styles.strong)));
        }
        let line = strategy(row, at == state.chosen(), name_width + 2, styles);
        if at == selected {
            cursor = Some(rows.len()..rows.len() + 1);
        }
        rows.push(list_row(line, at == selected, columns, styles));
    }
    let keys = &state.display.keys;
    let foot = vec![format!("{} select", keys.take()), format!("{} close", keys.close())];
    let title = "strategies · the text is always the same".to_string();
    Page { title, rows, foot, cursor, free: 1, ..Page::default() }
}

/// What a strategy does, or what it needs.
fn strategy(row: &StrategyRow<'_>, in_force: bool, width: usize, styles: &Styles) -> Line<'static> {
    let name = row.status.name.as_str();
    let (words, title_style, style) = match &row.status.missing {
        Some(missing) => (format!("needs {missing}"), styles.faint, styles.faint),
        None => {
            let summary = Strategy::named(name).map(|row| row.summary).unwrap_or_default();
            (summary.to_string(), styles.text, styles.dim)
        }
    };
    Line::from_iter([
        Span::styled(if in_force { "● " } else { "  " }, styles.accent),
        Span::styled(format!("{name:<width$}"), title_style),
        Span::styled(words, style),
    ])
}
