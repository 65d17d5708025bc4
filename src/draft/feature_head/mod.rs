//! The paper's drafter: a feature head (DGF or EAGLE) that grows the dynamic tree (method.md,
//! Features; method.md, Tree growth). It must not depend on the device that the head runs on.

mod ahead;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::scratch_tree::{GrowingTree, RowMap, ScratchTree};
use super::{Ahead, AheadRequest, Depths, DraftError, DraftRequest, Drafter, is_set};
use crate::kernels::Pool;
use crate::model::head::{Candidates, HeadBackend, HeadConfig, HeadError, HeadKind, Pairs};
use crate::model::{FeatureSource, TrafficMeter};
use crate::speculate::{BeamRow, DrafterId, Tree};
use ahead::DraftedAhead;

/// Makes a backend on a device that is always available, for when the first one fails.
pub type Fallback = Box<dyn FnOnce() -> Result<Box<dyn HeadBackend>, HeadError> + Send>;

/// How many rows one causal pass has: this bounds the attention scores of a long prefill.
const CHUNK: usize = 256;

/// A feature head as a [`Drafter`].
///
/// It keeps every observed pair in memory and runs the head over them only when a tree is
/// requested. So plain decoding costs nothing, a block that was left out catches up when M rises,
/// and the work of a failed device can be repeated on another device.
pub struct FeatureHead {
    kind: HeadKind,
    depths: Depths,
    /// What it reads of the target.
    source: FeatureSource,
    /// How many numbers a feature has.
    width: usize,
    capacity: usize,
    backend: Box<dyn HeadBackend>,
    fallback: Option<Fallback>,
    /// `[pairs, width]`.
    features: Vec<f32>,
    /// `[pairs]`: the token after each feature.
    tokens: Vec<u32>,
    /// The token of the row before those of the pairs.
    opening: Option<u32>,
    /// For each block, how many pairs it holds stable KV rows for.
    held: Vec<usize>,
    /// The scratch rows after the stable ones.
    scratch: ScratchTree,
    /// The pairs and blocks of the stable rows that the scratch rows are based on.
    settled: Option<(usize, usize)>,
    drafted_ahead: Option<DraftedAhead>,
    /// Whether the last tree came from it.
    was_drafted_ahead: bool,
    /// The pool it runs on while the target verifies.
    cores: Option<Arc<Pool>>,
    reads_beside: bool,
}

impl FeatureHead {
    /// A drafter on `backend` for up to `capacity` positions.
    pub fn new(config: &HeadConfig, backend: Box<dyn HeadBackend>, capacity: usize) -> Self {
        let blocks = config.blocks();
        Self {
            kind: config.kind.clone(),
            depths: if config.elastic { Depths::Elastic(blocks) } else { Depths::Fixed(blocks) },
            source: FeatureSource::FinalNorm,
            width: config.feature_width(),
            capacity: config.capacity(capacity),
            backend,
            fallback: None,
            features: Vec::new(),
            tokens: Vec::new(),
            opening: None,
            held: vec![0; blocks],
            scratch: ScratchTree::default(),
            settled: None,
            drafted_ahead: None,
            was_drafted_ahead: false,
            cores: None,
            reads_beside: false,
        }
    }

    /// For an EAGLE-3 head: with the states that it taps.
    #[must_use]
    pub fn reading(mut self, source: FeatureSource) -> Self {
        self.source = source;
        self
    }

    /// With a way to continue if the backend's device fails.
    #[must_use]
    pub fn with_fallback(mut self, fallback: Fallback) -> Self {
        self.fallback = Some(fallback);
        self
    }

    /// With the pool that is separated from the target's while both work: the backend's own pool,
    /// or for a backend on another device a pool that keeps a core free to serve it.
    #[must_use]
    pub fn with_cores(mut self, cores: Arc<Pool>) -> Self {
        self.cores = Some(cores);
        self
    }

    /// Reads prompts while the target does, if they share no processor.
    #[must_use]
    pub fn reading_beside(mut self, beside: bool) -> Self {
        self.reads_beside = beside;
        self
    }

    /// How many pairs were observed and kept.
    pub fn observed(&self) -> usize {
        self.tokens.len()
    }

