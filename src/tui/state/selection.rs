//! Text of the conversation that is selected with the mouse. What is selected is what is seen: a
//! row that was broken to fit is joined again, our own indentation is left out. Must never know
//! colours.

use ratatui::layout::Rect;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::turn::Turn;
use crate::tui::markdown::{SpanRole, TextRow};

/// A place in the conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPoint {
    /// The turn.
    pub turn: usize,
    /// The row of its text.
    pub row: usize,
    /// The column of it.
    pub column: usize,
}

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

    /// The columns of this row that are selected: the first and the one behind the last.
    pub fn columns(&self, turn: usize, row: usize) -> Option<(usize, usize)> {
        let (first, last) = self.ends();
        let here = (turn, row);
        if self.from == self.to || here < (first.turn, first.row) || here > (last.turn, last.row) {
            return None;
        }
        let from = if here == (first.turn, first.row) { first.column } else { 0 };
        let to = if here == (last.turn, last.row) { last.column + 1 } else { usize::MAX };
        Some((from, to))
    }
}

/// Where the rows of the conversation stand on the screen, as last drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenRows {
    /// The area; text begins `lead` columns behind its left edge.
    pub area: Rect,
    /// Columns before the text.
    pub lead: u16,
    /// The turn of each row seen and the row of its text; `None` for rows of no text.
    pub rows: Vec<(usize, Option<usize>)>,
}

impl SeenRows {
    /// The place below this cell of the screen; the nearest one for a cell beside the text. `None`
    /// if there is no text at all.
    pub fn point(&self, x: u16, y: u16) -> Option<TextPoint> {
        let at = usize::from(y.saturating_sub(self.area.y));
        let at = at.min(self.rows.len().checked_sub(1)?);
        if let (turn, Some(row)) = self.rows[at] {
            let column = usize::from(x.saturating_sub(self.area.x + self.lead));
            return Some(TextPoint { turn, row, column });
        }
        // Beside the text: the end of what stands above, else the beginning of what stands below.
        let above = self.rows[..at].iter().rev().find_map(|(turn, row)| Some((*turn, (*row)?)));
        if let Some((turn, row)) = above {
            return Some(TextPoint { turn, row, column: usize::MAX - 1 });
        }
        let below = self.rows[at..].iter().find_map(|(turn, row)| Some((*turn, (*row)?)));
        below.map(|(turn, row)| TextPoint { turn, row, column: 0 })
    }

    /// Whether the cell lies in the conversation.
    pub fn contains(&self, x: u16, y: u16) -> bool {
        self.area.contains((x, y).into())
    }
}

/// What is cut out of a row, and which bytes of the message it begins and ends with.
#[derive(Default)]
struct Cut {
    text: String,
    from: Option<usize>,
    to: Option<usize>,
}

/// The columns of a row from `from` up to `to`. Our own blanks before its text are left out; with
/// `bare` all of our own marks there are.
fn cut(row: &TextRow, from: usize, to: usize, bare: bool) -> Cut {
    let mut out = Cut::default();
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
        Some(gap) if gap.contains('\n') => "\n",
        Some(gap) if gap.contains(char::is_whitespace) => " ",
        Some(_) => "",
        None => "\n",
    }
}

/// The selected text of the turns as last laid out.
pub fn selected_text(turns: &[Turn], selection: &Selection) -> String {
    let (first, last) = selection.ends();
    let mut out = String::new();
    for (index, turn) in turns.iter().enumerate().take(last.turn + 1).skip(first.turn) {
        if index > first.turn {
            out.push_str("\n\n");
        }
        let mut end: Option<Option<usize>> = None;
        for (at, row) in turn.laid_out().iter().enumerate() {
            let Some((from, to)) = selection.columns(index, at) else { continue };
            let begins = row.iter().find_map(|piece| piece.at);
            let between = end.map(|end| joint(&turn.text, end, begins));
            let cut = cut(row, from, to, between.is_some_and(|between| between != "\n"));
            out.push_str(between.unwrap_or_default());
            out.push_str(&cut.text);
            end = Some(cut.to);
        }
    }
    out
}

/// The byte of the message below a place; `None` where there is no text.
pub fn byte_at(turn: &Turn, point: TextPoint) -> Option<usize> {
    let row = turn.laid_out().get(point.row)?;
    cut(row, point.column, point.column + 1, false).from
}

/// The first byte of the message that is selected of its first turn.
pub fn first_byte(turns: &[Turn], selection: &Selection) -> Option<(usize, usize)> {
    let (first, _) = selection.ends();
    let rows = turns.get(first.turn)?.laid_out().iter().enumerate();
    let mut cuts = rows.filter_map(|(at, row)| {
        let (from, to) = selection.columns(first.turn, at)?;
        cut(row, from, to, false).from
    });
    cuts.next().map(|byte| (first.turn, byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Message, Role};
    use proptest::prelude::*;

    fn turn(role: Role, text: &str, width: usize) -> Turn {
        let mut turn = Turn::loaded(Message::new(role, text), false);
        turn.rows(width);
        turn
    }

    fn all(turns: &[Turn]) -> String {
        let from = TextPoint::default();
        let last = turns.len() - 1;
        let to = TextPoint { turn: last, row: turns[last].laid_out().len(), column: 0 };
        selected_text(turns, &Selection { from, to, held: false })
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
            assert_eq!(selected_text(&turns, &selection), "b日本");
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
