//! The state of a drafting language model: the committed text in its own tokens, and a tree of
//! scratch rows after it that grows by passes over new rows only. A row that already exists is not
//! run again, even if it was drafted ahead and has been committed since. It must not depend on the
//! target.

use super::recent_vocabulary::RecentVocabulary;
use super::scratch_tree::{RankedTokens, RowMap, ScratchTree};
use super::{DraftError, is_set};
use crate::model::{SharedVocabulary, SmallLm, TOKEN_GROUP, TargetError};
use crate::plan::Setting;
use crate::speculate::{BeamRow, Coupling, Ranking, SamplerSettings};
use std::sync::atomic::AtomicBool;

/// The minimum number of candidates stored per row, so that a slightly wider tree need not run the
/// row again.
const LEAST: usize = 16;

/// How many tokens of a prompt are read at once while the target may be waiting.
const SLICE: usize = 32;

/// How candidates are ranked; rows ranked in another way are dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RankingOrder {
    width: usize,
    /// The sampler whose noise ranks them.
    coupled: Option<SamplerSettings>,
}

/// The small model with the text and the rows after it.
pub(super) struct DraftState {
    lm: Box<dyn SmallLm>,
    vocabulary: SharedVocabulary,
    /// Which tokens are scored; `None` is all.
    recent: Option<RecentVocabulary>,
    /// The scored groups of tokens; empty if all tokens are scored.
    scored: Vec<u32>,
    order: RankingOrder,
    /// What is committed, in the target's tokens.
    tokens: Vec<u32>,
    /// The same in the small model's tokens.
    text: Vec<u32>,
    /// For each of the target's tokens, how much of `text` there is up to it.
    ends: Vec<usize>,
    /// The tokens in the model's cache.
    held: Vec<u32>,
    /// What may follow `held` and the rows in flight after it, once that is known.
    scratch: Option<ScratchTree>,
    /// A buffer for a row of logits in the target's order.
    room: Vec<f32>,
}

impl DraftState {
    pub(super) fn new(lm: Box<dyn SmallLm>, vocabulary: SharedVocabulary) -> Self {
        let order = RankingOrder { width: LEAST, coupled: None };
        Self {
            lm,
            vocabulary,
            recent: None,
            scored: Vec::new(),
            order,
            tokens: Vec::new(),
            text: Vec::new(),
            ends: Vec::new(),
            held: Vec::new(),
            scratch: None,
            room: Vec::new(),
        }
    }

    /// Scores the `first` tokens and those of the text from now on, if the model can leave out
    /// tokens.
    pub(super) fn score_first(&mut self, first: Setting) {
        self.recent = Some(RecentVocabulary::new(self.lm.vocab(), first));
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
        let alike_text = self.ends.last().copied().unwrap_or(0);
        self.text.truncate(alike_text);
        for &token in &tokens[alike..] {
            self.tokens.push(token);
            self.vocabulary.translate(token, &mut self.text);
            self.ends.push(self.text.len());
        }
        let Some(recent) = &mut self.recent else { return };
        recent.set_text(&self.text, alike_text);
        // Rows in flight keep the candidates that they have.
        if recent.groups().ne(self.scored.iter().copied()) {
            let groups: Vec<u32> = recent.groups().collect();
            if self.lm.score(&groups) {
                self.scored = groups;
            }
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
            self.scratch = None;
        }
    }

    /// Prefills what the model has not read of the text. Scratch rows that were committed since
    /// become part of it; those below the last of them stay. Does nothing if the text is longer
    /// than the model's context.
    pub(super) fn catch_up(&mut self) -> Result<(), DraftError> {
        self.catch_up_until(None)
    }

    /// The same in slices, the last of which is the one during which `stop` is set.
    pub(super) fn catch_up_until(&mut self, stop: Option<&AtomicBool>) -> Result<(), DraftError> {
        let alike = self.held.iter().zip(&self.text).take_while(|(a, b)| a == b).count();
        if alike < self.held.len() {
            self.go_back(alike);
        }
        self.follow();
        if self.scratch.is_none() && self.held.len() == self.text.len() {
            // The candidates are known, but not in this order: run the last token again.
            self.go_back(self.held.len().saturating_sub(1));
        }
        let rest = &self.text[self.held.len()..];
        if rest.is_empty() || self.text.len() > self.lm.capacity() {
            return Ok(());
        }
        self.scratch = None;
        for slice in rest.chunks(if stop.is_some() { SLICE } else { rest.len() }) {
            if is_set(stop) {
                return Ok(());
            }
            let logits = self.lm.read(slice).map_err(lost)?;
            self.held.extend_from_slice(slice);
            if self.held.len() == self.text.len() {
                let position = self.ends.len();
                let words = &self.vocabulary;
                let after = rank(words, &self.scored, self.order, logits, position, &mut self.room);
                self.scratch = Some(ScratchTree::new(after));
            }
        }
        Ok(())
    }

