//! The draft vocabulary: which of the target's tokens a head scores, if it does not score all of
//! them (EAGLE-3; method.md, Draft vocabulary). It owns the map from the head's ids to the
//! target's. It must not depend on how the tokens were chosen.

use std::sync::Arc;

use super::Candidates;
use crate::kernels::Pool;
use crate::speculate::Ranking;

/// The tokens that a head scores: row i of its LM head is for token `tokens()[i]` of the target.
///
/// A smaller vocabulary makes each draft row cheaper. A token outside of it is never proposed, and
/// if the target chooses such a token, the round ends there; any token can still be the head's
/// input. The text does not depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftVocabulary {
    /// Ascending.
    tokens: Arc<[u32]>,
}

impl DraftVocabulary {
    /// These tokens of the target, in any order.
    pub fn new(mut tokens: Vec<u32>) -> Self {
        tokens.sort_unstable();
        tokens.dedup();
        Self { tokens: tokens.into() }
    }

    /// The first `count` ids of a vocabulary of `vocab` tokens, and the tokens in `also` (those
    /// that end a turn). The first ids are the first merges of a BPE tokenizer and so the most
    /// frequent tokens.
    pub fn first(count: usize, vocab: usize, also: &[u32]) -> Self {
        let first = 0..count.min(vocab) as u32;
        let also = also.iter().copied().filter(|&token| (token as usize) < vocab);
        Self::new(first.chain(also).collect())
    }

    /// The `most` tokens of a vocabulary of `vocab` that occur most often in `text` (lower ids win
    /// ties), and the tokens in `also` (those that end a turn). A token that does not occur is not
    /// included.
    pub fn of_text(text: &[u32], most: usize, vocab: usize, also: &[u32]) -> Self {
        let mut counts = vec![0u64; vocab];
        for &token in text {
            if let Some(count) = counts.get_mut(token as usize) {
                *count += 1;
            }
        }
        let occurs = |token: &u32| counts[*token as usize] > 0;
        let mut order: Vec<u32> = (0..vocab as u32).filter(occurs).collect();
        order.sort_by_key(|&token| std::cmp::Reverse(counts[token as usize]));
        order.truncate(most);
        order.extend(also.iter().filter(|&&token| (token as usize) < vocab));
        Self::new(order)
    }

    /// The tokens of a checkpoint's `d2t`: token i of the head is i + d2t\[i\] of the target, in
    /// ascending order.
    ///
    /// # Errors
    /// What is wrong, if its tokens do not ascend or are outside of a vocabulary of `vocab` tokens.
    pub(crate) fn from_offsets(d2t: &[i64], vocab: usize) -> Result<Self, String> {
        let mut tokens: Vec<u32> = Vec::with_capacity(d2t.len());
        for (id, offset) in (0i64..).zip(d2t) {
            let token = id.checked_add(*offset).and_then(|token| u32::try_from(token).ok());
            let token = token.filter(|&token| (token as usize) < vocab);
            match (token, tokens.last()) {
                (Some(token), last) if last.is_none_or(|&last| last < token) => tokens.push(token),
                _ => {
                    return Err(format!(
                        "`d2t` maps the head's token {id} by {offset}; the target's tokens must \
                         be in rising order and below {vocab}"
                    ));
                }
            }
        }
        Ok(Self { tokens: tokens.into() })
    }

    /// The `d2t` of a checkpoint.
    pub(crate) fn offsets(&self) -> Vec<i64> {
        (0i64..).zip(self.tokens.iter()).map(|(id, &token)| i64::from(token) - id).collect()
    }

    /// The target's tokens by the head's ids, ascending.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Whether the head scores this token of the target.
    pub fn contains(&self, token: u32) -> bool {
        self.tokens.binary_search(&token).is_ok()
    }
}

/// The candidates of each row of `logits`, `[rows, scored]`, of the scored tokens if not of all.
pub(super) fn ranked(
    pool: &Pool,
    logits: &[f32],
    scored: usize,
    vocabulary: Option<&DraftVocabulary>,
    ranking: &Ranking,
) -> Candidates {
    let mut candidates = vec![Vec::new(); logits.len() / scored];
    pool.chunks(&mut candidates, 1, |row, candidates| {
        let logits = &logits[row * scored..(row + 1) * scored];
        candidates[0] = match vocabulary.map(DraftVocabulary::tokens) {
            None => ranking.candidates(logits),
            Some(tokens) => ranking.candidates_among(logits, |id| tokens[id as usize]),
        };
    });
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn offsets_say_the_same(tokens in prop::collection::vec(0u32..5000, 1..200)) {
            let vocabulary = DraftVocabulary::new(tokens.clone());
            let read = DraftVocabulary::from_offsets(&vocabulary.offsets(), 5000);
            prop_assert_eq!(read.as_ref(), Ok(&vocabulary));
            prop_assert!(tokens.iter().all(|&token| vocabulary.contains(token)));
            prop_assert!(vocabulary.tokens().iter().all(|token| tokens.contains(token)));
        }
    }

    #[test]
    fn offsets_that_fall_or_leave_the_vocabulary_are_refused() {
        for (d2t, id) in [(vec![3, 3, 1], 2), (vec![3, 2], 1), (vec![0, 99], 1), (vec![-1], 0)] {
            let error = DraftVocabulary::from_offsets(&d2t, 100).unwrap_err();
            assert!(error.contains(&format!("the head's token {id} by")), "{error}");
        }
        assert!(DraftVocabulary::from_offsets(&[i64::MAX, i64::MAX], 100).is_err());
    }

    #[test]
    fn what_occurs_most_often_in_a_text() {
        let text = [5, 5, 5, 2, 2, 9, 9, 1, 40];
        assert_eq!(DraftVocabulary::of_text(&text, 3, 10, &[7, 12]).tokens(), [2, 5, 7, 9]);
        assert_eq!(DraftVocabulary::of_text(&text, 2, 10, &[]).tokens(), [2, 5]);
        // Those outside of the vocabulary and those that never occur are left out.
        assert_eq!(DraftVocabulary::of_text(&text, 99, 10, &[]).tokens(), [1, 2, 5, 9]);
        assert!(DraftVocabulary::of_text(&[], 9, 10, &[]).is_empty());
    }

    #[test]
    fn the_first_merges_and_the_end_of_a_turn() {
        let vocabulary = DraftVocabulary::first(3, 10, &[1, 7, 10]);
        assert_eq!(vocabulary.tokens(), [0, 1, 2, 7]);
        assert_eq!(DraftVocabulary::first(30, 10, &[]).len(), 10);
    }
}