    /// How many stable KV rows `block` has.
    pub fn stable_len(&self, block: usize) -> usize {
        self.held[block]
    }

    fn blocks_for(&self, wanted: usize) -> usize {
        match self.depths {
            Depths::Fixed(blocks) => blocks,
            Depths::Elastic(most) => wanted.clamp(1, most),
        }
    }

    /// Lets an MTP head read the first token of the text, which belongs to no pair, as if after a
    /// feature of zeros. All stable rows are gone if it is another token than before.
    fn open(&mut self, text: &[u32]) -> Result<(), HeadError> {
        let first = text.first().copied().filter(|_| self.kind.opens());
        if first.is_some() && self.opening != first {
            self.opening = None;
            self.held.fill(0);
            self.clear_scratch();
            let features = &vec![0.0; self.width];
            let tokens = first.as_slice();
            self.backend.extend(0, Pairs { features, tokens }, self.held.len())?;
            self.opening = first;
        }
        Ok(())
    }

    /// Runs the pairs that the first `blocks` blocks have not seen, at least the last pair, from
    /// whose output the tree starts; not all of them if `stop` is set before.
    fn catch_up(&mut self, blocks: usize, stop: Option<&AtomicBool>) -> Result<(), HeadError> {
        self.clear_scratch();
        let pairs = self.tokens.len();
        let held = self.held[..blocks].iter().copied().min().unwrap_or(0);
        let mut start = held.min(pairs.saturating_sub(1));
        while start < pairs && !is_set(stop) {
            let end = pairs.min(start + CHUNK);
            // Until the pass is done, nothing from `start` on is reliable.
            for held in self.held[..blocks].iter_mut() {
                *held = (*held).min(start);
            }
            let features = &self.features[start * self.width..end * self.width];
            let tokens = &self.tokens[start..end];
            let row = start + usize::from(self.opening.is_some());
            self.backend.extend(row, Pairs { features, tokens }, blocks)?;
            for held in self.held[..blocks].iter_mut() {
                *held = end;
            }
            start = end;
        }
        Ok(())
    }

    /// Drops the scratch rows, which are based on the previous stable rows.
    fn clear_scratch(&mut self) {
        self.scratch = ScratchTree::default();
        self.settled = None;
        self.drafted_ahead = None;
    }

    /// Starts scratch rows on the stable rows, after bringing these up to the last pair.
    fn plant(&mut self, request: &DraftRequest) -> Result<(), HeadError> {
        let blocks = self.blocks_for(request.budget.blocks);
        self.catch_up(blocks, None)?;
        self.scratch = ScratchTree::new(self.backend.rank_root(&request.ranking(1))?);
        self.settled = Some((self.tokens.len(), blocks));
        Ok(())
    }

    /// Runs rows whose children are `depth` below the root that `request` is for. Returns the first
    /// row's number, `None` if there is no room for the rows, and the candidates below each.
    fn step(
        &mut self,
        beam: Vec<BeamRow>,
        request: &DraftRequest,
        depth: usize,
    ) -> Result<(Option<usize>, Candidates), HeadError> {
        let candidates = self.backend.step(&beam, &request.ranking(depth))?;
        let first = (!candidates.is_empty()).then_some(self.scratch.len());
        for (row, children) in beam.iter().zip(&candidates) {
            self.scratch.push(row.token, row.source, children.clone());
        }
        Ok((first, candidates))
    }

    /// Grows a tree by a level; its own root is `above` levels below the root that `request` is
    /// for.
    fn advance(
        &mut self,
        growing: &mut GrowingTree,
        request: &DraftRequest,
        above: usize,
    ) -> Result<(), HeadError> {
        let GrowingTree { growth, rows } = growing;
        let beam = growth.beam().iter().map(|row| self.scratch.row(row.token, rows.source(row)));
        let beam: Vec<BeamRow> = beam.collect();
        let count = beam.len();
        let (first, candidates) = self.step(beam, request, above + growth.levels() + 1)?;
        rows.extend(first.into_iter().flat_map(|first| first..first + count));
        growth.expand(&candidates);
        Ok(())
    }

