//! Where a conversation's drafts fail: at which kind of token, how deep, and what they guessed
//! there. Must never know how it is shown.

use super::Turn;
use crate::decode::Origin;
use crate::speculate::Credits;

/// A kind of token: what people call many of them, and which display texts are of it.
type Kind = (&'static str, fn(&str) -> bool);

/// Every token is of the first kind that takes it.
const KINDS: [Kind; 6] = [
    ("numbers", |label| label.contains(|c: char| c.is_ascii_digit())),
    ("names", |label| {
        label.contains(char::is_uppercase) || label.trim().trim_matches('_').contains('_')
    }),
    ("line breaks", |label| label.contains('\n')),
    ("punctuation", |label| !label.contains(char::is_alphabetic)),
    ("parts of words", |label| !label.starts_with(' ')),
    ("plain words", |_| true),
];

/// Positions for which something was drafted, and how many of the drafts failed there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    pub all: usize,
    pub missed: usize,
}

impl Judged {
    /// The share that failed.
    pub fn share(self) -> f64 {
        self.missed as f64 / self.all.max(1) as f64
    }
}

/// Where the drafts of a conversation failed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Misses {
    pub total: Judged,
    by_kind: [Judged; KINDS.len()],
    /// Misses by depth below the root.
    by_depth: Vec<usize>,
    /// Misses by who proposed the likeliest guess there.
    pub by_source: Credits,
    /// Misses whose likeliest guess was the target's second choice.
    pub second_choice: usize,
}

impl Misses {
    /// Counts the misses in these turns.
    pub fn of(turns: &[Turn]) -> Self {
        let mut misses = Self::default();
        for minds in turns.iter().map(|turn| &turn.minds) {
            for token in minds.tokens.iter().filter(|token| token.origin != Origin::Forced) {
                let Some(guess) = token.guesses.first() else { continue };
                let missed = usize::from(!token.drafted());
                let label = minds.label(token.token);
                let kind = KINDS.iter().position(|(_, takes)| takes(label)).unwrap_or_default();
                for judged in [&mut misses.by_kind[kind], &mut misses.total] {
                    judged.all += 1;
                    judged.missed += missed;
                }
                if missed == 0 {
                    continue;
                }
                let depth = usize::from(token.depth);
                misses.by_depth.resize(misses.by_depth.len().max(depth + 1), 0);
                misses.by_depth[depth] += 1;
                misses.by_source.add(guess.sources);
                let second = token.wanted.as_ref().and_then(|wanted| wanted.top.get(1));
                let is_second = second.is_some_and(|top| top.token == guess.token);
                misses.second_choice += usize::from(is_second);
            }
        }
        misses
    }

    /// The kinds of tokens at which drafts fail much more often than on average, the worst first,
    /// at most two.
    pub fn worst(&self) -> Vec<(&'static str, Judged)> {
        /// Fewer tell nothing.
        const FEWEST: usize = 4;
        let kinds = KINDS.iter().map(|kind| kind.0).zip(self.by_kind);
        let mut worst: Vec<_> = kinds
            .filter(|(_, kind)| kind.missed >= FEWEST && kind.share() > 1.2 * self.total.share())
            .collect();
        worst.sort_by(|a, b| b.1.share().total_cmp(&a.1.share()));
        worst.truncate(2);
        worst
    }

    /// The depth at which most drafts fail.
    pub fn depth(&self) -> usize {
        let depths = self.by_depth.iter().enumerate().rev();
        depths.max_by_key(|(_, count)| **count).map_or(0, |(depth, _)| depth)
    }
}
