//! The n-grams that past windows produced, by their first token. It must not depend on how n-grams
//! were found.

use std::collections::HashMap;

use super::{GUESSES, REACH};

/// What followed a token in a window.
pub(super) type Ngram = [u32; REACH];

/// At most [`GUESSES`] guesses per token, the newest last.
#[derive(Clone, Debug, Default)]
pub(super) struct NgramPool(HashMap<u32, Vec<Ngram>>);

impl NgramPool {
    /// Adds a guess after `key`, or makes it the newest if it already exists; the oldest is
    /// dropped.
    pub(super) fn insert(&mut self, key: u32, guess: Ngram) {
        let list = self.0.entry(key).or_default();
        list.retain(|kept| *kept != guess);
        list.push(guess);
        if list.len() > GUESSES {
            list.remove(0);
        }
    }

    /// The guesses after `key`, newest first.
    pub(super) fn after(&self, key: u32) -> impl Iterator<Item = &Ngram> {
        self.0.get(&key).into_iter().flatten().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_gives_way_and_a_repeated_one_is_the_newest() {
        let mut pool = NgramPool::default();
        let guess = |token| [token; REACH];
        for token in (0..GUESSES as u32).chain([1, 9]) {
            pool.insert(9, guess(token));
        }
        pool.insert(8, guess(5));
        let found: Vec<u32> = pool.after(9).map(|guess| guess[0]).collect();
        assert_eq!(found, [9, 1, 6, 5, 4, 3, 2]);
        assert_eq!(pool.after(8).count(), 1);
        assert_eq!(pool.after(7).count(), 0);
    }
}
