//! A text whose positions are sorted by what follows at each of them, so that two binary searches
//! find everything that ever followed a phrase.
//!
//! It is a suffix array sorted by only the first [`DEPTH`] tokens, because no longer phrase is
//! looked up. Four doublings of linear time build it, even for a text full of repetitions, and
//! positions that agree in these tokens stay in the order of the text.

use std::ops::Range;

/// By how many tokens positions are sorted, which is the longest phrase that can be looked up.
pub const DEPTH: usize = 16;

/// A text with its positions sorted by the [`DEPTH`] tokens from each position on; the end of the
/// text sorts before any token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SortedText {
    /// The text.
    pub tokens: Vec<u32>,
    /// Its positions as [`sort`] orders them.
    pub order: Vec<u32>,
}

impl SortedText {
    /// The ranks in `order` of all positions at which `phrase` occurs; at most [`DEPTH`] of its
    /// tokens count.
    pub fn find(&self, phrase: &[u32]) -> Range<usize> {
        let phrase = &phrase[..phrase.len().min(DEPTH)];
        let compare = |&position: &u32| {
            let here = &self.tokens[position as usize..];
            here[..here.len().min(phrase.len())].cmp(phrase)
        };
        let start = self.order.partition_point(|position| compare(position).is_lt());
        let length = self.order[start..].partition_point(|position| compare(position).is_eq());
        start..start + length
    }
}

/// The positions of `text` in sorted order; `done` is called with the progress, 0 to 1. Needs 16
/// bytes per token in addition to the result. Tokens beyond `u32::MAX` are not sorted.
pub fn sort(text: &[u32], mut done: impl FnMut(f32)) -> Vec<u32> {
    let text = &text[..text.len().min(u32::MAX as usize)];
    // The ranks of the first tokens: their places in the sorted list of tokens that occur.
    let mut used = text.to_vec();
    used.sort_unstable();
    used.dedup();
    let ranks = text.iter().map(|token| used.partition_point(|other| other < token) as u32);
    let mut ranks: Vec<u32> = ranks.collect();
    let mut order: Vec<u32> = (0..text.len() as u32).collect();
    order = by_rank(&order, &ranks, used.len());
    let mut classes = used.len();
    let mut sorted = 1;
    while sorted < DEPTH && classes < text.len() {
        done(sorted as f32 / DEPTH as f32);
        // Sorted by the second half first (a position without one sorts first), then, stably, by
        // the first half.
        let short = (text.len().saturating_sub(sorted)..text.len()).map(|at| at as u32);
        let long = order.iter().filter_map(|&at| at.checked_sub(sorted as u32));
        let by_second: Vec<u32> = short.chain(long).collect();
        order = by_rank(&by_second, &ranks, classes);
        (ranks, classes) = refine(&order, &ranks, sorted);
        sorted *= 2;
    }
    done(1.0);
    order
}

/// `positions` stably sorted by their ranks, which are below `classes`.
fn by_rank(positions: &[u32], ranks: &[u32], classes: usize) -> Vec<u32> {
    let mut starts = vec![0u32; classes + 1];
    for &rank in ranks {
        starts[rank as usize + 1] += 1;
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    let mut sorted = vec![0; positions.len()];
    for &position in positions {
        let start = &mut starts[ranks[position as usize] as usize];
        sorted[*start as usize] = position;
        *start += 1;
    }
    sorted
}

/// The ranks by twice as many tokens as in `ranks`, which is `sorted` tokens, and how many there
/// are. `order` is already sorted by the new ranks.
fn refine(order: &[u32], ranks: &[u32], sorted: usize) -> (Vec<u32>, usize) {
    let key = |at: u32| (ranks[at as usize], ranks.get(at as usize + sorted));
    let mut finer = vec![0; ranks.len()];
    let mut last = 0;
    for pair in order.windows(2) {
        last += u32::from(key(pair[0]) != key(pair[1]));
        finer[pair[1] as usize] = last;
    }
    let classes = if order.is_empty() { 0 } else { last as usize + 1 };
    (finer, classes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(tokens: &[u32]) -> SortedText {
        SortedText { tokens: tokens.to_vec(), order: sort(tokens, |_| {}) }
    }

    /// Texts of few tokens, with long repetitions, or of anything.
    fn text() -> impl Strategy<Value = Vec<u32>> {
        prop_oneof![
            prop::collection::vec(0u32..3, 0..200),
            prop::collection::vec(prop::num::u32::ANY, 0..60),
            (prop::collection::vec(0u32..4, 1..20), 1usize..12)
                .prop_map(|(part, n)| part.repeat(n)),
        ]
    }

    proptest! {
        #[test]
        fn positions_are_sorted_by_their_next_tokens_and_then_as_they_stand(text in text()) {
            let mut want: Vec<u32> = (0..text.len() as u32).collect();
            want.sort_by_key(|&at| text[at as usize..].iter().take(DEPTH).collect::<Vec<_>>());
            prop_assert_eq!(sort(&text, |_| {}), want);
        }

        #[test]
        fn a_phrase_is_found_wherever_it_stands(
            text in text(), at: prop::sample::Index, length in 0usize..=DEPTH, other in 0u32..4,
        ) {
            let start = if text.is_empty() { 0 } else { at.index(text.len()) };
            let mut phrase: Vec<u32> = text[start..].iter().copied().take(length).collect();
            for _ in 0..2 {
                let store = sorted(&text);
                let mut found = store.order[store.find(&phrase)].to_vec();
                found.sort_unstable();
                let stands = |&at: &u32| text[at as usize..].starts_with(&phrase);
                prop_assert_eq!(found, (0..text.len() as u32).filter(stands).collect::<Vec<_>>());
                // And a phrase that may not occur at all.
                phrase.truncate(DEPTH - 1);
                phrase.push(other);
            }
        }
    }

    #[test]
    fn progress_rises_to_the_end() {
        let mut reported = Vec::new();
        sort(&[1; 100], |done| reported.push(done));
        assert!(reported.is_sorted() && reported.len() == 5 && reported[4] == 1.0, "{reported:?}");
    }
}
