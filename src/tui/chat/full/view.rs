//! The choice that is made when the context is full. Must never make it.

use ratatui::text::{Line, Span};

use super::CHOICES;
use crate::tui::draw::rows::{hanging, list_row, wrapped};
use crate::tui::overlays::view::Page;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

/// By how much the context is too small, and what can be done.
pub(crate) fn page(state: &ScreenState, selected: usize, columns: u16, styles: &Styles) -> Page {
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
        rows.extend(wrapped(&words, columns, styles.text));
        rows.push(Line::default());
    }
    for (at, (_, name, meaning)) in CHOICES.iter().enumerate() {
        let mark = if at == selected { "❯ " } else { "  " };
        let line = Line::from_iter([
            Span::styled(mark, styles.accent),
            Span::styled(*name, styles.strong),
        ]);
        rows.push(list_row(line, at == selected, columns, styles));
        let meaning = wrapped(meaning, columns.saturating_sub(2).max(1), styles.dim);
        rows.extend(hanging(meaning, Span::raw("  ")));
    }
    let keys = &state.display.keys;
    let back = if state.chat.goes_on { "cancel" } else { "take the message back" };
    let foot = vec![
        format!("{} choose", keys.take()),
        "remembered for this chat".to_string(),
        format!("{} {back}", keys.close()),
    ];
    Page { title: "the context is full".to_string(), rows, foot, ..Page::default() }
}
