//! Text of the conversation that is selected with the mouse. What is selected is what is seen: a
//! row that was broken to fit is joined again, our own indentation is left out. Must never know
//! colours.

use ratatui::layout::Rect;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::turn::Turn;
use super::view::{ChatRow, Shows, before};
use crate::tui::markdown::{SpanRole, TextRow};

/// What a row belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TurnPart {
    /// What was thought before an answer.
    Thought,
    /// The message.
    #[default]
    Text,
}

/// A place in the conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPoint {
    pub turn: usize,
    /// Its thoughts or its text.
    pub part: TurnPart,
    pub row: usize,
    pub column: usize,
}

/// A row of a turn: of its thoughts or of its text.
pub type PartRow = (TurnPart, usize);

/// What is selected, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Where it began.
    pub from: TextPoint,
    /// Where the pointer is.
    pub to: TextPoint,
    /// Whether the button is held.
    pub held: bool,
}

impl Selection {
    /// Both ends in the order of the text.
    pub fn ends(&self) -> (TextPoint, TextPoint) {
        (self.from.min(self.to), self.from.max(self.to))
    }

    /// The columns of this row that are selected: the first and the one after the last.
    pub fn columns(&self, turn: usize, (part, row): PartRow) -> Option<(usize, usize)> {
        let (first, last) = self.ends();
        let row_of = |point: TextPoint| (point.turn, point.part, point.row);
        let here = (turn, part, row);
        if self.from == self.to || here < row_of(first) || here > row_of(last) {
            return None;
        }
        let from = if here == row_of(first) { first.column } else { 0 };
        let to = if here == row_of(last) { last.column + 1 } else { usize::MAX };
        Some((from, to))
    }
}

/// The conversation's rows on the screen, as last drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenRows {
    pub area: Rect,
    pub rows: Vec<ChatRow>,
}

impl SeenRows {
    /// The place below this cell of the screen; the nearest one for a cell next to the text. `None`
    /// if there is no text at all.
    pub fn point(&self, x: u16, y: u16) -> Option<TextPoint> {
        let at = usize::from(y.saturating_sub(self.area.y));
        let at = at.min(self.rows.len().checked_sub(1)?);
        let place = |row: &ChatRow, column| match row.shows {
            Shows::Row(part, at) => Some(TextPoint { turn: row.turn, part, row: at, column }),
            _ => None,
        };
        if let Shows::Row(part, _) = self.rows[at].shows {
            let column = x.saturating_sub(self.area.x + before(part));
            return place(&self.rows[at], usize::from(column));
        }
        // Next to the text: the end of the row above, else the beginning of the row below.
        let above = self.rows[..at].iter().rev().find_map(|row| place(row, usize::MAX - 1));
        above.or_else(|| self.rows[at..].iter().find_map(|row| place(row, 0)))
    }
}

/// What is cut out of a row, and which bytes of the message it begins and ends with.
#[derive(Default)]
struct CutRow {
    text: String,
    from: Option<usize>,
    to: Option<usize>,
}

/// The columns of a row from `from` up to `to`. Our own blanks before its text are left out; with
/// `bare` all of our own marks there are.
fn cut(row: &TextRow, from: usize, to: usize, bare: bool) -> CutRow {
    let mut out = CutRow::default();
    let mut column = 0;
    for piece in row {
        let ours = piece.at.is_none() && piece.look.role == SpanRole::Markup;
        let lead = ours && out.from.is_none() && (bare || piece.text.trim().is_empty());
        let mut inside = 0;
        for grapheme in piece.text.graphemes(true) {
            if (from..to).contains(&column) && !lead {
                out.text.push_str(grapheme);
                if let Some(at) = piece.at {
                    out.from.get_or_insert(at + inside);
                    out.to = Some(at + inside + grapheme.len());
                }
            }
            column += grapheme.width();
            inside += grapheme.len();
        }
    }
    out
}

/// What stands between two rows of `text`: nothing or a space where a line was broken to fit.
fn joint(text: &str, end: Option<usize>, begin: Option<usize>) -> &'static str {
    let gap = end.zip(begin).and_then(|(end, begin)| text.get(end..begin));
    match gap {
        Some(gap) if !gap.contains(char::is_whitespace) => "",
        Some(gap) if !gap.contains('\n') => " ",
        _ => "\n",
    }
}

