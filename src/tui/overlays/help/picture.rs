//! A picture of one round of speculative decoding with the names of its figures, in plain words.
//! Must never know the state.

use crate::tui::draw::{Line, Span, Styles, hanging, wrapped};

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

/// A draft tree in front of what the target makes of it, and below each row its styles.
const TREE: [&str; 6] = [
    "              ┌ little ── fox ── who      little ●  fox ●  who ×",
    "ffffffffffffffffaaaaaaffffaaaffffrrrtttttttttttttattttttattttttr",
    "there was a ──┼ big ─ bear               its own next token: that ◆",
    "ttttttttttttffffrrrfffrrrrtttttttttttttttttttttttttttttttttttoooooo",
    "              └ red",
    "ffffffffffffffffrrr",
];

fn drawing(styles: &Styles) -> Vec<Line<'static>> {
    let cell = |(cell, style): (char, char)| {
        let style = match style {
            'a' => styles.accepted,
            'f' => styles.faint,
            'o' => styles.target,
            'r' => styles.rejected,
            _ => styles.text,
        };
        Span::styled(cell.to_string(), style)
    };
    let head = "the text      the draft guesses ahead      the target checks it";
    let mut rows = vec![Line::from(Span::styled(head, styles.dim))];
    for pair in TREE.chunks(2) {
        rows.push(pair[0].chars().zip(pair[1].chars()).map(cell).collect());
    }
    rows.push(Line::default());
    rows
}
