//! The rows of thoughts, folded to one or open. Must never change them.

use ratatui::text::{Line, Span};

use super::Thought;
use crate::tui::chat::Turn;
use crate::tui::markdown::TextRow;
use crate::tui::theme::Styles;

/// Before every row, as before an answer's.
const GUTTER: &str = "   ";
/// Before every row of open thoughts.
const BAR: &str = "│ ";
/// Its columns.
pub(crate) const BAR_WIDTH: u16 = 2;

/// The rows that the thoughts of `turn` take at `width`, laid out for it; 0 if there are none.
pub(crate) fn rows(turn: &mut Turn, width: usize, open: bool) -> usize {
    if open && let Some(thought) = &mut turn.thought {
        thought.lay_out(width.saturating_sub(usize::from(BAR_WIDTH)));
    }
    laid_out(turn, open)
}

/// The same, as last laid out: one row that says how much it is, the thoughts if they are open, and
/// an empty row before the answer.
pub(crate) fn laid_out(turn: &Turn, open: bool) -> usize {
    let Some(thought) = &turn.thought else { return 0 };
    1 + shown(thought, open).len() + usize::from(!turn.text.is_empty())
}

/// Which row of the thoughts' text row `at` is; `None` for the others.
pub(crate) fn text_row(turn: &Turn, at: usize, open: bool) -> Option<usize> {
    let rows = turn.thought.as_ref().map_or(0, |thought| shown(thought, open).len());
    at.checked_sub(1).filter(|row| *row < rows)
}

/// Row `at` of them.
pub(crate) fn row(turn: &Turn, at: usize, open: bool, styles: &Styles) -> Line<'static> {
    let Some(thought) = &turn.thought else { return Line::default() };
    let writing = turn.outcome.is_none() && turn.text.is_empty();
    let rows = shown(thought, open);
    let mut line = Line::from(GUTTER);
    match at.checked_sub(1) {
        None => line.push_span(Span::styled(title(thought, writing, open), styles.dim)),
        Some(at) if at < rows.len() => {
            line.push_span(Span::styled(BAR, styles.faint));
            let text: String = rows[at].iter().map(|span| span.text.as_str()).collect();
            line.push_span(Span::styled(text, styles.dim));
        }
        Some(_) => return Line::default(),
    }
    if writing && at == rows.len() {
        line.push_span(Span::styled("▍", styles.accent));
    }
    line
}

fn shown(thought: &Thought, open: bool) -> &[TextRow] {
    if open && !thought.text.is_empty() { thought.laid_out() } else { &[] }
}

fn title(thought: &Thought, writing: bool, open: bool) -> String {
    let arrow = if open { "▾" } else { "▸" };
    let verb = if writing { "thinking" } else { "thought" };
    match thought.tokens {
        Some(1) => format!("{verb} for 1 token {arrow} "),
        Some(tokens) => format!("{verb} for {tokens} tokens {arrow} "),
        None => format!("{verb} {arrow} "),
    }
}
