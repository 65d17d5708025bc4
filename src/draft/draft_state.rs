//! The state of a drafting language model: the committed text in its own tokens, and a tree of
//! scratch rows after it that grows by passes over new rows only. A row that already exists is not
//! run again, even if it was drafted ahead and has been committed since. It must not depend on the
//! target.

use super::DraftError;
use crate::model::{DraftRow, SharedVocabulary, SmallLm, TargetError};
use crate::speculate::{BeamRow, Coupling, Ranking, SamplerSettings};

/// Candidates of a row as (target's token, log-probability), likeliest first.
pub(super) type RankedTokens = Vec<(u32, f32)>;

/// The minimum number of candidates stored per row, so that a slightly wider tree need not run the
/// row again.
const LEAST: usize = 16;

#[derive(Debug)]
struct DraftedRow {
    parent: Option<usize>,
    /// How many rows there are from the first level down to this one.
    depth: usize,
    /// The small model's token.
    token: u32,
    /// What may follow it.
    candidates: RankedTokens,
}

/// How candidates are ranked; rows ranked in another way are dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RankingOrder {
    width: usize,
    /// The sampler whose noise ranks them.
    coupled: Option<SamplerSettings>,
}

/// Which of our rows the scratch rows of a growing tree after `base` are.
#[derive(Debug, Default)]
pub(super) struct RowMap {
    pub(super) base: Option<usize>,
    rows: Vec<usize>,
}

impl RowMap {
    /// After a row, or after the text.
    pub(super) fn behind(base: Option<usize>) -> Self {
        Self { base, rows: Vec::new() }
    }
}

/// The small model with the text and the rows after it.
pub(super) struct DraftState {
    lm: Box<dyn SmallLm>,
    vocabulary: SharedVocabulary,
    order: RankingOrder,
    /// What is committed, in the target's tokens.
    tokens: Vec<u32>,
    /// The same in the small model's tokens.
    text: Vec<u32>,
    /// For each of the target's tokens, how much of `text` there is up to it.
    ends: Vec<usize>,
    /// The tokens in the model's cache.
    held: Vec<u32>,
    /// What may follow `held`, once it is known.
    after: Option<RankedTokens>,
    /// The rows in flight after `held`.
    rows: Vec<DraftedRow>,
    /// A buffer for a row of logits in the target's order.
    room: Vec<f32>,
}

impl DraftState {
    pub(super) fn new(lm: Box<dyn SmallLm>, vocabulary: SharedVocabulary) -> Self {
        let order = RankingOrder { width: LEAST, coupled: None };
        Self {
            lm,
            vocabulary,
            order,
            tokens: Vec::new(),
            text: Vec::new(),
            ends: Vec::new(),
            held: Vec::new(),
            after: None,
            rows: Vec::new(),
            room: Vec::new(),
        }
    }

    pub(super) fn lm(&self) -> &dyn SmallLm {
        self.lm.as_ref()
    }

    /// Takes over the committed text, in the target's tokens. The model's KV cache stays, because
    /// it may belong to the same tokens.
    pub(super) fn set_text(&mut self, tokens: &[u32]) {
        let alike = self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        self.tokens.truncate(alike);
        self.ends.truncate(alike);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
        for &token in &tokens[alike..] {
            self.tokens.push(token);
            self.vocabulary.translate(token, &mut self.text);
            self.ends.push(self.text.len());
        }
    }

    /// How many of the target's tokens are committed.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Ranks candidates for trees of `width` from now on, with the target's noise if it is given.
    pub(super) fn rank_for(&mut self, width: usize, coupling: Option<&Coupling>) {
        let coupled = coupling.map(|coupling| coupling.sampler);
        if width > self.order.width || coupled != self.order.coupled {
            self.order = RankingOrder { width: width.max(self.order.width), coupled };
            self.after = None;
            self.lm.truncate(self.held.len());
            self.rows.clear();
        }
    }

    /// Prefills what the model has not read of the text. Scratch rows that were committed since
    /// become part of it; those below the last of them stay. Does nothing if the text is longer
    /// than the model's context.
    pub(super) fn catch_up(&mut self) -> Result<(), DraftError> {
        let alike = self.held.iter().zip(&self.text).take_while(|(a, b)| a == b).count();
        if alike < self.held.len() {
            self.go_back(alike);
        }
        self.follow();
        if self.after.is_none() && self.held.len() == self.text.len() {
            // The candidates are known, but not in this order: run the last token again.
            self.go_back(self.held.len().saturating_sub(1));
        }
        let rest = &self.text[self.held.len()..];
        if rest.is_empty() || self.text.len() > self.lm.capacity() {
            return Ok(());
        }
        self.rows.clear();
        self.after = None;
        let logits = self.lm.read(rest).map_err(lost)?;
        self.held.extend_from_slice(rest);
        let position = self.ends.len();
        self.after = Some(rank(&self.vocabulary, self.order, logits, position, &mut self.room));
        Ok(())
    }

    /// Whether the model has read the whole text, so that branches can grow after it.
    pub(super) fn is_ready(&self) -> bool {
        self.after.is_some() && self.held == self.text
    }