    fn grow(&mut self, request: &DraftRequest) -> Result<Tree, HeadError> {
        let drafted_ahead = self.take_drafted_ahead(request);
        self.was_drafted_ahead = drafted_ahead.is_some();
        let mut growing = match drafted_ahead {
            Some(growing) => growing,
            None => {
                self.plant(request)?;
                let growth = request.growth(self.scratch.children(None));
                GrowingTree { growth, rows: RowMap::default() }
            }
        };
        while growing.growth.pays(request.least_pass) {
            self.advance(&mut growing, request, 0)?;
        }
        Ok(growing.growth.finish(request.root))
    }
}

/// A draft that its device could not compute.
pub(super) fn lost(error: HeadError) -> DraftError {
    DraftError::Device(match error {
        HeadError::Device(reason) => reason,
        other => other.to_string(),
    })
}

impl Drafter for FeatureHead {
    fn describe(&self) -> String {
        let kind = self.kind.name();
        let blocks = match self.held.len() {
            1 => "1 block".into(),
            blocks => format!("{blocks} blocks"),
        };
        format!("{kind} head, {blocks}, {}", self.backend.describe())
    }

    fn source(&self) -> Option<DrafterId> {
        Some(match self.kind {
            HeadKind::Mtp(_) | HeadKind::Assistant(_) => DrafterId::Mtp,
            _ => DrafterId::Head,
        })
    }

    fn depths(&self) -> Depths {
        self.depths
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn features(&self) -> Option<FeatureSource> {
        Some(self.source.clone())
    }

    fn truncate(&mut self, len: usize) {
        self.tokens.truncate(len);
        self.features.truncate(len * self.width);
        for held in self.held.iter_mut() {
            *held = (*held).min(len);
        }
        self.clear_scratch();
    }

    fn observe(&mut self, features: &[f32], tokens: &[u32]) -> Result<(), DraftError> {
        if features.len() != tokens.len() * self.width {
            let found = features.len() / tokens.len().max(1);
            return Err(DraftError::Features { found, expected: self.width });
        }
        self.features.extend_from_slice(features);
        self.tokens.extend_from_slice(tokens);
        Ok(())
    }

    fn propose(&mut self, text: &[u32], request: &DraftRequest) -> Result<Tree, DraftError> {
        let &DraftRequest { root, budget, .. } = request;
        let nothing_to_go_on = self.tokens.is_empty() || self.tokens.len() > self.capacity;
        if nothing_to_go_on || budget.shape.gamma <= 1 || budget.shape.width == 0 {
            return Ok(Tree::root(root));
        }
        debug_assert_eq!(self.tokens.last(), Some(&root));
        self.open(text).map_err(lost)?;
        self.grow(request).map_err(lost)
    }

    fn draft_ahead(&mut self, ahead: &AheadRequest<'_>) -> Result<Ahead, DraftError> {
        if self.tokens.is_empty()
            || self.tokens.len() > self.capacity
            || ahead.request.budget.shape.width == 0
        {
            return Ok(Ahead::default());
        }
        let cores = self.cores.clone();
        let _apart = cores.as_ref().map(|cores| cores.work_apart());
        self.draft_outcomes(ahead).map_err(lost)
    }

    fn reads_beside(&self) -> bool {
        self.reads_beside
    }

    fn read(&mut self, prompt: &[u32], blocks: usize, stop: &AtomicBool) -> Result<(), DraftError> {
        if self.tokens.len() > self.capacity {
            return Ok(());
        }
        self.open(prompt).map_err(lost)?;
        self.catch_up(self.blocks_for(blocks), Some(stop)).map_err(lost)
    }

    fn was_drafted_ahead(&self) -> bool {
        self.was_drafted_ahead
    }

    fn device_bytes(&self) -> u64 {
        self.backend.device_bytes()
    }

    fn fall_back(&mut self) -> Result<(), DraftError> {
        let make = self
            .fallback
            .take()
            .ok_or_else(|| DraftError::Device("no other device can draft".into()))?;
        self.backend = make().map_err(lost)?;
        self.reads_beside = false;
        self.opening = None;
        self.held.fill(0);
        self.clear_scratch();
        Ok(())
    }

    fn traffic(&self) -> Option<TrafficMeter> {
        self.backend.traffic()
    }
}

#[cfg(test)]
mod tests;
