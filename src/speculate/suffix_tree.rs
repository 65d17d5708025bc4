//! Everything that ever followed a phrase of a growing text, with counts: a suffix tree cut at
//! [`DEPTH`] tokens.
//!
//! A suffix automaton would find matches of any length, but the counts of its states are only known
//! once the text is complete. In a tree cut at a fixed depth, every suffix that ends at the newest
//! token is a separate node, and a new token extends each of them by one step. That is O(1), and
//! the counts are always right. It takes up to [`DEPTH`] nodes per token, and tokens can be taken
//! back.

use rustc_hash::FxHashMap;

/// The longest phrase, including its continuation.
pub const DEPTH: usize = 16;

/// The node of the empty phrase.
const ROOT: u32 = 0;
/// No node: the end of a list.
const NONE: u32 = u32::MAX;

/// A phrase of the text.
#[derive(Clone, Copy, Debug)]
struct Phrase {
    /// The last token of the phrase.
    token: u32,
    /// How often it occurs in the text.
    count: u32,
    /// Its last occurrence: the position of its last token.
    last: u32,
    /// The same phrase without its first token.
    link: u32,
    /// The newest phrase that continues this one with one more token.
    first_child: u32,
    /// The next phrase that continues the same phrase.
    sibling: u32,
}

/// A continuation of a phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The token that followed.
    pub token: u32,
    /// How often.
    pub count: u32,
    /// The position of its last occurrence.
    pub last: u32,
}

/// A phrase that was found and can be continued. It is valid until the text changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    node: u32,
    /// How many of its tokens count: fewer than [`DEPTH`].
    pub length: usize,
}

/// A text with its phrases of up to [`DEPTH`] tokens.
#[derive(Clone, Debug)]
pub struct SuffixTree {
    text: Vec<u32>,
    phrases: Vec<Phrase>,
    /// From (phrase, token) to the phrase that continues it with the token.
    children: FxHashMap<(u32, u32), u32>,
    /// The suffixes of the text with fewer than [`DEPTH`] tokens, the empty one first.
    suffixes: Vec<u32>,
}

impl Default for SuffixTree {
    fn default() -> Self {
        let root =
            Phrase { token: 0, count: 0, last: 0, link: ROOT, first_child: NONE, sibling: NONE };
        let text = Vec::new();
        let children = FxHashMap::default();
        let suffixes = vec![ROOT];
        Self { text, phrases: vec![root], children, suffixes }
    }
}

impl SuffixTree {
    /// The text.
    pub fn text(&self) -> &[u32] {
        &self.text
    }

    /// Appends a token. At most `u32::MAX` tokens are accepted.
    pub fn push(&mut self, token: u32) {
        let Ok(position) = u32::try_from(self.text.len()) else { return };
        self.text.push(token);
        let mut next = Vec::with_capacity(DEPTH);
        next.push(ROOT);
        let mut link = ROOT;
        for node in std::mem::take(&mut self.suffixes) {
            let child = self.child(node, token).unwrap_or_else(|| self.add(node, token, link));
            link = child;
            let phrase = &mut self.phrases[child as usize];
            phrase.count += 1;
            phrase.last = position;
            if next.len() < DEPTH {
                next.push(child);
            }
        }
        self.suffixes = next;
    }