/// The selected text of the turns as last laid out; `open`: thoughts are shown.
pub fn selected_text(turns: &[Turn], selection: &Selection, open: bool) -> String {
    let (first, last) = selection.ends();
    let mut parts: Vec<String> = Vec::new();
    for (index, turn) in turns.iter().enumerate().take(last.turn + 1).skip(first.turn) {
        let thought = if open { turn.thought_text() } else { None };
        let thought = thought.map(|text| (TurnPart::Thought, text));
        for (part, text) in thought.into_iter().chain([(TurnPart::Text, turn.text.as_str())]) {
            let columns = |row| selection.columns(index, (part, row));
            parts.extend(selected_part(turn.rows_of(part), text, columns));
        }
    }
    parts.join("\n\n")
}

/// The columns of `rows` that are selected, joined as `text` has them; `None` if there are none.
fn selected_part(
    rows: &[TextRow],
    text: &str,
    columns: impl Fn(usize) -> Option<(usize, usize)>,
) -> Option<String> {
    let mut out: Option<String> = None;
    let mut end = None;
    for (at, row) in rows.iter().enumerate() {
        let Some((from, to)) = columns(at) else { continue };
        let begins = row.iter().find_map(|piece| piece.at);
        let between = out.as_ref().map(|_| joint(text, end, begins));
        let cut = cut(row, from, to, between.is_some_and(|between| between != "\n"));
        let out = out.get_or_insert_default();
        out.push_str(between.unwrap_or_default());
        out.push_str(&cut.text);
        end = cut.to;
    }
    out
}

/// The byte of the message below a place; `None` where there is no text.
pub fn byte_at(turn: &Turn, point: TextPoint) -> Option<usize> {
    let rows = if point.part == TurnPart::Text { turn.rows_of(point.part) } else { &[] };
    cut(rows.get(point.row)?, point.column, point.column + 1, false).from
}

/// The first byte of the message that is selected of its first turn.
pub fn first_byte(turns: &[Turn], selection: &Selection) -> Option<(usize, usize)> {
    let (first, _) = selection.ends();
    let mut rows = turns.get(first.turn)?.rows_of(TurnPart::Text).iter().enumerate();
    rows.find_map(|(at, row)| {
        let (from, to) = selection.columns(first.turn, (TurnPart::Text, at))?;
        Some((first.turn, cut(row, from, to, false).from?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Message, Role, SavedTurn};
    use proptest::prelude::*;

    fn turn(role: Role, text: &str, width: usize) -> Turn {
        let mut turn = Turn::loaded(SavedTurn::whole(Message::new(role, text)));
        turn.lay_out(width, None);
        turn
    }

    fn all(turns: &[Turn]) -> String {
        let from = TextPoint::default();
        let last = turns.len() - 1;
        let row = turns[last].rows_of(TurnPart::Text).len();
        let to = TextPoint { turn: last, part: TurnPart::Text, row, column: 0 };
        selected_text(turns, &Selection { from, to, held: false }, false)
    }

    #[test]
    fn rows_that_were_broken_are_joined_and_paragraphs_stay_apart() {
        let text = "The quick **brown** fox jumps.\n\n- a first item\n- two\n\n```\n\
                    let x = 1234567;\n\
                    \tindented\n```";
        let shown = "The quick brown fox jumps.\n\n• a first item\n• two\n\nlet x = 1234567;\n    \
                     indented";
        for width in [12, 16, 40] {
            assert_eq!(all(&[turn(Role::Assistant, text, width)]), shown, "{width}");
        }
        let asked = turn(Role::User, "  as typed: __init__ and more", 12);
        let both = [asked, turn(Role::Assistant, "Yes.", 12)];
        assert_eq!(all(&both), "  as typed: __init__ and more\n\nYes.");
    }

    #[test]
    fn a_part_of_a_row_goes_by_columns_and_either_way() {
        let turns = [turn(Role::User, "ab日本cd", 40)];
        let point = |column| TextPoint { column, ..TextPoint::default() };
        for (from, to) in [(1, 4), (4, 1)] {
            let selection = Selection { from: point(from), to: point(to), held: false };
            assert_eq!(selected_text(&turns, &selection, false), "b日本");
            assert_eq!(first_byte(&turns, &selection), Some((0, 1)));
        }
        assert_eq!(byte_at(&turns[0], point(4)), Some(5));
        assert_eq!(byte_at(&turns[0], point(30)), None);
    }

    proptest! {
        #[test]
        fn a_message_without_marks_is_copied_as_it_is(
            text in "[a-z日é]{1,9}( [a-z日é]{1,9}){0,9}(\n[a-z]{1,30}){0,3}",
            width in 4usize..30,
        ) {
            prop_assert_eq!(all(&[turn(Role::User, &text, width)]), text);
        }
    }
}
