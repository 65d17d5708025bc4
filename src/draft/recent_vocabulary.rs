//! Which of its tokens a small model scores: the first ones, which its tokenizer merges first and
//! which are the most frequent, and the tokens of the text with their neighbours. It must never run
//! a model.

use std::collections::BTreeMap;

use crate::model::TOKEN_GROUP;
use crate::plan::Setting;

/// The parts of the vocabulary that may be enough.
const PARTS: [usize; 3] = [8, 4, 2];
/// The fewest first tokens: fewer would hardly make a pass faster.
const LEAST: usize = 4096;
/// How many of the latest tokens decide which part is enough.
const RECENT: usize = 256;
/// A part is enough if at most so many of these tokens were not scored. In a short text that is a
/// larger share, because the control tokens of a chat and some rare words say little about the
/// rest.
const MISSING: usize = 8;

/// The scored tokens, which follow the text.
#[derive(Debug)]
pub(super) struct RecentVocabulary {
    vocab: usize,
    /// How many first tokens are scored in any case.
    first: Setting,
    /// For each token of the text, with how many first tokens it would have been scored; 0 if a
    /// token of its group had come before.
    needed: Vec<usize>,
    /// Where each group of tokens came first.
    groups: BTreeMap<u32, usize>,
}

impl RecentVocabulary {
    /// Of a model with `vocab` tokens, of which the `first` are scored in any case.
    pub(super) fn new(vocab: usize, first: Setting) -> Self {
        Self { vocab, first, needed: Vec::new(), groups: BTreeMap::new() }
    }

    /// Takes over the text in the model's tokens, of which the first `alike` are those of before.
    pub(super) fn set_text(&mut self, text: &[u32], alike: usize) {
        if alike < self.needed.len() {
            self.needed.truncate(alike);
            self.groups.retain(|_, at| *at < alike);
        }
        for (at, &token) in text.iter().enumerate().skip(self.needed.len()) {
            let group = token / TOKEN_GROUP as u32;
            let known = *self.groups.entry(group).or_insert(at) < at;
            self.needed.push(if known { 0 } else { token as usize + 1 });
        }
    }

    /// The scored groups of [`TOKEN_GROUP`] tokens, in ascending order.
    pub(super) fn groups(&self) -> impl Iterator<Item = u32> {
        let all = self.vocab.div_ceil(TOKEN_GROUP) as u32;
        let first = self.first().div_ceil(TOKEN_GROUP) as u32;
        (0..first).chain(self.groups.range(first..all).map(|(&group, _)| group))
    }

    /// How many first tokens are scored.
    pub(super) fn first(&self) -> usize {
        let recent = &self.needed[self.needed.len().saturating_sub(RECENT)..];
        let is_enough =
            |first: &usize| recent.iter().filter(|&needed| needed > first).count() <= MISSING;
        let mut parts = PARTS.iter().map(|part| (self.vocab / part).max(LEAST));
        self.first.fixed().or_else(|| parts.find(is_enough)).unwrap_or(self.vocab).min(self.vocab)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOCAB: usize = 80_000;

    fn after(text: &[u32], first: Setting) -> RecentVocabulary {
        let mut vocabulary = RecentVocabulary::new(VOCAB, first);
        vocabulary.set_text(text, 0);
        vocabulary
    }

    fn scores(vocabulary: &RecentVocabulary, token: u32) -> bool {
        vocabulary.groups().any(|group| group == token / TOKEN_GROUP as u32)
    }

    #[test]
    fn the_first_tokens_and_those_of_the_text() {
        let vocabulary = after(&[5, 70_000, 30, 70_000], Setting::Fixed(100));
        assert!(vocabulary.groups().eq([0, 1, 2, 3, 4, 5, 6, 4375]));
        assert_eq!(after(&[], Setting::Fixed(VOCAB + 99)).groups().count(), VOCAB / TOKEN_GROUP);
    }

    #[test]
    fn a_text_of_rare_tokens_widens_it_and_a_common_one_narrows_it_again() {
        let rare = |i: u32| 45_000 + 97 * i;
        let mut text: Vec<u32> = (0..300).collect();
        let mut vocabulary = after(&text, Setting::Auto);
        assert_eq!(vocabulary.first(), VOCAB / 8);
        assert_eq!(after(&[79_999, 70_000, 60_000, 1, 2], Setting::Auto).first(), VOCAB / 8);
        text.extend((0..300).map(rare));
        vocabulary.set_text(&text, 300);
        assert_eq!(vocabulary.first(), VOCAB);
        assert!(scores(&vocabulary, 79_999));
        // Tokens that came before do not count as missing.
        text.extend((0..256).map(rare));
        vocabulary.set_text(&text, 600);
        assert_eq!(vocabulary.first(), VOCAB / 8);
        assert!(scores(&vocabulary, rare(299)) && !scores(&vocabulary, 79_999));
        let middle: Vec<u32> = (0..256).map(|i| 12_000 + 16 * i).collect();
        assert_eq!(after(&middle, Setting::Auto).first(), VOCAB / 4);
    }

    #[test]
    fn a_text_that_was_rolled_back_leaves_no_trace() {
        let text: Vec<u32> = (0..500u32).map(|i| i * i % 79_000).collect();
        let mut vocabulary = after(&text, Setting::Auto);
        let other = [&text[..200], &[78_999, 12, 78_999]].concat();
        vocabulary.set_text(&other, 200);
        let fresh = after(&other, Setting::Auto);
        assert!(vocabulary.groups().eq(fresh.groups()));
        assert_eq!(vocabulary.needed, fresh.needed);
    }
}
