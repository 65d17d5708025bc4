//! The n-grams that past windows produced, by their first token. It must not depend on how n-grams
//! were found.

use std::collections::HashMap;

use super::REACH;

/// What followed a token in a window.
pub(super) type Ngram = [u32; REACH];

/// At most `most` guesses per token, the newest last.
#[derive(Clone, Debug)]
pub(super) struct NgramPool {
    most: usize,
    guesses: HashMap<u32, Vec<Ngram>>,
}

impl NgramPool {
    pub(super) fn new(most: usize) -> Self {
        Self { most, guesses: HashMap::new() }
    }

    /// Adds a guess after `key`, or makes it the newest if it already exists; the oldest is
    /// dropped.
    pub(super) fn insert(&mut self, key: u32, guess: Ngram) {
        let list = self.guesses.entry(key).or_default();
        list.retain(|kept| *kept != guess);
        list.push(guess);
        if list.len() > self.most {
            list.remove(0);
        }
    }

    /// The guesses after `key`, newest first.
    pub(super) fn after(&self, key: u32) -> impl Iterator<Item = &Ngram> {
        self.guesses.get(&key).into_iter().flatten().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_gives_way_and_a_repeated_one_is_the_newest() {
        let mut pool = NgramPool::new(3);
        let guess = |token| [token; REACH];
        for token in [1, 2, 3, 1, 4] {
            pool.insert(9, guess(token));
        }
        pool.insert(8, guess(5));
        assert_eq!(pool.after(9).collect::<Vec<_>>(), [&guess(4), &guess(1), &guess(3)]);
        assert_eq!(pool.after(8).count(), 1);
        assert_eq!(pool.after(7).count(), 0);
    }
}
