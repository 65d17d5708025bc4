//! Growing k sequences of γ/k tokens after a text, as a state machine that a drafter drives like
//! [`crate::speculate::Growth`].
//!
//! The paper makes one sequence after the other. Here the known sequences grow together, one row
//! each in a pass, so that the draft's weights are read γ/k + 1 times instead of γ − k + 1; the
//! rows and the tokens are the same.

use super::count::{count, divisor};
use crate::speculate::BeamRow;

/// Sequences while they grow.
#[derive(Clone, Debug)]
pub struct Sequences {
    gamma: usize,
    /// Candidates for the first tokens, likeliest first.
    first: Vec<(u32, f32)>,
    chains: Vec<Chain>,
    /// Whether k is known; until then only the best sequence grows.
    counted: bool,
    /// The rows of the next pass, and the chain of each row.
    beam: Vec<BeamRow>,
    members: Vec<usize>,
    /// How many rows have been run so far.
    rows: usize,
}

#[derive(Clone, Debug)]
struct Chain {
    /// Tokens with their log-probabilities.
    tokens: Vec<(u32, f32)>,
    /// The scratch rows of the tokens that were run.
    rows: Vec<usize>,
}

impl Chain {
    fn new(first: (u32, f32)) -> Self {
        Self { tokens: vec![first], rows: Vec::new() }
    }
}

impl Sequences {
    /// Sequences of `gamma` tokens in all: `fixed` of them, or as many as [`count`] returns (in
    /// both cases rounded to a divisor of γ). `first` are the candidates for the token after the
    /// text: (token, log-probability), likeliest first, as [`crate::speculate::top_log_probs`]
    /// returns them for [`super::MOST_SEQUENCES`]; fewer candidates make fewer sequences.
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
            // Two tokens of the best sequence decide how many there will be.
            None => {}
        }
        sequences.close();
        sequences
    }

    /// The rows of the next draft pass, the first beam's after the text's last token; empty when
    /// everything is grown. For each row, the caller finds the likeliest next token.
    pub fn beam(&self) -> &[BeamRow] {
        &self.beam
    }

    /// Takes the candidates of each row of [`Self::beam`], likeliest first. A row without
    /// candidates (or a missing one) ends its sequence.
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

    /// How many draft rows were run, without that of the text's last token.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The sequences so far, best first, each of at most γ/k tokens with their log-probabilities.
    pub fn so_far(&self) -> impl Iterator<Item = &[(u32, f32)]> {
        let length = self.length();
        self.chains.iter().map(move |chain| &chain.tokens[..chain.tokens.len().min(length)])
    }

    /// How many tokens a sequence may have.
    fn length(&self) -> usize {
        self.gamma / self.count()
    }

    /// Sets k to the largest divisor of γ that is not above `wanted`, as far as there are first
    /// tokens.
    fn split(&mut self, wanted: usize) {
        let k = divisor(self.gamma, wanted.min(self.first.len()));
        let others = self.first.iter().take(k).skip(self.chains.len());
        self.chains.extend(others.map(|&first| Chain::new(first)));
        self.counted = true;
    }

    /// Chooses the rows of the next pass: the last token of every sequence that may grow longer.
    fn close(&mut self) {
        let length = self.length();
        // A row's token is the last of its chain only until it has been run.
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
