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
        Line::from_iter([dim(
            "  the text      the draft guesses ahead      the big model checks it",
        )]),
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
            "  6 guessed, 2 kept, 1 of its own: 3 tokens in one step instead of one.",
        )]),
        Line::from_iter([dim("  The text is what the big model alone would say; only sooner.")]),
        Line::default(),
    ];
    for (sign, words) in [
        ("γ", "tree size: tokens that are checked at once"),
        ("M", "draft blocks: layers of the draft that are in use"),
        ("k", "tree width: guesses side by side at each level"),
        ("D", "tree depth: how many tokens ahead"),
        ("τ", "tokens a step, on the mean: what speculation wins"),
    ] {
        rows.push(Line::from_iter([
            Span::styled(format!("  {sign}  "), styles.accent),
            Span::styled(words, styles.text),
        ]));
    }
    rows
}
