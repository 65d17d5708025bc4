//! Lookahead decoding (Fu et al. 2024; method.md, Strategies) without a draft model: the target
//! itself iterates a window of guessed tokens next to the text, and the resulting n-grams are
//! proposed when their first token is the last committed one.
//!
//! Window and guesses form one tree below the root, so they only need the target's tree pass.
//! [`Drafter::verified`] reads what the target computes for the window. The window's rows are
//! argmaxes at any temperature, because a guess decides nothing.
//!
//! The released code caps a step at N − 1 tokens; here a guess that was right to its end keeps its
//! bonus token.

mod pool;
mod window;

use super::acceptance_stats::{AcceptanceStats, Pending};
use super::{DraftError, DraftRequest, Drafter};
use crate::speculate::{DrafterId, Noise, Tree};
use pool::NgramPool;
use window::{Window, grow};

/// N − 1: how many rows the window has, and how many tokens a guess has.
const REACH: usize = 4;
/// W: how many columns the window has.
const COLUMNS: usize = 7;
/// G: how many guesses are stored for a token, and proposed at once.
const GUESSES: usize = 7;
/// The share of γ that the window may use: only guesses are accepted, but the window makes them.
const WINDOW_SHARE: f64 = 0.6;

/// Proposes the window and the n-grams that it produced.
#[derive(Clone, Debug, Default)]
pub struct Lookahead {
    window: Window,
    pool: NgramPool,
    /// The proposed tree, and the nodes of the window's last row in it.
    pending: Pending,
    last: Vec<usize>,
    /// Nodes from this one on belong only to the window.
    guessed: usize,
    guess_stats: AcceptanceStats,
    window_stats: AcceptanceStats,
    /// How many tokens of the first row have been drawn so far.
    seeds: usize,
}

impl Lookahead {
    /// Makes the window as wide as `gamma` nodes allow, with tokens of the text.
    fn fit(&mut self, gamma: usize, text: &[u32]) {
        let share = (gamma as f64 * WINDOW_SHARE) as usize;
        let columns = (0..=COLUMNS).rev().find(|&c| Window::cost(c) < share.max(1)).unwrap_or(0);
        if columns > self.window.columns() {
            // The same ones every time.
            let seeds = &mut self.seeds;
            self.window = Window::new(columns, || {
                *seeds += 1;
                let at = Noise::new(0, *seeds).bits(0) % text.len().max(1) as u64;
                text.get(at as usize).copied().unwrap_or_default()
            });
        } else {
            self.window.narrow(columns);
        }
    }
}

impl Drafter for Lookahead {
    fn describe(&self) -> String {
        format!("lookahead, N {}, W {COLUMNS}, G {GUESSES}", REACH + 1)
    }

    fn source(&self) -> Option<DrafterId> {
        Some(DrafterId::Lookahead)
    }

    fn truncate(&mut self, len: usize) {
        self.pending.forget();
        if len == 0 {
            *self = Self::default();
        }
    }

    fn observe(&mut self, _features: &[f32], tokens: &[u32]) -> Result<(), DraftError> {
        let Self { guess_stats, window_stats, guessed, .. } = self;
        self.pending.follow(tokens, |node, right| {
            if node < *guessed { guess_stats.note(right) } else { window_stats.note(right) }
        });
        Ok(())
    }

    fn propose(&mut self, text: &[u32], request: &DraftRequest) -> Result<Tree, DraftError> {
        let gamma = request.budget.shape.gamma;
        let mut tree = Tree::root(request.root);
        self.fit(gamma, text);
        let room = gamma.saturating_sub(Window::cost(self.window.columns()));
        let log_prob = self.guess_stats.log_prob();
        for guess in self.pool.after(request.root) {
            let mut node = 0;
            for &token in guess {
                if tree.len() >= room && tree.child(node, token).is_none() {
                    break;
                }
                node = grow(&mut tree, node, token, log_prob);
            }
        }
        self.guessed = tree.len();
        self.last = self.window.lay(&mut tree, self.window_stats.log_prob());
        self.pending.wait(&tree);
        Ok(tree)
    }

    fn verified(&mut self, _text: &[u32], tree: &Tree, logits: &[f32]) {
        if !self.pending.is(tree) {
            return;
        }
        let vocab = logits.len() / tree.len();
        let Self { window, pool, last, .. } = self;
        window.advance(last, logits, vocab, |key, guess| pool.insert(key, guess));
        last.clear();
    }
}

#[cfg(test)]
mod tests;