    /// Takes back all tokens from position `len` on.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.text.len() {
            return;
        }
        // Usually either all tokens are taken back or only a few. Rebuilding serves both, and needs
        // no second way to keep counts and newest positions right.
        let mut text = std::mem::take(&mut self.text);
        text.truncate(len);
        *self = Self::default();
        for token in text {
            self.push(token);
        }
    }

    /// The suffixes of the text that have been followed by something before, longest first.
    pub fn matches(&self) -> impl Iterator<Item = Match> + '_ {
        let found = self.suffixes.iter().enumerate().skip(1).rev();
        let found = found.map(|(length, &node)| Match { node, length });
        found.filter(|found| self.phrases[found.node as usize].first_child != NONE)
    }

    /// The phrase followed by `token`, if that occurs in the text. A phrase that becomes too long
    /// loses its first token.
    pub fn extend(&self, from: Match, token: u32) -> Option<Match> {
        let node = self.child(from.node, token)?;
        let length = from.length + 1;
        if length < DEPTH {
            return Some(Match { node, length });
        }
        Some(Match { node: self.phrases[node as usize].link, length: DEPTH - 1 })
    }

    /// What followed a phrase, in no particular order.
    pub fn continuations(&self, of: Match) -> impl Iterator<Item = Continuation> + '_ {
        let phrase = |node: u32| (node != NONE).then(|| self.phrases[node as usize]);
        let first = phrase(self.phrases[of.node as usize].first_child);
        std::iter::successors(first, move |child| phrase(child.sibling)).map(|child| Continuation {
            token: child.token,
            count: child.count,
            last: child.last,
        })
    }

    fn child(&self, node: u32, token: u32) -> Option<u32> {
        self.children.get(&(node, token)).copied()
    }

    fn add(&mut self, node: u32, token: u32, link: u32) -> u32 {
        let number = self.phrases.len() as u32;
        let sibling = std::mem::replace(&mut self.phrases[node as usize].first_child, number);
        self.phrases.push(Phrase { token, count: 0, last: 0, link, first_child: NONE, sibling });
        self.children.insert((node, token), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tree(text: &[u32]) -> SuffixTree {
        let mut tree = SuffixTree::default();
        text.iter().for_each(|&token| tree.push(token));
        tree
    }

    /// What followed `phrase` in `text`, found by direct search: token, count, last position.
    fn followed(text: &[u32], phrase: &[u32]) -> Vec<(u32, u32, u32)> {
        let mut found: Vec<(u32, u32, u32)> = Vec::new();
        for (at, window) in text.windows(phrase.len() + 1).enumerate() {
            let (last, head) = window.split_last().unwrap();
            if head == phrase {
                let position = (at + phrase.len()) as u32;
                match found.iter_mut().find(|known| known.0 == *last) {
                    Some(known) => (known.1, known.2) = (known.1 + 1, position),
                    None => found.push((*last, 1, position)),
                }
            }
        }
        found.sort_unstable();
        found
    }

    fn continuations(tree: &SuffixTree, of: Match) -> Vec<(u32, u32, u32)> {
        let found = tree.continuations(of).map(|next| (next.token, next.count, next.last));
        let mut found: Vec<_> = found.collect();
        found.sort_unstable();
        found
    }

    fn text() -> impl Strategy<Value = Vec<u32>> {
        prop_oneof![
            prop::collection::vec(0u32..3, 0..80),
            (prop::collection::vec(0u32..6, 1..25), 1usize..5).prop_map(|(part, n)| part.repeat(n)),
        ]
    }

    proptest! {
        #[test]
        fn every_suffix_knows_what_followed_it(
            text in text(), kept in any::<prop::sample::Index>(), further in text(),
        ) {
            let mut tree = tree(&text);
            let kept = kept.index(text.len() + 1);
            tree.truncate(kept);
            further.iter().for_each(|&token| tree.push(token));
            let text: Vec<u32> = text[..kept].iter().chain(&further).copied().collect();
            prop_assert_eq!(tree.text(), &text[..]);
            let mut longest_first = usize::MAX;
            let mut found = 0;
            for matched in tree.matches() {
                prop_assert!(matched.length < longest_first);
                longest_first = matched.length;
                let phrase = &text[text.len() - matched.length..];
                let want = followed(&text, phrase);
                prop_assert_eq!(continuations(&tree, matched), want.clone());
                for (token, ..) in want {
                    let mut longer = phrase.to_vec();
                    longer.push(token);
                    let further = tree.extend(matched, token).unwrap();
                    let counting = &longer[longer.len().saturating_sub(DEPTH - 1)..];
                    prop_assert_eq!(further.length, counting.len());
                    prop_assert_eq!(continuations(&tree, further), followed(&text, counting));
                }
                prop_assert!(tree.extend(matched, 99).is_none());
                found += 1;
            }
            let lengths = 1..DEPTH.min(text.len());
            let want = lengths.filter(|&n| !followed(&text, &text[text.len() - n..]).is_empty());
            prop_assert_eq!(found, want.count());
        }
    }

    #[test]
    fn memory_grows_with_the_text_alone() {
        let mut tree = tree(&(0..4000).map(|i| i * i % 977).collect::<Vec<_>>());
        assert!(tree.phrases.len() <= 4000 * DEPTH + 1);
        let before = tree.phrases.len();
        (0..4000).for_each(|_| tree.push(5));
        assert!(tree.phrases.len() <= before + 2 * DEPTH * DEPTH, "a repetition is few phrases");
    }
}
