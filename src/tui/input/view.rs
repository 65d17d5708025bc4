//! The message being written, and the matching commands. Must never change them.

use ratatui::buffer::CellWidth;
use ratatui::layout::Position;
use unicode_segmentation::UnicodeSegmentation;

use super::Suggestion;
use crate::printable::printable_line;
use crate::tui::actions::Action;
use crate::tui::commands::SlashCommand;
use crate::tui::display::Focus;
use crate::tui::draw::{
    Areas, Frame, Line, Rect, Span, Styles, cut, draw_rows, figures, focused, foot, framed,
    list_row, panel,
};
use crate::tui::markdown::{StyledSpan, wrap};
use crate::tui::state::ScreenState;

/// Most rows of text before it scrolls.
const TALLEST: u16 = 8;
/// Cells of the bar that shows how full the context is.
const BAR: usize = 10;
/// Suggestions shown at once.
const SUGGESTIONS: usize = 8;

/// Rows of the panel: as many as the text needs, a third of the room at most.
pub(crate) fn height(room: Rect, state: &ScreenState) -> u16 {
    let frame = if room.height < 5 { 0 } else { 2 };
    let width = usize::from(room.width.saturating_sub(4)).max(1);
    let most = (room.height / 3).clamp(1, TALLEST);
    let mut rows = 0;
    for line in state.input.area().lines() {
        // A pasted book is not wrapped for each frame: the beginning fills the panel.
        let begin: String = line.chars().take(width * usize::from(most)).collect();
        // The cursor needs a cell after the last character.
        rows += wrap(&StyledSpan::plain(&format!("{begin}_"), None).into(), width).len();
        if rows >= usize::from(most) {
            break;
        }
    }
    let rows = u16::try_from(rows).unwrap_or(most).clamp(1, most);
    (rows + frame).min(room.height)
}

/// Draws the field in its frame; another text takes the place of the title unless it `has_title`.
pub(crate) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &ScreenState,
    has_title: bool,
    styles: &Styles,
) {
    if area.is_empty() {
        return;
    }
    let focus = focused(state, Focus::Input);
    let elsewhere = elsewhere(state);
    let inner = if area.height < 3 {
        area
    } else {
        let title = match &elsewhere {
            _ if !has_title => Line::default(),
            Some(parts) => Line::styled(foot(parts, area.width), styles.warning),
            None => Line::from(title(state)),
        };
        let mut block = panel(title, focus, styles);
        let room = usize::from(area.width.saturating_sub(6));
        if let Some(context) = state.context()
            && let Some(words) = context.warning(room)
        {
            let mut line = Line::styled(format!(" {words} "), styles.warning);
            if words.chars().count() + BAR < room {
                let share = context.used as f64 / context.holds.max(1) as f64;
                let bar = figures::bar(share, BAR);
                line.spans.insert(0, Span::styled(format!(" {bar}"), styles.warning));
            }
            block = block.title_bottom(line);
        }
        framed(frame, area, block)
    };
    if inner.is_empty() {
        return;
    }
    frame.render_widget(state.input.area(), inner);
    if elsewhere.is_some() {
        frame.buffer_mut().set_style(inner, styles.faint);
    }
    if state.input.is_empty() {
        let words = if state.models.replay {
            "Replay: read only"
        } else if state.chat.turns().is_empty() {
            "Write a message, or / for commands"
        } else {
            "Write a message"
        };
        let style = if elsewhere.is_some() { styles.faint } else { styles.dim };
        let line = cut(Line::styled(words, style), usize::from(inner.width));
        frame.render_widget(line, Rect { height: 1, ..inner });
    }
    if focus {
        let (top, left) = state.input.area().scroll_offset();
        let cursor = state.input.area().screen_cursor();
        let column = drawn_width(state.input.before(), cursor.col);
        let x = inner.x + (column as u16).saturating_sub(left);
        let y = inner.y + (cursor.row as u16).saturating_sub(top);
        frame.set_cursor_position(Position {
            x: x.min(inner.right() - 1),
            y: y.min(inner.bottom() - 1),
        });
    }
}

