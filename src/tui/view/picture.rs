//! A picture of one round of speculative decoding, in plain words, with the names of its figures.
//! Must never know the state.

use ratatui::text::{Line, Span};

use crate::tui::theme::Styles;

/// The rows of the picture.
pub(super) fn lines(styles: &Styles) -> Vec<Line<'static>> {
    let dim = |words: &'static str| Span::styled(words, styles.dim);
    let faint = |words: &'static str| Span::styled(words, styles.faint);
    let kept = |words: &'static str| Span::styled(words, styles.accepted);
    let lost = |words: &'static str| Span::styled(words, styles.rejected);
    let own = |words: &'static str| Span::styled(words, styles.target);
    let text = |words: &'static str| Span::styled(words, styles.text);
    let mut rows = vec![
        Line::from_iter([dim("  the text      the draft guesses ahead      the target checks it")]),
        Line::from_iter([
            faint("                ┌ "),
            kept("little"),
            faint(" ── "),
            kept("fox"),
            faint(" ── "),
            lost("who"),
            text("      little "),
            kept("●"),
            text("  fox "),
            kept("●"),
            text("  who "),
            lost("×"),
        ]),
        Line::from_iter([
            text("  there was a "),
            faint("──┼ "),
            lost("big"),
            faint(" ─ "),
            lost("bear"),
            text("               its own next token: "),
            own("that ◆"),
        ]),
        Line::from_iter([faint("                └ "), lost("red")]),
        Line::default(),
        Line::from_iter([dim(
            "  6 guessed, 2 right, 1 of the target's own: 3 tokens in one round, not 1.",
        )]),
        Line::from_iter([dim(
            "  The text is exactly what the target writes alone; it only comes sooner.",
        )]),
        Line::default(),
    ];
    for (sign, words) in [
        ("γ", "tree size: tokens that the target checks in one pass"),
        ("M", "draft blocks: layers of the draft in use"),
        ("k", "tree width: guesses at each level"),
        ("D", "tree depth: tokens guessed ahead"),
        ("τ", "average tokens per round; above 1 is the gain"),
    ] {
        rows.push(Line::from_iter([
            Span::styled(format!("  {sign}  "), styles.accent),
            Span::styled(words, styles.text),
        ]));
    }
    rows
}
