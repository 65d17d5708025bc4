//! Everything that ever followed a phrase of a growing text, with how often: a suffix tree cut at
//! [`DEPTH`] tokens.
//!
//! A suffix automaton would find matches of any length, but the counts of its states can only be
//! known once the text is complete. Cut at a depth, every suffix that ends at the newest token is a
//! node of its own, and a token costs one step of each of them: O(1), and the counts are always
//! right. It takes up to [`DEPTH`] nodes a token, and tokens can be taken back.

use rustc_hash::FxHashMap;

/// Longest phrase, its continuation included.
pub const DEPTH: usize = 16;

/// The node of the empty phrase.
const ROOT: u32 = 0;
/// No node: the end of a list.
const NONE: u32 = u32::MAX;

/// A phrase of the text.
#[derive(Clone, Copy, Debug)]
struct Phrase {
    /// Its last token.
    token: u32,
    /// How often it stands in the text.
    count: u32,
    /// Where it stood last: the position of its last token.
    last: u32,
    /// The same without its first token.
    link: u32,
    /// The phrase that goes on with one more token, the newest first.
    first_child: u32,
    /// The next that goes on from the same phrase.
    sibling: u32,
}

/// A continuation of a phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The token that followed.
    pub token: u32,
    /// How often.
    pub count: u32,
    /// Where it stood last.
    pub last: u32,
}

/// A phrase that was found, to be continued. It is good until the text changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    node: u32,
    /// Its tokens, as far as they count: below [`DEPTH`].
    pub length: usize,
}

/// A text with its phrases of up to [`DEPTH`] tokens.
#[derive(Clone, Debug)]
pub struct SuffixTree {
    text: Vec<u32>,
    phrases: Vec<Phrase>,
    /// (phrase, token) to the phrase that goes on with the token.
    children: FxHashMap<(u32, u32), u32>,
    /// The suffixes of the text of fewer than [`DEPTH`] tokens, the empty one first.
    suffixes: Vec<u32>,
}

impl Default for SuffixTree {
    fn default() -> Self {
        let root =
            Phrase { token: 0, count: 0, last: 0, link: ROOT, first_child: NONE, sibling: NONE };
        let (text, children, suffixes) = (Vec::new(), FxHashMap::default(), vec![ROOT]);
        Self { text, phrases: vec![root], children, suffixes }
    }
}

impl SuffixTree {
    /// The text.
    pub fn text(&self) -> &[u32] {
        &self.text
    }

    /// Appends a token. At most `u32::MAX` are taken.
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
        // What is taken back is often all of it or little; rebuilding serves both and needs no
        // second way to keep counts and newest positions right.
        let mut text = std::mem::take(&mut self.text);
        text.truncate(len);
        *self = Self::default();
        text.into_iter().for_each(|token| self.push(token));
    }

    /// The suffixes of the text that have been followed by something before, longest first.
    pub fn matches(&self) -> impl Iterator<Item = Match> + '_ {
        let found = self.suffixes.iter().enumerate().skip(1).rev();
        let found = found.map(|(length, &node)| Match { node, length });
        found.filter(|found| self.phrases[found.node as usize].first_child != NONE)
    }

    /// A phrase with `token` behind it, if that stands in the text. One that becomes too long goes
    /// on without its first token.
    pub fn extend(&self, from: Match, token: u32) -> Option<Match> {
        let node = self.child(from.node, token)?;
        let length = from.length + 1;
        if length < DEPTH {
            return Some(Match { node, length });
        }
        Some(Match { node: self.phrases[node as usize].link, length: DEPTH - 1 })
    }

    /// What followed a phrase, in no order.
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

    /// What followed `phrase` in `text`, by looking: token, count, last position.
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
