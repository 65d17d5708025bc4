//! Tables, fitted to the width of the chat: columns as wide as their widest cell where that fits,
//! else with text wrapped inside cells, else one record per row. Must never know colours.

use pulldown_cmark::Alignment;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::wrap::{Logical, wrap};
use super::{StyledSpan, TextRow, text_of};

/// A table under construction.
pub struct MarkdownTable {
    pub alignments: Vec<Alignment>,
    /// The cells of each row, the head first.
    pub rows: Vec<Vec<TextRow>>,
}

/// Between two columns.
const BETWEEN: &str = " │ ";
/// A column that has to be wrapped is at least this wide: below that, words fall apart.
const LEAST: usize = 8;

impl MarkdownTable {
    /// The table's lines for `room` columns, without what comes before them.
    pub fn lines(&self, room: usize) -> Vec<TextRow> {
        match self.widths(room) {
            Some(widths) => self.grid(&widths),
            None => self.records(),
        }
    }

    /// The columns' widths; `None` if one would be too narrow to read.
    fn widths(&self, room: usize) -> Option<Vec<usize>> {
        let columns = self.alignments.len();
        let most = |of: fn(&str) -> usize| -> Vec<usize> {
            let cells = |column: usize| self.rows.iter().filter_map(move |row| row.get(column));
            let most = |column| cells(column).map(|cell| of(&text_of(cell))).max();
            (0..columns).map(|column| most(column).unwrap_or(0).max(1)).collect()
        };
        let wanted = most(UnicodeWidthStr::width);
        let room = room.checked_sub(BETWEEN.width() * columns.saturating_sub(1))?;
        if wanted.iter().sum::<usize>() <= room {
            return Some(wanted);
        }
        // Words stay whole where there is room for that.
        let fair = room / columns.max(1);
        let words = most(longest_word);
        let whole: Vec<usize> = wanted
            .iter()
            .zip(&words)
            .map(|(&wanted, &word)| wanted.min(LEAST.max(word.min(fair))))
            .collect();
        let least: Vec<usize> = wanted.iter().map(|&wanted| wanted.min(LEAST)).collect();
        let mut widths =
            [whole, least].into_iter().find(|widths| widths.iter().sum::<usize>() <= room)?;
        // The rest goes where it is needed.
        let mut rest = room - widths.iter().sum::<usize>();
        let mut needs: usize = wanted.iter().sum::<usize>() - widths.iter().sum::<usize>();
        for (width, wanted) in widths.iter_mut().zip(&wanted) {
            let need = wanted - *width;
            let share = rest * need / needs.max(1);
            *width += share;
            rest -= share;
            needs -= need;
        }
        Some(widths)
    }

    /// Columns next to each other, a rule below the head.
    fn grid(&self, widths: &[usize]) -> Vec<TextRow> {
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        for (index, row) in self.rows.iter().enumerate() {
            let cells: Vec<Vec<TextRow>> =
                row.iter().zip(widths).map(|(cell, &width)| fit(cell, width)).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(1);
            for at in 0..height {
                let mut line = TextRow::new();
                for (column, &width) in widths.iter().enumerate() {
                    if column > 0 {
                        line.push(StyledSpan::markup(BETWEEN));
                    }
                    let part = cells.get(column).and_then(|cell| cell.get(at));
                    let part = part.map_or(&[][..], |part| part);
                    let spare = width.saturating_sub(text_of(part).width());
                    let before = match self.alignments[column] {
                        Alignment::None | Alignment::Left => 0,
                        Alignment::Center => spare / 2,
                        Alignment::Right => spare,
                    };
                    line.push(StyledSpan::markup(" ".repeat(before)));
                    line.extend_from_slice(part);
                    line.push(StyledSpan::markup(" ".repeat(spare - before)));
                }
                lines.push(line);
            }
            if index == 0 {
                let rules: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
                lines.push(vec![StyledSpan::markup(rules.join("─┼─"))]);
            }
        }
        lines
    }

    /// One record per row: each value after the head of its column, a blank line between records.
    fn records(&self) -> Vec<TextRow> {
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        if rows.is_empty() {
            // The first record is still being written.
            return head.clone();
        }
        let mut lines: Vec<TextRow> = Vec::new();
        for row in rows {
            if !lines.is_empty() {
                lines.push(TextRow::new());
            }
            for (column, value) in row.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
                let mut line = TextRow::new();
                if let Some(head) = head.get(column).filter(|head| !head.is_empty()) {
                    line.extend_from_slice(head);
                    line.push(StyledSpan::markup(": "));
                }
                line.extend_from_slice(value);
                lines.push(line);
            }
        }
        lines
    }
}

/// A cell in rows of at most `width` columns.
fn fit(cell: &TextRow, width: usize) -> Vec<TextRow> {
    wrap(&Logical { text: cell.clone(), ..Logical::default() }, width)
}

/// Columns of the longest part that is not broken between two characters. Text of wide characters
/// is broken between any two.
fn longest_word(text: &str) -> usize {
    let mut longest = 0;
    let mut word = 0;
    for grapheme in text.graphemes(true) {
        let width = grapheme.width();
        let breaks = width > 1 || grapheme.chars().all(char::is_whitespace);
        word = if breaks { 0 } else { word + width };
        longest = longest.max(word).max(width);
    }
    longest
}
