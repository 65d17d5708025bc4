//! Token recycling (Luo et al. 2024, arXiv 2408.08696; method.md, Strategies): the target's own
//! next tokens, stored from every pass. The paper stores them by the last token; here they are
//! stored by the last one, two and three, because what the target considered likely after the same
//! three tokens is right more often.

use rustc_hash::FxHashMap;

use crate::speculate::top_k;

/// How many next tokens are stored per context, as in the paper.
pub(super) const KEPT: usize = 8;
/// The longest context.
pub(super) const ORDERS: usize = 3;
/// The number of contexts after which the older half is forgotten: about 10 MB.
const MOST: usize = 1 << 16;
/// Stored instead of a token if the context is shorter.
const NONE: u32 = u32::MAX;

/// The last tokens of a text, the newest last.
type Context = [u32; ORDERS];

/// What the target considered likely at one place: (token, logit), likeliest first.
pub(super) type NextTokens = Vec<(u32, f32)>;

/// Next tokens by context.
#[derive(Clone, Debug, Default)]
pub(super) struct Recycled {
    newer: FxHashMap<Context, NextTokens>,
    older: FxHashMap<Context, NextTokens>,
}

/// The last `order` tokens of `text`, if it has that many.
fn context(text: &[u32], order: usize) -> Option<Context> {
    let last = &text[text.len().checked_sub(order)?..];
    let mut context = [NONE; ORDERS];
    context[ORDERS - order..].copy_from_slice(last);
    Some(context)
}

impl Recycled {
    /// Stores the best of the target's raw logits after `text`, of which the last [`ORDERS`] tokens
    /// count.
    pub(super) fn keep(&mut self, text: &[u32], logits: &[f32]) {
        let best = top_k(logits, KEPT);
        for context in (1..=ORDERS).filter_map(|order| context(text, order)) {
            if self.newer.len() >= MOST {
                self.older = std::mem::take(&mut self.newer);
            }
            self.newer.insert(context, best.clone());
        }
    }

    /// What the target considered likely after the longest known context of `text`, with that
    /// context's length.
    pub(super) fn after(&self, text: &[u32]) -> Option<(usize, &NextTokens)> {
        (1..=ORDERS).rev().find_map(|order| {
            let context = context(text, order)?;
            let found = self.newer.get(&context).or_else(|| self.older.get(&context))?;
            Some((order, found))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_known_context_answers_with_its_newest_row() {
        let mut recycled = Recycled::default();
        let row = |token: usize| {
            let mut row = vec![0.0; 20];
            row[token] = 2.0;
            row
        };
        recycled.keep(&[1, 2, 3], &row(4));
        recycled.keep(&[9, 3], &row(5));
        let best = |text: &[u32]| recycled.after(text).map(|(order, next)| (order, next[0].0));
        assert_eq!(best(&[7, 1, 2, 3]), Some((3, 4)));
        assert_eq!(best(&[2, 3]), Some((2, 4)));
        assert_eq!(best(&[9, 3]), Some((2, 5)));
        assert_eq!(best(&[8, 8, 3]), Some((1, 5)), "the newest");
        assert_eq!(best(&[3, 8]), None);
        assert_eq!(best(&[]), None);
        assert_eq!(recycled.after(&[3]).unwrap().1.len(), KEPT);
    }

    #[test]
    fn old_contexts_give_way_and_memory_is_bounded() {
        let mut recycled = Recycled::default();
        for token in 0..3 * MOST as u32 {
            recycled.keep(&[token], &[1.0]);
        }
        assert!(recycled.newer.len() + recycled.older.len() <= 2 * MOST);
        assert!(recycled.after(&[0]).is_none());
        assert!(recycled.after(&[3 * MOST as u32 - 1]).is_some());
    }
}
