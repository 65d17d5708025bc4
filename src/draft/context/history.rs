//! Earlier chats as a source: what followed the same phrase there, found by retrieval in a sorted
//! text. They are read once at start and do not grow; the suffix tree covers the current
//! conversation. It must not depend on files.

use crate::speculate::suffixes::{SortedText, sort};

/// The shortest meaningful phrase: two tokens occur everywhere.
const SHORTEST: usize = 3;
/// The longest phrase that is looked up.
pub(super) const LONGEST: usize = 8;
/// At how many places a continuation is looked up.
const PLACES: usize = 256;

/// The tokens of earlier chats, sorted by what follows at each place.
#[derive(Debug, Default)]
pub struct History {
    text: SortedText,
}

/// What followed a phrase.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Followed {
    /// How many tokens the phrase has.
    pub(super) length: usize,
    /// Tokens and how often they followed, the most common first.
    pub(super) next: Vec<(u32, u32)>,
}

impl History {
    /// Separates two messages; not a token of any model.
    pub const BREAK: u32 = u32::MAX;

    /// Sorts the messages of earlier chats, with [`Self::BREAK`] between them.
    pub fn new(tokens: Vec<u32>) -> Self {
        let order = sort(&tokens, |_| {});
        Self { text: SortedText { tokens, order } }
    }

    /// How many tokens it holds.
    pub fn len(&self) -> usize {
        self.text.tokens.len()
    }

    /// Whether it holds no tokens.
    pub fn is_empty(&self) -> bool {
        self.text.tokens.is_empty()
    }

    /// What followed the longest suffix of `last` that was ever followed by anything.
    pub(super) fn after(&self, last: &[u32]) -> Option<Followed> {
        let mut found = None;
        for length in SHORTEST..=LONGEST.min(last.len()) {
            let next = self.followed(&last[last.len() - length..]);
            if next.is_empty() {
                break;
            }
            found = Some(Followed { length, next });
        }
        found
    }

    fn followed(&self, phrase: &[u32]) -> Vec<(u32, u32)> {
        let ranks = self.text.find(phrase);
        let step = ranks.len().div_ceil(PLACES).max(1);
        let places = ranks.step_by(step).map(|rank| self.text.order[rank] as usize + phrase.len());
        let tokens = places.filter_map(|at| self.text.tokens.get(at));
        let mut next: Vec<(u32, u32)> = Vec::new();
        // Equal continuations are adjacent, because places are sorted by them.
        for &token in tokens.filter(|&&token| token != Self::BREAK) {
            match next.last_mut() {
                Some((last, count)) if *last == token => *count += 1,
                _ => next.push((token, 1)),
            }
        }
        next.sort_by_key(|&(token, count)| (std::cmp::Reverse(count), token));
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_known_phrase_is_continued_and_never_over_a_break() {
        let tokens = [1, 2, 3, 4, 5, History::BREAK, 9, 2, 3, 4, 6, 2, 3, 4, 6, 7, 8];
        let history = History::new(tokens.to_vec());
        assert_eq!((history.len(), history.is_empty()), (17, false));
        let after = |last: &[u32]| history.after(last).map(|found| (found.length, found.next));
        assert_eq!(after(&[2, 3, 4]), Some((3, vec![(6, 2), (5, 1)])));
        assert_eq!(after(&[1, 2, 3, 4]), Some((4, vec![(5, 1)])));
        assert_eq!(after(&[40, 2, 3, 4]), Some((3, vec![(6, 2), (5, 1)])));
        assert_eq!(after(&[3, 4, 5]), None);
        assert_eq!(after(&[3, 4]), None);
        assert_eq!(after(&[6, 7, 8]), None);
        assert!(History::default().after(&[1, 2, 3]).is_none());
    }

    #[test]
    fn a_phrase_that_is_everywhere_costs_no_more_than_its_places() {
        let tokens: Vec<u32> = (0..30_000).map(|i| if i % 4 == 3 { i % 5 } else { 7 }).collect();
        let found = History::new(tokens).after(&[7, 7, 7]).unwrap();
        let total: u32 = found.next.iter().map(|next| next.1).sum();
        assert!(found.next.len() == 5 && total as usize <= PLACES, "{found:?}");
    }
}
