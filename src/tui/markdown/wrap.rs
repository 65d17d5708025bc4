//! From a logical line to rows of the screen. Works on graphemes, so that a character put together
//! from several tokens (combining marks, emoji sequences) stays one; it takes the origin of its
//! first byte. Must never know what a row says.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::{Look, StyledSpan, TextRow};
use crate::decode::Origin;
use crate::printable::printable_line;

/// Style and origin of a span.
pub type Tag = (Look, Option<Origin>);

/// One line of a block before it is fitted to the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logical {
    /// Before the first row, e.g. a bullet.
    pub first: Vec<StyledSpan>,
    /// Before every further row: as wide as `first`.
    pub rest: Vec<StyledSpan>,
    pub text: String,
    /// `(end, tag)`: the tag holds up to byte `end` of `text`. Ends rise.
    pub tags: Vec<(usize, Tag)>,
    /// `(start, at)`: from byte `start` of `text` on it is in the message from byte `at` on, up
    /// to the next entry; `None` if it is not of the message. Starts rise.
    pub sources: Vec<(usize, Option<usize>)>,
}

impl Logical {
    /// Appends text of one tag that is not of the message.
    pub fn push(&mut self, text: &str, tag: Tag) {
        self.push_from(text, tag, None);
    }

    /// Appends text of one tag that is in the message from byte `at` on.
    pub fn push_from(&mut self, text: &str, tag: Tag, at: Option<usize>) {
        if text.is_empty() {
            return;
        }
        let start = self.text.len();
        let last = self.sources.last();
        if last.is_none_or(|&(from, last)| last.map(|last| last + start - from) != at) {
            self.sources.push((start, at));
        }
        self.text.push_str(text);
        let end = self.text.len();
        match self.tags.last_mut() {
            Some(last) if last.1 == tag => last.0 = end,
            _ => self.tags.push((end, tag)),
        }
    }

    /// Appends the text of `from` with its tags.
    pub fn append(&mut self, from: &Self) {
        let mut sources = from.sources.iter().copied().peekable();
        let mut start = 0;
        let mut source = (0, None);
        for &(end, tag) in &from.tags {
            while start < end {
                while let Some(next) = sources.next_if(|next| next.0 <= start) {
                    source = next;
                }
                let to = sources.peek().map_or(end, |next| next.0.min(end));
                let at = source.1.map(|at| at + start - source.0);
                self.push_from(&from.text[start..to], tag, at);
                start = to;
            }
        }
    }
}

struct Cell {
    text: String,
    width: usize,
    tag: Tag,
    space: bool,
    /// Its place in the message.
    at: Option<usize>,
}

/// Fits `line` into rows of at most `width` columns. Always at least one row.
pub fn wrap(line: &Logical, width: usize) -> Vec<TextRow> {
    let lead: usize = line.first.iter().map(|piece| piece.text.width()).sum();
    // A prefix that leaves no room is dropped: text matters more than decoration.
    let (first, rest, room) = match width.saturating_sub(lead) {
        0 => (&[][..], &[][..], width),
        room => (&line.first[..], &line.rest[..], room),
    };
    let mut rows = Vec::new();
    let mut cells: Vec<Cell> = Vec::new();
    let mut used = 0;
    let mut finish = |cells: &mut Vec<Cell>, rest_of: Vec<Cell>| {
        let prefix = if rows.is_empty() { first } else { rest };
        rows.push(row(prefix, cells));
        *cells = rest_of;
    };
    let mut tag_at = 0;
    let mut source_at = 0;
    for (at, grapheme) in line.text.grapheme_indices(true) {
        while line.tags.get(tag_at).is_some_and(|tag| tag.0 <= at) {
            tag_at += 1;
        }
        let tag = line.tags.get(tag_at).map_or((Look::default(), None), |tag| tag.1);
        while line.sources.get(source_at + 1).is_some_and(|next| next.0 <= at) {
            source_at += 1;
        }
        let source = line.sources.get(source_at);
        let source = source.and_then(|&(from, to)| Some(to? + (at - from)));
        let text = visible(grapheme);
        let wide = text.width();
        if wide > room {
            continue;
        }
        let space = grapheme.chars().all(char::is_whitespace);
        if used + wide > room {
            if space {
                // The space at which a row breaks is not drawn.
                finish(&mut cells, Vec::new());
                used = 0;
                continue;
            }
            let cut = break_point(&cells, wide);
            let carried = cells.split_off(cut);
            finish(&mut cells, carried);
            used = cells.iter().map(|cell| cell.width).sum();
        }
        used += wide;
        cells.push(Cell { text, width: wide, tag, space, at: source });
    }
    finish(&mut cells, Vec::new());
    rows
}

