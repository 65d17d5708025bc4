//! A list that is filtered as one types: the words, then the rows that have them. Must never know
//! what its rows stand for.

use ratatui::Frame;
use ratatui::text::{Line, Span};

use crate::tui::draw::areas::Areas;
use crate::tui::draw::frames::{Edges, WIDTH, boxed};
use crate::tui::draw::rows::{cut, draw_rows, ends};
use crate::tui::theme::Styles;

/// A row of such a list.
pub trait Listed {
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

impl<T: Listed> FilteredList<T> {
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
}

/// What stands around the rows of a list.
#[derive(Default)]
pub(crate) struct Surround {
    /// On the frame above.
    pub(crate) title: &'static str,
    /// On the frame below: what the keys do.
    pub(crate) foot: String,
    /// In the place of rows, if none fits.
    pub(crate) none: String,
    /// Below the rows, and what is written on the rule above them.
    pub(crate) below: Vec<Line<'static>>,
    pub(crate) rule: String,
}

impl<T: Listed> FilteredList<T> {
    /// Draws it, each of its rows as `line` makes it for a number of columns.
    pub(crate) fn draw(
        &self,
        frame: &mut Frame<'_>,
        areas: &Areas,
        surround: Surround,
        styles: &Styles,
        line: impl Fn(&T, u16) -> Line<'static>,
    ) {
        let Surround { title, foot, none, below, rule } = surround;
        let area = areas.column;
        let width = WIDTH.min(area.width.saturating_sub(2));
        let most = area.height.saturating_sub(4).max(4);
        let under = if below.is_empty() { 0 } else { below.len() + 1 };
        let height = u16::try_from(self.len().max(1) + 3 + under).unwrap_or(most).min(most);
        let edges = Edges { title: title.into(), foot };
        let inner = boxed(frame, areas, area, width, height, edges, styles);
        let shown = self.shown();
        let count = Line::styled(format!("{} of {}", shown.len(), self.len()), styles.dim);
        let words = match self.filter.as_str() {
            "" => Line::styled("type to filter", styles.dim),
            filter => Line::from_iter([
                Span::styled(filter.to_string(), styles.strong),
                Span::styled("▏", styles.accent),
            ]),
        };
        let mut rows = vec![ends(words, count, inner.width)];
        if shown.is_empty() {
            rows.push(Line::styled(none, styles.dim));
        }
        let fit = usize::from(inner.height).saturating_sub(1 + under).max(1);
        let top = (self.selected + 1).saturating_sub(fit);
        rows.extend(shown.into_iter().enumerate().skip(top).take(fit).map(|(index, row)| {
            let line = cut(line(row, inner.width), usize::from(inner.width));
            if index == self.selected { line.patch_style(styles.selected) } else { line }
        }));
        if under > 0 {
            let rule = format!("{rule:─>0$}", usize::from(inner.width));
            rows.resize(usize::from(inner.height).saturating_sub(under), Line::default());
            rows.push(Line::styled(rule, styles.faint));
            rows.extend(below);
        }
        draw_rows(frame, inner, rows);
    }
}
