//! Builds an n-gram table. For each context it adds up what the target considered likely,
//! interpolates this with what is known of the shorter context, and keeps the contexts that gain
//! the most. It must not depend on how the target was queried.

use rustc_hash::FxHashMap;

use super::{KEPT, NgramTable, ORDERS};

/// How many of the likely tokens are kept for each place.
const LIKELY: usize = 4;
/// The weight of the shorter context, in occurrences of the longer one: a single occurrence counts
/// as much as everything known of the shorter context.
const PRIOR: f32 = 1.0;
/// The probability assumed for a token that the shorter context does not list.
const UNNAMED: f32 = 1e-3;
/// The fraction of slots that are filled: a fuller table takes longer to search.
const FULL: f64 = 0.85;
/// How many times the wanted number of contexts is held before the worst are dropped.
const AHEAD: usize = 3;

/// Collects places of texts.
#[derive(Clone, Debug, Default)]
pub struct NgramBuilder {
    /// Tokens of all texts.
    tokens: Vec<u32>,
    /// Where each text begins.
    starts: Vec<usize>,
    places: Vec<NgramPlace>,
}

/// A place in a text, and what the target considered likely after it.
#[derive(Clone, Copy, Debug)]
struct NgramPlace {
    /// The position after the context's last token.
    end: usize,
    /// How many tokens of its text come before that.
    before: usize,
    /// (token, probability), likeliest first.
    likely: [(u32, f32); LIKELY],
}

/// A context that may go into the table.
#[derive(Clone, Copy, Debug)]
struct NgramEntry {
    /// How much the target's guesses gain by it over the shorter context, in nats.
    gain: f32,
    end: usize,
    order: usize,
    likely: [(u32, f32); KEPT],
}

impl NgramBuilder {
    /// Starts a text.
    pub fn begin(&mut self) {
        self.starts.push(self.tokens.len());
    }

    /// Continues the text with `token`, after which the target considered `likely`: (token,
    /// probability), likeliest first. It is empty where nothing will be drafted.
    pub fn push(&mut self, token: u32, likely: &[(u32, f32)]) {
        self.tokens.push(token);
        if likely.is_empty() {
            return;
        }
        let end = self.tokens.len();
        let before = end - self.starts.last().copied().unwrap_or_default();
        let mut kept = [(0, 0.0); LIKELY];
        for (kept, &next) in kept.iter_mut().zip(likely) {
            *kept = next;
        }
        self.places.push(NgramPlace { end, before, likely: kept });
    }

    /// How many places have been collected.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// The table of the `most` contexts that gain the most.
    pub fn table(mut self, most: usize) -> NgramTable {
        // Sorted by the last token, then by the one before, so that contexts with the same end are
        // adjacent.
        let tokens = std::mem::take(&mut self.tokens);
        let mut places = std::mem::take(&mut self.places);
        places.sort_by(|a, b| {
            let [a, b] = [a, b].map(|place| tokens[place.end - place.before..place.end].iter());
            a.rev().take(ORDERS).cmp(b.rev().take(ORDERS))
        });
        let mut found = BestNgrams { entries: Vec::new(), most: most.max(1) };
        visit(&tokens, &places, 1, &[], &mut found);
        let entries = found.best();
        let mut table = NgramTable::with_slots((entries.len() as f64 / FULL).ceil() as usize + 1);
        for NgramEntry { end, order, likely, .. } in entries {
            let known = likely.iter().take_while(|next| next.1 > 0.0).count();
            // The best contexts come first, so one that finds no room is among the least useful.
            table.put(&tokens[end - order..end], &likely[..known]);
        }
        table
    }
}

/// The best entries so far.
struct BestNgrams {
    entries: Vec<NgramEntry>,
    most: usize,
}

