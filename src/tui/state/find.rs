//! Words that are looked for in the conversation. Must never know how rows are drawn.

/// A search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Find {
    /// In lower case.
    words: String,
    /// Whether the next frame goes to the match before the one shown.
    goes: bool,
    /// The row that was gone to.
    at: Option<usize>,
    /// How many rows have the words, as last counted.
    pub found: usize,
}

impl Find {
    /// For these words, from the end.
    pub fn new(words: &str) -> Self {
        Self { words: words.to_lowercase(), goes: true, at: None, found: 0 }
    }

    /// Whether a row has the words.
    pub fn is_in(&self, row: &str) -> bool {
        row.to_lowercase().contains(&self.words)
    }

    /// The next frame goes one match up.
    pub fn next(&mut self) {
        self.goes = true;
    }

    /// Whether a frame is to go to a match.
    pub fn goes(&self) -> bool {
        self.goes
    }

    /// The row to go to of those that have the words, ascending: the last one above the one gone to
    /// before, from the end again after the first.
    pub fn go(&mut self, rows: &[usize]) -> Option<usize> {
        self.goes = false;
        self.found = rows.len();
        let above = rows.iter().rev().find(|row| self.at.is_none_or(|at| **row < at));
        self.at = above.or(rows.last()).copied();
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_gone_to_from_the_end_and_round() {
        let mut find = Find::new("FOX");
        assert!(find.is_in("a Fox ran") && !find.is_in("a cat"));
        let rows = [3, 8, 20];
        let order: Vec<_> = (0..4).map(|_| find.go(&rows)).collect();
        assert_eq!(order, [Some(20), Some(8), Some(3), Some(20)]);
        assert_eq!((find.go(&[]), find.found), (None, 0));
    }
}