    /// Whether there are scratch rows after the text.
    pub(super) fn has_rows(&self) -> bool {
        !self.rows.is_empty()
    }

    /// What may follow a row, or the text.
    pub(super) fn after(&self, row: Option<usize>) -> &[(u32, f32)] {
        match row {
            Some(row) => &self.rows[row].candidates,
            None => self.after.as_deref().unwrap_or_default(),
        }
    }

    /// The rows in `wanted` (each after a row or the text, with one of the target's tokens), in
    /// order; those that do not exist yet are run in one pass. `None` if there is no room for them
    /// or the model does not have such a token.
    pub(super) fn extend(
        &mut self,
        wanted: &[(Option<usize>, u32)],
    ) -> Result<Option<Vec<usize>>, DraftError> {
        let mut numbers = Vec::with_capacity(wanted.len());
        let mut fresh: Vec<DraftRow> = Vec::new();
        let mut deepest = 0;
        for &(parent, token) in wanted {
            let Some(token) = self.vocabulary.counterpart(token) else { return Ok(None) };
            numbers.push(self.find(parent, token).unwrap_or_else(|| {
                fresh.push(DraftRow { parent, token });
                deepest = deepest.max(self.depth(parent) + 1);
                self.rows.len() + fresh.len() - 1
            }));
        }
        if fresh.is_empty() {
            return Ok(Some(numbers));
        }
        let last = self.held.len() + deepest;
        if last > self.lm.capacity() || fresh.len() > self.lm.room() {
            return Ok(None);
        }
        let vocab = self.lm.vocab();
        let depths: Vec<usize> = fresh.iter().map(|row| self.depth(row.parent) + 1).collect();
        let logits = self.lm.grow(&fresh).map_err(lost)?;
        for ((row, depth), logits) in fresh.iter().zip(depths).zip(logits.chunks_exact(vocab)) {
            let &DraftRow { parent, token } = row;
            let position = self.ends.len() + depth;
            let candidates = rank(&self.vocabulary, self.order, logits, position, &mut self.room);
            self.rows.push(DraftedRow { parent, depth, token, candidates });
        }
        Ok(Some(numbers))
    }

    /// Runs the beam of a state machine that grows `grown`; returns the candidates of each row, or
    /// none if there is no room.
    pub(super) fn step(
        &mut self,
        grown: &mut RowMap,
        beam: &[BeamRow],
    ) -> Result<Vec<RankedTokens>, DraftError> {
        let row =
            |row: &BeamRow| (row.source.map_or(grown.base, |s| Some(grown.rows[s])), row.token);
        let wanted: Vec<_> = beam.iter().map(row).collect();
        let Some(rows) = self.extend(&wanted)? else { return Ok(Vec::new()) };
        grown.rows.extend(&rows);
        Ok(rows.into_iter().map(|row| self.rows[row].candidates.clone()).collect())
    }

    /// Commits the scratch rows that the text has reached.
    fn follow(&mut self) {
        let mut path = Vec::new();
        for &token in &self.text[self.held.len()..] {
            let Some(row) = self.find(path.last().copied(), token) else { break };
            path.push(row);
        }
        let Some(&last) = path.last() else { return };
        self.after = Some(std::mem::take(&mut self.rows[last].candidates));
        self.held.extend(path.iter().map(|&row| self.rows[row].token));
        let stay = self.lm.keep(&path);
        let mut rows: Vec<Option<DraftedRow>> = self.rows.drain(..).map(Some).collect();
        let number = |row: usize| stay.binary_search(&row).ok();
        self.rows = stay
            .iter()
            .filter_map(|&row| rows[row].take())
            .map(|row| DraftedRow {
                parent: row.parent.and_then(number),
                depth: row.depth - path.len(),
                ..row
            })
            .collect();
    }

    /// Rolls the model's KV cache back to `len` tokens.
    fn go_back(&mut self, len: usize) {
        self.lm.truncate(len);
        self.held.truncate(len);
        self.rows.clear();
        self.after = None;
    }

    fn find(&self, parent: Option<usize>, token: u32) -> Option<usize> {
        // Children come after their parents.
        let from = parent.map_or(0, |parent| parent + 1);
        let is = |row: &DraftedRow| row.parent == parent && row.token == token;
        self.rows[from..].iter().position(is).map(|at| from + at)
    }

    fn depth(&self, row: Option<usize>) -> usize {
        row.map_or(0, |row| self.rows[row].depth)
    }
}

/// The candidates of a row of the small model's logits for the target's token at `position`.
fn rank(
    vocabulary: &SharedVocabulary,
    order: RankingOrder,
    logits: &[f32],
    position: usize,
    room: &mut Vec<f32>,
) -> RankedTokens {
    let ranking = match order.coupled {
        // Counted from the beginning of the text, so that it does not depend on the root.
        Some(sampler) => Ranking::coupled(order.width, &Coupling { sampler, root: 0 }, position),
        None => Ranking::new(order.width),
    };
    ranking.candidates(vocabulary.in_targets_order(logits, room))
}

fn lost(error: TargetError) -> DraftError {
    DraftError::Device(error.to_string())
}
