//! From a logical line to rows of the screen. Works on graphemes, so that a character put together
//! from several tokens (combining marks, emoji sequences) stays one; it takes the origin of its
//! first byte. Must never know what a row says.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::{StyledSpan, TextRow, text_of};
use crate::printable::printable_line;

/// One line of a block before it is fitted to the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logical {
    /// Before the first row, e.g. a bullet.
    pub first: TextRow,
    /// Before every further row.
    pub rest: TextRow,
    pub text: TextRow,
    /// The addresses of the images in it.
    pub images: Vec<String>,
}

impl From<StyledSpan> for Logical {
    fn from(span: StyledSpan) -> Self {
        Self { text: vec![span], ..Self::default() }
    }
}

/// One grapheme.
struct Cell {
    span: StyledSpan,
    width: usize,
    space: bool,
}

/// Fits `line` into rows of at most `width` columns. Always at least one row.
pub fn wrap(line: &Logical, width: usize) -> Vec<TextRow> {
    // A prefix that leaves no room is dropped: text matters more than decoration.
    let fit = |prefix: &[StyledSpan]| width.saturating_sub(text_of(prefix).width());
    let [first, rest] = [&line.first, &line.rest].map(|prefix| match fit(prefix) {
        0 => (&[][..], width),
        room => (&prefix[..], room),
    });
    let mut cells = cells(&line.text);
    cells.retain(|cell| cell.width <= first.1.min(rest.1));
    let mut rows = Vec::new();
    let mut start = 0;
    loop {
        let (prefix, room) = if rows.is_empty() { first } else { rest };
        let mut used = 0;
        let full = cells[start..].iter().position(|cell| {
            used += cell.width;
            used > room
        });
        let Some(next) = full.map(|full| start + full) else {
            rows.push(row(prefix, &cells[start..]));
            return rows;
        };
        // The space at which a row breaks is not drawn.
        let space = cells[next].space;
        let end = if space { next } else { break_point(&cells, start, next) };
        rows.push(row(prefix, &cells[start..end]));
        start = if space { next + 1 } else { end };
    }
}

fn cells(text: &[StyledSpan]) -> Vec<Cell> {
    let whole = text_of(text);
    let mut spans = text.iter().peekable();
    let mut begin = 0;
    let cell = |(at, grapheme): (usize, &str)| {
        while let Some(ended) = spans.next_if(|span| begin + span.text.len() <= at) {
            begin += ended.text.len();
        }
        let of = spans.peek()?;
        // Control characters never reach the terminal.
        let text = match grapheme {
            "\t" => "    ".to_string(),
            other => printable_line(other).into_owned(),
        };
        let width = text.width();
        let space = grapheme.chars().all(char::is_whitespace);
        let place = of.at.map(|place| place + at - begin);
        let span = StyledSpan { text, look: of.look, origin: of.origin, at: place };
        Some(Cell { span, width, space })
    };
    whole.grapheme_indices(true).filter_map(cell).collect()
}

/// Where to cut the row from `start` that has no room for the cell `next`: after the last space or
/// next to a wide character; else at its end.
fn break_point(cells: &[Cell], start: usize, next: usize) -> usize {
    if cells[next].width == 2 {
        return next;
    }
    let row = &cells[start..next];
    let cut = row.iter().rposition(|cell| cell.space || cell.width == 2).map_or(0, |at| at + 1);
    // Cutting a row of indentation alone would make no progress.
    if row[..cut].iter().all(|cell| cell.space) { next } else { start + cut }
}

fn row(prefix: &[StyledSpan], cells: &[Cell]) -> TextRow {
    let mut spans = TextRow::new();
    let end = cells.iter().rposition(|cell| !cell.space).map_or(0, |at| at + 1);
    for Cell { span, .. } in &cells[..end] {
        match spans.last_mut() {
            // A span is in the message as it is drawn.
            Some(last)
                if (last.look, last.origin) == (span.look, span.origin)
                    && last.at.map(|at| at + last.text.len()) == span.at =>
            {
                last.text.push_str(&span.text);
            }
            _ => spans.push(span.clone()),
        }
    }
    prefix.iter().cloned().chain(spans).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Origin;
    use proptest::prelude::*;

    fn texts(text: &str, width: usize) -> Vec<String> {
        wrap(&StyledSpan::plain(text, None).into(), width).iter().map(|row| text_of(row)).collect()
    }

    #[test]
    fn rows_break_at_words_then_at_the_edge_and_wide_characters_stay_whole() {
        for (text, width, rows) in [
            ("the quick brown", 9, &["the quick", "brown"][..]),
            ("incomprehensible", 6, &["incomp", "rehens", "ible"]),
            ("", 6, &[""]),
            ("日本語のテキスト", 6, &["日本語", "のテキ", "スト"]),
            ("a👩‍👩‍👧b", 3, &["a👩‍👩‍👧", "b"]),
            ("日本", 1, &[""]),
            // Escapes are shown and not sent.
            ("a\u{1b}[31mb\u{202e}", 20, &["a␛[31mb\\u{202e}"]),
        ] {
            assert_eq!(texts(text, width), rows);
        }
    }

    #[test]
    fn a_character_of_two_tokens_keeps_one_cell() {
        let token = |text, origin| StyledSpan { origin, ..StyledSpan::plain(text, None) };
        let target = Some(Origin::Target);
        let accepted = Some(Origin::Accepted);
        let text = vec![token("e", target), token("\u{301}t", accepted)];
        let rows = wrap(&Logical { text, ..Logical::default() }, 10);
        assert_eq!(rows, [[token("e\u{301}", target), token("t", accepted)]]);
    }

    proptest! {
        #[test]
        fn rows_fit_and_lose_only_spaces(text in "[a-z 日é👍]{0,60}", width in 2usize..20) {
            let rows = texts(&text, width);
            for row in &rows {
                prop_assert!(row.width() <= width);
            }
            let bare = |s: &str| s.chars().filter(|c| *c != ' ').collect::<String>();
            prop_assert_eq!(bare(&rows.concat()), bare(&text));
        }
    }
}
