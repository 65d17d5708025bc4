//! A picture of one round of speculative decoding with the names of its figures, in plain words.
//! Must never know the state.

use ratatui::text::{Line, Span};

use crate::tui::draw::rows::{hanging, wrapped};
use crate::tui::theme::Styles;

/// Columns of the drawing.
const DRAWING: u16 = 74;

/// The rows of the picture; one that is too narrow for the drawing has the words alone.
pub(crate) fn lines(columns: u16, styles: &Styles) -> Vec<Line<'static>> {
    let mut rows = if columns >= DRAWING { drawing(styles) } else { Vec::new() };
    for words in [
        "6 guessed, 2 right, 1 of the target's own: 3 tokens in one round, not 1.",
        "The text is exactly what the target writes alone; it only comes sooner.",
    ] {
        rows.extend(wrapped(words, columns, styles.dim));
    }
    rows.push(Line::default());
    for (sign, words) in [
        ("γ", "tree size: tokens that the target checks in one pass"),
        ("M", "draft blocks: layers of the draft in use"),
        ("k", "tree width: guesses at each level"),
        ("D", "tree depth: tokens guessed ahead"),
        ("τ", "average tokens per round; above 1 is the gain"),
    ] {
        let words = wrapped(words, columns.saturating_sub(3).max(1), styles.text);
        rows.extend(hanging(words, Span::styled(format!("{sign}  "), styles.accent)));
    }
    rows
}

/// A draft tree in front of what the target makes of it.
fn drawing(styles: &Styles) -> Vec<Line<'static>> {
    let dim = |words: &'static str| Span::styled(words, styles.dim);
    let faint = |words: &'static str| Span::styled(words, styles.faint);
    let accepted = |words: &'static str| Span::styled(words, styles.accepted);
    let rejected = |words: &'static str| Span::styled(words, styles.rejected);
    let own = |words: &'static str| Span::styled(words, styles.target);
    let text = |words: &'static str| Span::styled(words, styles.text);
    vec![
        Line::from(dim("the text      the draft guesses ahead      the target checks it")),
        Line::from_iter([
            faint("              ┌ "),
            accepted("little"),
            faint(" ── "),
            accepted("fox"),
            faint(" ── "),
            rejected("who"),
            text("      little "),
            accepted("●"),
            text("  fox "),
            accepted("●"),
            text("  who "),
            rejected("×"),
        ]),
        Line::from_iter([
            text("there was a "),
            faint("──┼ "),
            rejected("big"),
            faint(" ─ "),
            rejected("bear"),
            text("               its own next token: "),
            own("that ◆"),
        ]),
        Line::from_iter([faint("              └ "), rejected("red")]),
        Line::default(),
    ]
}
