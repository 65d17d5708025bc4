//! A list that is filtered as one types: the words, then the rows that have them. Must never know
//! what its rows stand for.

use super::page::Page;
use crate::tui::draw::{Line, Span, Styles, ends, list_row};

/// A row of such a list.
pub trait ListRow {
    /// The words that it is found by.
    fn words(&self) -> String;
}

/// Whether `text` has every one of `words`, upper case or lower.
pub(crate) fn has_words(text: &str, words: &str) -> bool {
    let text = text.to_lowercase();
    words.to_lowercase().split_whitespace().all(|word| text.contains(word))
}

/// A list, the words it is filtered by and the row under the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilteredList<T> {
    rows: Vec<T>,
    filter: String,
    selected: usize,
}

impl<T: ListRow> FilteredList<T> {
    /// All rows, in the order in which they are shown.
    pub fn new(rows: Vec<T>) -> Self {
        Self { rows, filter: String::new(), selected: 0 }
    }

    /// How many rows there are, shown or not.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// What was typed.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// Changes the filter. Shown are the rows that have every word of it, upper case or lower.
    pub fn search(&mut self, change: impl FnOnce(&mut String)) {
        change(&mut self.filter);
        self.selected = 0;
    }

    /// The rows that fit the filter.
    pub fn shown(&self) -> Vec<&T> {
        self.rows.iter().filter(|row| has_words(&row.words(), &self.filter)).collect()
    }

    /// The row under the cursor; `None` if no row fits the filter.
    pub fn chosen(&self) -> Option<&T> {
        self.shown().get(self.selected).copied()
    }

    /// Moves the cursor, down if positive.
    pub fn select(&mut self, by: isize) {
        let last = self.shown().len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }

    /// Puts other rows in place of these; the filter stays.
    pub fn replace(&mut self, rows: Vec<T>) {
        self.rows = rows;
        self.select(0);
    }

    /// A box with it, each of its rows as `line` makes it, or `none` if no row fits the filter.
    pub(crate) fn page(
        &self,
        none: &str,
        columns: u16,
        styles: &Styles,
        line: impl Fn(&T) -> Line<'static>,
    ) -> Page {
        let shown = self.shown();
        let count = Line::styled(format!("{} of {}", shown.len(), self.len()), styles.dim);
        let words = match self.filter.as_str() {
            "" => Line::styled("type to filter", styles.dim),
            filter => Line::from_iter([
                Span::styled(filter.to_string(), styles.strong),
                Span::styled("▏", styles.accent),
            ]),
        };
        let lines = shown.iter().enumerate();
        let lines =
            lines.map(|(at, row)| list_row(line(row), at == self.selected, columns, styles));
        let mut rows: Vec<Line<'_>> = lines.collect();
        if rows.is_empty() {
            rows.push(Line::styled(none.to_string(), styles.dim));
        }
        // The box stays as high as it is with all rows.
        rows.resize(self.len().max(1), Line::default());
        let head = Some(ends(words, count, columns));
        let cursor = Some(self.selected..self.selected + 1);
        Page { head, rows, cursor, free: 2, ..Page::default() }
    }
}