impl BestNgrams {
    fn push(&mut self, entry: NgramEntry) {
        self.entries.push(entry);
        if self.entries.len() > AHEAD * self.most {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        if self.entries.len() > self.most {
            let by_gain = |a: &NgramEntry, b: &NgramEntry| b.gain.total_cmp(&a.gain);
            self.entries.select_nth_unstable_by(self.most - 1, by_gain);
            self.entries.truncate(self.most);
        }
    }

    fn best(mut self) -> Vec<NgramEntry> {
        self.shorten();
        self.entries.sort_by(|a, b| b.gain.total_cmp(&a.gain).then(a.end.cmp(&b.end)));
        self.entries
    }
}

/// Adds the contexts of `order` tokens of `places`, which share their last `order` − 1 tokens and
/// after which `shorter` is likely, and all longer contexts.
fn visit(
    tokens: &[u32],
    places: &[NgramPlace],
    order: usize,
    shorter: &[(u32, f32)],
    found: &mut BestNgrams,
) {
    let token = |place: &NgramPlace| (place.before >= order).then(|| tokens[place.end - order]);
    for group in places.chunk_by(|a, b| token(a) == token(b)) {
        let Some(first) = group.first().filter(|first| token(first).is_some()) else { continue };
        let (likely, gain) = likely(group, shorter);
        let mut kept = [(0, 0.0); KEPT];
        for (kept, &next) in kept.iter_mut().zip(&likely) {
            *kept = next;
        }
        if gain > 0.0 {
            found.push(NgramEntry { gain, end: first.end, order, likely: kept });
        }
        if order < ORDERS {
            visit(tokens, group, order + 1, &likely, found);
        }
    }
}

/// What is likely in all of `group`, interpolated with the shorter context, likeliest first, and
/// how much it gains over that.
fn likely(group: &[NgramPlace], shorter: &[(u32, f32)]) -> (Vec<(u32, f32)>, f32) {
    let mut sums: FxHashMap<u32, f32> = FxHashMap::default();
    for &(token, probability) in group.iter().flat_map(|place| &place.likely) {
        if probability > 0.0 {
            *sums.entry(token).or_default() += probability;
        }
    }
    let count = group.len() as f32;
    let prior = if shorter.is_empty() { 0.0 } else { PRIOR };
    let mut all: FxHashMap<u32, f32> =
        sums.iter().map(|(&token, sum)| (token, sum / (count + prior))).collect();
    for &(token, probability) in shorter {
        *all.entry(token).or_default() += probability * prior / (count + prior);
    }
    let mut all: Vec<(u32, f32)> = all.into_iter().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let known = |token: u32| {
        let found = shorter.iter().take(KEPT).find(|(other, _)| *other == token);
        found.map_or(UNNAMED, |next| next.1.max(UNNAMED))
    };
    let gains = all.iter().take(KEPT).map(|&(token, probability)| {
        let said = sums.get(&token).copied().unwrap_or_default();
        said * (probability / known(token)).ln()
    });
    let gain = gains.sum();
    // Enough tokens for longer contexts to build on.
    all.truncate(8 * KEPT);
    (all, gain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts in which the target is certain of every next token.
    fn built(texts: &[&[u32]], most: usize) -> NgramTable {
        let mut builder = NgramBuilder::default();
        for text in texts {
            builder.begin();
            for (at, &token) in text.iter().enumerate() {
                let next = text.get(at + 1).map(|&next| (next, 1.0));
                builder.push(token, next.as_slice());
            }
        }
        builder.table(most)
    }

    fn best(table: &NgramTable, text: &[u32]) -> Option<(usize, u32, f32)> {
        table.after(text).map(|(order, likely)| (order, likely[0].0, likely[0].1.exp()))
    }

    #[test]
    fn a_longer_context_is_kept_where_it_says_something_else() {
        let table = built(&[&[1, 2, 3], &[5, 2, 4], &[6, 2, 4], &[7, 2, 4]], 100);
        // After 2 mostly comes 4; after 1, 2 always 3.
        let (order, token, _) = best(&table, &[9, 2]).unwrap();
        assert_eq!((order, token), (1, 4));
        let (order, token, probability) = best(&table, &[1, 2]).unwrap();
        assert_eq!((order, token), (2, 3));
        // Half from its only occurrence, half from what follows 2.
        assert!((probability - (0.5 + 0.5 * 0.25)).abs() < 0.05, "{probability}");
    }

    #[test]
    fn a_text_does_not_go_on_in_the_next() {
        let table = built(&[&[1, 2], &[3, 4]], 100);
        assert_eq!(best(&table, &[2]), None);
        assert_eq!(best(&table, &[2, 3]).unwrap().0, 1);
    }

    #[test]
    fn of_too_many_contexts_those_stay_that_tell_most() {
        let often: Vec<u32> = (0..200).map(|i| i % 2).collect();
        let table = built(&[&often, &[7, 8], &[8, 9]], 2);
        assert_eq!(table.len(), 2);
        assert_eq!(best(&table, &[0]).unwrap().1, 1);
        assert_eq!(best(&table, &[1]).unwrap().1, 0);
        assert_eq!(best(&table, &[7]), None);
    }

    #[test]
    fn what_the_target_held_likely_counts_beside_what_it_said() {
        let mut builder = NgramBuilder::default();
        for _ in 0..2 {
            builder.begin();
            builder.push(1, &[(2, 0.6), (3, 0.3), (4, 0.05), (5, 0.03), (6, 0.02)]);
            builder.push(2, &[]);
        }
        assert_eq!(builder.places(), 2);
        let (order, likely) = builder.table(9).after(&[1]).unwrap();
        assert_eq!((order, likely.len()), (1, KEPT));
        assert_eq!(likely.iter().map(|next| next.0).collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert!((likely[1].1.exp() - 0.3).abs() < 0.02);
    }

    #[test]
    fn the_table_is_the_same_again() {
        // Random, so that there are more contexts than fit in the table.
        let mut drawn = 1u32;
        let mut next = || {
            drawn = drawn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (drawn >> 16) % 12
        };
        let text: Vec<u32> = (0..3000).map(|_| next()).collect();
        assert_eq!(built(&[&text], 500), built(&[&text], 500));
        // A few may find no room.
        assert!(built(&[&text], 500).len() >= 490);
    }
}