/// Where to cut a full row: after the last space or next to a wide character; else at its end.
fn break_point(cells: &[Cell], next_width: usize) -> usize {
    if next_width == 2 {
        return cells.len();
    }
    let cut = cells.iter().rposition(|cell| cell.space || cell.width == 2).map_or(0, |at| at + 1);
    // Cutting a row of indentation alone would make no progress.
    if cells[..cut].iter().all(|cell| cell.space) { cells.len() } else { cut }
}

fn row(prefix: &[StyledSpan], cells: &[Cell]) -> TextRow {
    let mut row = prefix.to_vec();
    let end = cells.iter().rposition(|cell| !cell.space).map_or(0, |at| at + 1);
    for (index, cell) in cells[..end].iter().enumerate() {
        let merge = index > 0;
        match row.last_mut() {
            // A span is in the message as it is drawn.
            Some(last)
                if merge
                    && (last.look, last.origin) == cell.tag
                    && last.at.map(|at| at + last.text.len()) == cell.at =>
            {
                last.text.push_str(&cell.text);
            }
            _ => row.push(StyledSpan {
                text: cell.text.clone(),
                look: cell.tag.0,
                origin: cell.tag.1,
                at: cell.at,
            }),
        }
    }
    row
}

/// What is drawn for a grapheme: control characters never reach the terminal.
fn visible(grapheme: &str) -> String {
    match grapheme {
        "\t" => "    ".to_string(),
        other => printable_line(other).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(text: &str) -> Logical {
        let mut line = Logical::default();
        line.push(text, (Look::default(), None));
        line
    }

    fn texts(text: &str, width: usize) -> Vec<String> {
        wrap(&line(text), width)
            .iter()
            .map(|row| row.iter().map(|piece| piece.text.as_str()).collect())
            .collect()
    }

    #[test]
    fn breaks_at_words_then_at_the_edge() {
        assert_eq!(texts("the quick brown", 9), ["the quick", "brown"]);
        assert_eq!(texts("incomprehensible", 6), ["incomp", "rehens", "ible"]);
        assert_eq!(texts("", 6), [""]);
    }

    #[test]
    fn wide_characters_break_anywhere_and_stay_whole() {
        assert_eq!(texts("日本語のテキスト", 6), ["日本語", "のテキ", "スト"]);
        assert_eq!(texts("a👩‍👩‍👧b", 3), ["a👩‍👩‍👧", "b"]);
        assert_eq!(texts("日本", 1), [""]);
    }

    #[test]
    fn a_character_of_two_tokens_keeps_one_cell() {
        let mut line = Logical::default();
        line.push("e", (Look::default(), Some(Origin::Target)));
        line.push("\u{301}t", (Look::default(), Some(Origin::Accepted)));
        let rows = wrap(&line, 10);
        assert_eq!(rows[0][0].text, "e\u{301}");
        assert_eq!(rows[0][0].origin, Some(Origin::Target));
        assert_eq!(rows[0][1].text, "t");
        assert_eq!(rows[0][1].origin, Some(Origin::Accepted));
    }

    #[test]
    fn escapes_are_shown_and_not_sent() {
        assert_eq!(texts("a\u{1b}[31mb\u{202e}", 20), ["a␛[31mb\\u{202e}"]);
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