    /// Whether the model has read the whole text, so that branches can grow after it.
    pub(super) fn is_ready(&self) -> bool {
        self.scratch.is_some() && self.held == self.text
    }

    /// Whether there are scratch rows after the text.
    pub(super) fn has_rows(&self) -> bool {
        self.scratch.as_ref().is_some_and(|scratch| scratch.len() > 0)
    }

    /// What may follow a row, or the text.
    pub(super) fn after(&self, row: Option<usize>) -> &[(u32, f32)] {
        self.scratch.as_ref().map_or(&[], |scratch| scratch.children(row))
    }

    /// The rows in `wanted` (each after a row or the text, with one of the target's tokens), in
    /// order; those that do not exist yet are run in one pass. `None` if there is no room for them
    /// or the model does not have such a token.
    pub(super) fn extend(
        &mut self,
        wanted: &[(Option<usize>, u32)],
    ) -> Result<Option<Vec<usize>>, DraftError> {
        let Some(scratch) = &mut self.scratch else { return Ok(None) };
        let mut numbers = Vec::with_capacity(wanted.len());
        let mut fresh: Vec<BeamRow> = Vec::new();
        for &(parent, token) in wanted {
            let Some(token) = self.vocabulary.counterpart(token) else { return Ok(None) };
            numbers.push(scratch.find(token, parent).unwrap_or_else(|| {
                fresh.push(scratch.row(token, parent));
                scratch.len() + fresh.len() - 1
            }));
        }
        if fresh.is_empty() {
            return Ok(Some(numbers));
        }
        let last = fresh.iter().map(|row| self.held.len() + row.ancestors.len() + 1).max();
        if last > Some(self.lm.capacity()) || scratch.len() + fresh.len() > self.lm.room() {
            return Ok(None);
        }
        let logits = self.lm.grow(scratch.len(), &fresh).map_err(lost)?;
        let scored = logits.len() / fresh.len();
        let words = &self.vocabulary;
        for (row, logits) in fresh.iter().zip(logits.chunks_exact(scored)) {
            let position = self.ends.len() + row.ancestors.len() + 1;
            let candidates =
                rank(words, &self.scored, self.order, logits, position, &mut self.room);
            scratch.push(row.token, row.source, candidates);
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
        let wanted: Vec<_> = beam.iter().map(|row| (grown.source(row), row.token)).collect();
        let Some(rows) = self.extend(&wanted)? else { return Ok(Vec::new()) };
        grown.extend(rows.iter().copied());
        Ok(rows.into_iter().map(|row| self.after(Some(row)).to_vec()).collect())
    }

    /// Commits the scratch rows that the text has reached.
    fn follow(&mut self) {
        let Some(scratch) = &mut self.scratch else { return };
        let mut path = Vec::new();
        for &token in &self.text[self.held.len()..] {
            let Some(row) = scratch.find(token, path.last().copied()) else { break };
            path.push(row);
        }
        if !path.is_empty() {
            let reached = &self.text[self.held.len()..][..path.len()];
            self.held.extend(reached);
            self.lm.keep(&path, &scratch.commit(&path));
        }
    }

    /// Rolls the model's KV cache back to `len` tokens, or as far as it can.
    fn go_back(&mut self, len: usize) {
        self.lm.truncate(len);
        self.held.truncate(self.lm.len());
        self.scratch = None;
    }
}

/// The candidates of a row of the small model's logits for the target's token at `position`.
fn rank(
    vocabulary: &SharedVocabulary,
    scored: &[u32],
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
    let group = TOKEN_GROUP as u32;
    let own = |i: u32| match scored.get((i / group) as usize) {
        Some(scored) => scored * group + i % group,
        None => i,
    };
    vocabulary.candidates(&ranking, logits, own, room)
}

fn lost(error: TargetError) -> DraftError {
    DraftError::Device(error.to_string())
}
