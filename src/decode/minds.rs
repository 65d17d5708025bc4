//! What the target wanted and the draft guessed for every token of an answer, kept small enough for
//! all answers of a conversation. Must never know how it is shown.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Committed, Guess, Origin, Round};
use crate::speculate::{Filter, Logprobs};

/// Guesses that are not among the target's likeliest tokens, at most.
const OTHER_GUESSES: usize = 3;

/// A token of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenMinds {
    /// Token id.
    pub token: u32,
    /// Where it came from.
    pub origin: Origin,
    /// Bytes of the answer's text up to its end.
    end: u32,
    /// What the target thought of its position; its labels are in [`BothMinds`].
    pub wanted: Option<Box<Logprobs>>,
    /// What the draft proposed for its position, likeliest first.
    pub guesses: Box<[Guess]>,
    /// How many tokens of its round it is after the root; 0 for the first of an answer, which no
    /// round drafts.
    pub depth: u16,
}

impl TokenMinds {
    /// Whether the draft proposed it.
    pub fn drafted(&self) -> bool {
        self.guesses.iter().any(|guess| guess.token == self.token)
    }

    /// The target's likeliest tokens, then the one that was taken and the draft's guesses, where
    /// they are not among those.
    pub fn rows(&self) -> Vec<MindRow> {
        let row = |token, target| {
            let guess = self.guesses.iter().find(|guess| guess.token == token);
            let draft = guess.map(|guess| guess.logprob.probability());
            MindRow { token, target, draft, cut: None, penalised: false }
        };
        let top = self.wanted.as_ref().map_or(&[][..], |wanted| &wanted.top);
        let likeliest = top.iter().map(|likely| MindRow {
            cut: likely.cut,
            penalised: likely.penalised,
            ..row(likely.token, Some(likely.logprob.probability()))
        });
        let mut rows: Vec<MindRow> = likeliest.collect();
        let is_top = |token: u32| top.iter().any(|likely| likely.token == token);
        if !is_top(self.token) {
            let target = self.wanted.as_ref().map(|wanted| wanted.logprob.probability());
            rows.push(row(self.token, target));
        }
        let others = self.guesses.iter().map(|guess| guess.token);
        let others = others.filter(|&token| !is_top(token) && token != self.token);
        rows.extend(others.take(OTHER_GUESSES).map(|token| row(token, None)));
        rows
    }

    /// How surprising it was to the target, in bits.
    pub fn bits(&self) -> Option<f64> {
        self.wanted.as_ref().map(|wanted| wanted.logprob.bits())
    }
}

/// A token that was wanted or guessed in the place of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MindRow {
    /// Token id.
    pub token: u32,
    /// The target's probability; `None` if it is unknown.
    pub target: Option<f64>,
    /// The draft's; `None` if it did not propose the token.
    pub draft: Option<f64>,
    /// Why it could not be drawn; `None` if it could.
    pub cut: Option<Filter>,
    /// Whether a penalty changed its logit.
    pub penalised: bool,
}

/// The tokens of an answer.
#[derive(Clone, Debug, Default)]
pub struct BothMinds {
    /// In order.
    pub tokens: Vec<TokenMinds>,
    labels: BTreeMap<u32, Box<str>>,
    /// The target that wrote them, by name.
    pub target: String,
    /// Whether there is text before the first of them, whose tokens are not known.
    lacks_beginning: bool,
}

impl BothMinds {
    /// Appends tokens of a round, or the first of an answer, to a text of `begin` bytes. `thought`:
    /// there are thoughts already.
    pub fn push(
        &mut self,
        tokens: &[Committed],
        round: Option<&Round>,
        mut end: usize,
        thought: bool,
    ) {
        self.lacks_beginning |= self.tokens.is_empty() && (end > 0 || thought);
        // A character that was cut in two comes whole with these.
        for token in self.tokens.iter_mut().rev().take_while(|token| token.end as usize > end) {
            token.end = end as u32;
        }
        for (at, said) in tokens.iter().enumerate() {
            end += said.text.len();
            let guesses = round.map(|round| round.guesses(at)).unwrap_or_default();
            for (guess, label) in &guesses {
                self.label_as(guess.token, label);
            }
            let wanted = said.logprobs.clone().map(|mut wanted| {
                let labels = std::mem::take(&mut wanted.labels);
                for (token, label) in wanted.tokens(said.token).zip(labels) {
                    self.label_as(token, &label);
                }
                wanted
            });
            self.tokens.push(TokenMinds {
                token: said.token,
                origin: said.origin,
                end: end as u32,
                wanted,
                guesses: guesses.into_iter().map(|(guess, _)| guess).collect(),
                depth: if round.is_some() { at as u16 + 1 } else { 0 },
            });
        }
    }

    fn label_as(&mut self, token: u32, label: &str) {
        self.labels.entry(token).or_insert_with(|| label.into());
    }

    /// Display text of a token; empty if it is not known.
    pub fn label(&self, token: u32) -> &str {
        self.labels.get(&token).map_or("", |label| label)
    }

    /// The token that wrote byte `at` of the text.
    pub fn token_at(&self, at: usize) -> Option<usize> {
        // The text before the first token has none.
        let is_before = self.lacks_beginning && at < self.bytes(0).end;
        let token = self.tokens.partition_point(|token| token.end as usize <= at);
        (token < self.tokens.len() && !is_before).then_some(token)
    }

    /// The bytes of the text that token `at` wrote.
    pub fn bytes(&self, at: usize) -> Range<usize> {
        let end = |at: usize| self.tokens.get(at).map_or(0, |token| token.end as usize);
        at.checked_sub(1).map_or(0, end)..end(at)
    }

    /// Who wrote each piece of these bytes of the text, in order and without gaps; `None` for text
    /// whose tokens are not known.
    pub fn origins(
        &self,
        bytes: Range<usize>,
    ) -> impl Iterator<Item = (Range<usize>, Option<Origin>)> {
        let first = self.tokens.partition_point(|token| token.end as usize <= bytes.start);
        let written = move |at: usize| {
            let is_known = at > 0 || !self.lacks_beginning;
            (self.bytes(at), is_known.then_some(self.tokens[at].origin))
        };
        let end = self.tokens.last().map_or(0, |token| token.end as usize);
        (first..self.tokens.len())
            .map(written)
            .chain([(end..usize::MAX, None)])
            // Those behind would cost as much as the rest of the answer.
            .take_while(move |(piece, _)| piece.start < bytes.end)
            .map(move |(piece, origin)| {
                (piece.start.max(bytes.start)..piece.end.min(bytes.end), origin)
            })
            .filter(|(piece, _)| !piece.is_empty())
    }

    /// The next token with a text of its own after `from` (`by` 1), or the one before it (-1);
    /// without `from`, the first or the last one.
    pub fn step(&self, from: Option<usize>, by: i8) -> Option<usize> {
        let written = |at: &usize| !self.bytes(*at).is_empty();
        match by {
            1.. => (from.map_or(0, |from| from + 1)..self.tokens.len()).find(written),
            _ => (0..from.unwrap_or(self.tokens.len())).rev().find(written),
        }
    }

    /// Whether all tokens of the answer are known, so that it can be begun again with them.
    pub fn is_whole(&self) -> bool {
        !self.lacks_beginning
    }

    /// Forgets the tokens from number `at` on.
    pub fn truncate(&mut self, at: usize) {
        self.tokens.truncate(at);
    }
}