/// Cells in which the end of `before`, the text before the cursor, is drawn in the cursor's row.
/// The text area adds up the `cells` of code points; what is drawn is as wide as its characters, of
/// which an emoji can have several.
fn drawn_width(before: &str, cells: usize) -> usize {
    let mut left = cells;
    let mut begin = before.len();
    for (at, c) in before.char_indices().rev() {
        // A tab is as wide as what is before it lets it be.
        if c.is_control() {
            break;
        }
        let width = usize::from(c.encode_utf8(&mut [0; 4]).cell_width());
        if width > left || (left == 0 && begin < before.len()) {
            break;
        }
        left -= width;
        begin = at;
    }
    let drawn =
        before[begin..].graphemes(true).map(|character| usize::from(character.cell_width()));
    left + drawn.sum::<usize>()
}

/// Where keys go, if not to the message, and how they come back.
fn elsewhere(state: &ScreenState) -> Option<[String; 2]> {
    let back = state.display.keys.name(Action::Escape);
    (state.display.focus != Focus::Input).then(|| {
        let panel = state.display.focus.name();
        [format!("Keys go to {panel}"), format!("{back} returns to the message")]
    })
}

/// On the upper edge: how the slow first answer gets its full speed, or what the message is.
fn title(state: &ScreenState) -> String {
    if state.controls.first_answer.plays() {
        return " slowed for watching · any key: full speed ".to_string();
    }
    if state.input.editing.is_some() {
        let (send, leave) =
            (state.display.keys.name(Action::Send), state.display.keys.name(Action::Escape));
        return format!(" Editing a message · {send} sends it, {leave} cancels ");
    }
    match state.input.queue.len() {
        0 if state.input.commands() => " normal mode · i writes ".to_string(),
        0 => String::new(),
        waiting => format!(" {} to be sent ", figures::many(waiting, "message")),
    }
}

/// A command under the name that is being written.
fn suggested(command: &SlashCommand, state: &ScreenState, styles: &Styles) -> Line<'static> {
    let word = state.input.command_word().unwrap_or_default();
    let name = command.name_like(word).unwrap_or(command.name);
    let usage = format!("/{name} {}", command.argument);
    let own = if name == command.name { String::new() } else { format!("/{}: ", command.name) };
    Line::from_iter([
        Span::styled(format!("{usage:<25} "), styles.accent),
        Span::styled(format!("{own}{}", command.help), styles.dim),
    ])
}

/// The suggestions appear above the input.
pub(crate) fn draw_suggestions(
    frame: &mut Frame<'_>,
    areas: &Areas,
    state: &ScreenState,
    styles: &Styles,
) {
    let input = areas.input;
    let all = state.input.offered();
    if all.is_empty() || !focused(state, Focus::Input) {
        return;
    }
    let room = usize::from(input.y).saturating_sub(2);
    let rows = all.len().min(SUGGESTIONS).min(room);
    if rows == 0 || input.width < 20 {
        return;
    }
    let selected = state.input.selected();
    let top = (selected + 1).saturating_sub(rows);
    let height = rows as u16 + 2;
    let rect = Rect { y: input.y - height, height, ..input };
    areas.clear(frame, rect);
    let what = match all[0] {
        Suggestion::Command(_) => "commands",
        Suggestion::Path(_) => "files",
    };
    let title = format!(" {what} {} of {} ", selected + 1, all.len());
    let inner = framed(frame, rect, panel(title, true, styles));
    let lines = all.iter().enumerate().skip(top).take(rows).map(|(index, suggestion)| {
        let line = match suggestion {
            Suggestion::Command(command) => suggested(command, state, styles),
            Suggestion::Path(path) => {
                Line::styled(format!("@{}", printable_line(path)), styles.accent)
            }
        };
        list_row(line, index == selected, inner.width, styles)
    });
    draw_rows(frame, inner, lines);
}
