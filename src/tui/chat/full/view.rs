//! The choice that is made when the context is full. Must never make it.

use ratatui::Frame;
use ratatui::text::{Line, Span};

use super::CHOICES;
use crate::tui::draw::areas::Areas;
use crate::tui::draw::frames::WIDTH;
use crate::tui::draw::frames::{Edges, boxed};
use crate::tui::draw::rows::{draw_rows, foot, hanging, list_row, wrapped};
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
    let room = width.saturating_sub(4).max(1);
    let mut rows = Vec::new();
    if let Some(context) = state.chat.refused {
        let used = context.used;
        let holds = context.holds;
        let words = match state.chat.goes_on {
            true => format!(
                "The conversation has {used} tokens, and the context holds {holds}: the answer has \
                 no room to continue."
            ),
            false => format!(
                "With this message the conversation has {used} tokens; the context holds {holds}."
            ),
        };
        rows.extend(wrapped(&words, room, styles.text));
        rows.push(Line::default());
    }
    for (at, (_, name, meaning)) in CHOICES.iter().enumerate() {
        let mark = if at == selected { "❯ " } else { "  " };
        let line = Line::from_iter([
            Span::styled(mark, styles.accent),
            Span::styled(*name, styles.strong),
        ]);
        rows.push(list_row(line, at == selected, room, styles));
        let meaning = wrapped(meaning, room.saturating_sub(2).max(1), styles.dim);
        rows.extend(hanging(meaning, Span::raw("  ")));
    }
    let height = u16::try_from(rows.len() + 2).unwrap_or(u16::MAX);
    let take = state.display.keys.take();
    let close = state.display.keys.close();
    let back = if state.chat.goes_on { "cancel" } else { "take the message back" };
    let parts = [
        format!("{take} choose"),
        "remembered for this chat".to_string(),
        format!("{close} {back}"),
    ];
    let edges = Edges { title: " the context is full ".into(), foot: foot(&parts, width) };
    let inner = boxed(frame, areas, area, width, height, edges, styles);
    draw_rows(frame, inner, rows);
}
