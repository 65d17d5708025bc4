//! Words that are looked for in the conversation. Must never know how rows are drawn.

use std::ops::Range;

/// A search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Find {
    /// In lower case.
    words: String,
    /// Whether the next frame goes to the match before the one shown.
    pub goes: bool,
    /// The row that was gone to.
    pub at: Option<usize>,
}

impl Find {
    /// For these words, from the end.
    pub fn new(words: &str) -> Self {
        Self { words: words.to_lowercase(), goes: true, at: None }
    }

    /// Where a row has the words, in bytes of it.
    pub fn places(&self, row: &str) -> Vec<Range<usize>> {
        // In lower case a character may have another length.
        let mut lower = String::new();
        let mut from = Vec::new();
        for (at, character) in row.char_indices() {
            lower.extend(character.to_lowercase());
            from.resize(lower.len(), at);
        }
        from.push(row.len());
        let words = lower.match_indices(&self.words).filter(|(_, found)| !found.is_empty());
        let ends = |at: usize| {
            let last = from[at - 1];
            last + row[last..].chars().next().map_or(0, char::len_utf8)
        };
        words.map(|(at, found)| from[at]..ends(at + found.len())).collect()
    }

    /// The row to go to of those that have the words, ascending, and its number among them, from 1:
    /// the last one above the one gone to before, from the end again after the first.
    pub fn go(&mut self, rows: &[usize]) -> Option<(usize, usize)> {
        self.goes = false;
        let above = rows.iter().rposition(|row| self.at.is_none_or(|at| *row < at));
        let number = above.or(rows.len().checked_sub(1))?;
        self.at = Some(rows[number]);
        Some((rows[number], number + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_gone_to_from_the_end_and_round() {
        let mut find = Find::new("FOX");
        let rows = [3, 8, 20];
        let order: Vec<_> = (0..4).map(|_| find.go(&rows)).collect();
        assert_eq!(order, [(20, 3), (8, 2), (3, 1), (20, 3)].map(Some));
        assert_eq!(find.at, Some(20));
        assert_eq!(find.go(&[]), None);
    }

    #[test]
    fn words_are_found_in_their_place_whatever_their_case() {
        let places = |words: &str, row: &str| -> Vec<String> {
            Find::new(words).places(row).into_iter().map(|at| row[at].to_string()).collect()
        };
        assert_eq!(places("FOX", "a Fox, a fox"), ["Fox", "fox"]);
        // In lower case this letter is two characters.
        assert_eq!(places("stanb", "in İİSTANBUL"), ["STANB"]);
        assert_eq!(places("i", "İ"), ["İ"]);
        assert_eq!(places("ß", "Straße und STRASSE"), ["ß"]);
        assert!(places("cat", "a fox").is_empty() && places("", "a fox").is_empty());
    }
}
