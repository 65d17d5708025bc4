//! A list that is filtered as one types. Must never know what its rows stand for.

pub(crate) mod view;

/// A row of such a list.
pub trait Listed {
    /// The words that it is found by.
    fn words(&self) -> String;
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
        let filter = self.filter.to_lowercase();
        let fits = |row: &&T| {
            let words = row.words().to_lowercase();
            filter.split_whitespace().all(|word| words.contains(word))
        };
        self.rows.iter().filter(fits).collect()
    }

    /// Place of the cursor among the rows shown.
    pub fn selected(&self) -> usize {
        self.selected
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
