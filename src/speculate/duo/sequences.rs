//! Growing k sequences of γ/k tokens behind a text, as a state machine that a drafter drives in
//! the way it drives [`crate::speculate::Growth`].
//!
//! The paper makes one sequence after the other. Here those that are known grow together, a row
//! each in one pass, so that the draft's weights are read γ/k + 1 times and not γ − k + 1; the rows
//! and the tokens are the same.

use super::count::{count, divisor};
use crate::speculate::{BeamRow, Tree};

/// Sequences while they grow.
#[derive(Clone, Debug)]
pub struct Sequences {
    gamma: usize,
    /// Candidates for the first tokens, likeliest first.
    first: Vec<(u32, f32)>,
    chains: Vec<Chain>,
    /// Whether k is known; until then only the best sequence grows.
    counted: bool,
    /// The rows of the next pass, and the chain that each belongs to.
    beam: Vec<BeamRow>,
    members: Vec<usize>,
    /// Rows run so far.
    rows: usize,
}

#[derive(Clone, Debug)]
struct Chain {
    /// Tokens with their log-probabilities.
    tokens: Vec<(u32, f32)>,
    /// Scratch rows of those that were run.
    rows: Vec<usize>,
}

impl Chain {
    fn new(first: (u32, f32)) -> Self {
        Self { tokens: vec![first], rows: Vec::new() }
    }
}

impl Sequences {
    /// Sequences of `gamma` tokens in all: `fixed` of them, or as many as [`count`] says (either
    /// way made a divisor of γ). `first` are the candidates for the token after the text:
    /// (token, log-probability), likeliest first, as [`crate::speculate::top_log_probs`] gives them
    /// for [`super::MOST_SEQUENCES`]; fewer make fewer sequences.
    pub fn new(gamma: usize, fixed: Option<usize>, first: &[(u32, f32)]) -> Self {
        let first: Vec<_> = first.iter().copied().filter(|(_, p)| p.is_finite()).collect();
        let mut sequences = Self {
            gamma,
            chains: Vec::new(),
            counted: false,
            beam: Vec::new(),
            members: Vec::new(),
            rows: 0,
            first,
        };
        if gamma > 0 {
            sequences.chains.extend(sequences.first.first().map(|&best| Chain::new(best)));
        }
        match fixed {
            Some(k) => sequences.split(k),
            None if gamma <= 1 => sequences.split(1),
            // Two tokens of the best one tell how many there shall be.
            None => {}
        }
        sequences.close();
        sequences
    }

    /// The rows of the next draft pass, the first beam's behind the text's last; empty when all is
    /// grown. Of each row the likeliest token after it is wanted.
    pub fn beam(&self) -> &[BeamRow] {
        &self.beam
    }

    /// Takes the candidates of each row of [`Self::beam`], likeliest first. A row without any (or a
    /// missing one) ends its sequence.
    pub fn expand(&mut self, candidates: &[Vec<(u32, f32)>]) {
        let members = std::mem::take(&mut self.members);
        for (i, &member) in members.iter().enumerate() {
            let chain = &mut self.chains[member];
            chain.rows.push(self.rows + i);
            let best = candidates.get(i).and_then(|row| row.first()).copied();
            chain.tokens.extend(best.filter(|(_, log_prob)| log_prob.is_finite()));
        }
        self.rows += members.len();
        if !self.counted && !members.is_empty() {
            let first: Vec<f32> = self.first.iter().map(|&(_, log_prob)| log_prob).collect();
            let second = self.chains.first().and_then(|best| best.tokens.get(1));
            let second = second.map_or(f32::NEG_INFINITY, |&(_, log_prob)| log_prob);
            self.split(count(&first, second));
        }
        self.close();
    }

    /// k; 1 while it is not known.
    pub fn count(&self) -> usize {
        self.chains.len().max(1)
    }

    /// Draft rows run for it, that of the text's last token not counted.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The sequences so far, best first, each of at most γ/k tokens with their log-probabilities.
    pub fn so_far(&self) -> impl Iterator<Item = &[(u32, f32)]> {
        let length = self.length();
        self.chains.iter().map(move |chain| &chain.tokens[..chain.tokens.len().min(length)])
    }

    /// The sequences so far as the branches of a tree under `end`, the text's last token; best
    /// first, each of at most γ/k tokens. May be called before the beam is empty, when time is up.
    pub fn finish(&self, end: u32) -> Tree {
        let mut tree = Tree::root(end);
        for sequence in self.so_far() {
            sequence
                .iter()
                .fold(0, |parent, &(token, log_prob)| tree.push(parent, token, log_prob));
        }
        tree
    }

    /// Tokens a sequence may have.
    fn length(&self) -> usize {
        self.gamma / self.count()
    }

    /// Fixes k at the divisor of γ no larger than `wanted`, as far as there are first tokens.
    fn split(&mut self, wanted: usize) {
        let k = divisor(self.gamma, wanted.min(self.first.len()));
        let others = self.first.iter().take(k).skip(self.chains.len());
        self.chains.extend(others.map(|&first| Chain::new(first)));
        self.counted = true;
    }

    /// Chooses the rows of the next pass: the last token of every sequence that may be longer.
    fn close(&mut self) {
        let length = self.length();
        // A row's token is the last of its chain only while that token was not run.
        let growing =
            |chain: &Chain| chain.tokens.len() < length && chain.rows.len() < chain.tokens.len();
        let members = self.chains.iter().enumerate().filter(|(_, chain)| growing(chain));
        self.members = members.map(|(i, _)| i).collect();
        let row = |&member: &usize| {
            let chain = &self.chains[member];
            let (token, _) = chain.tokens[chain.rows.len()];
            BeamRow { token, source: chain.rows.last().copied(), ancestors: chain.rows.clone() }
        };
        self.beam = self.members.iter().map(row).collect();
    }
}
