//! What a target and a drafting model on the CPU share: packed weights, a KV cache allocated once,
//! threads, and passes over them. It must not depend on what a pass is for.

use std::ops::Range;
use std::sync::Arc;

use super::CHUNK;
use super::pass::Pass;
use super::scratch::{CpuBlocks, PassScratch, PassTiming};
use super::weights::Weights;
use crate::kernels::{KvCache, Pool, TreeMask};
use crate::model::taps::Taps;
use crate::model::{Config, LoadError, LoadRequest};

pub(super) struct CpuModel {
    pub(super) config: Config,
    pub(super) pool: Arc<Pool>,
    pub(super) weights: Weights,
    /// One for each text; a target and a draft have a single one.
    pub(super) caches: Vec<KvCache>,
    /// How many positions it can be used for; the cache may have more slots after them.
    pub(super) capacity: usize,
    pub(super) scratch: PassScratch,
    pub(super) timing: PassTiming,
    /// The final norm's outputs in [`Self::run`], `[rows, H]`.
    normed: Vec<f32>,
    /// The logits of the last [`Self::run`], `[rows, V]`, or of the tokens that are scored.
    pub(super) logits: Vec<f32>,
}

impl CpuModel {
    /// Packs the blocks from `first` on and allocates a cache with `in_flight` slots after the
    /// request's positions.
    ///
    /// # Errors
    /// [`LoadError::Capacity`] if the model was not made for so many positions;
    /// [`LoadError::Cache`] if there is not enough memory; [`LoadError::Weights`].
    pub(super) fn load(
        request: &LoadRequest<'_>,
        first: usize,
        in_flight: usize,
    ) -> Result<Self, LoadError> {
        let &LoadRequest { config, ref pool, capacity, kv, .. } = request;
        request.check_capacity()?;
        let slots = capacity.saturating_add(in_flight);
        let layers = first..config.layers;
        let recurrent =
            layers.clone().filter(|&layer| config.block.recurrent_of(layer).is_some()).count();
        // The cache comes before the weights, because it fails sooner.
        let cache = KvCache::of_layers(config.kv_shapes(layers), slots, kv)
            .map_err(|error| LoadError::Cache { capacity: slots, error })?;
        let cache = match &config.block.recurrent {
            Some(all) => cache.with_recurrent(all.shape, recurrent),
            None => cache,
        };
        Ok(Self {
            weights: Weights::load(request, first)?,
            config: config.clone(),
            pool: Arc::clone(pool),
            caches: vec![cache],
            capacity,
            scratch: PassScratch::default(),
            timing: PassTiming::default(),
            normed: Vec::new(),
            logits: Vec::new(),
        })
    }

    /// Begins a pass after the only text.
    pub(super) fn pass(&mut self) -> Pass<'_> {
        self.pass_after(0..1)
    }

    /// Begins a pass after some of the texts.
    fn pass_after(&mut self, texts: Range<usize>) -> Pass<'_> {
        let Self { config, pool, caches, scratch, timing, weights, .. } = self;
        let caches = &mut caches[texts];
        Pass { weights, blocks: CpuBlocks::begin(config, pool, caches, scratch, timing) }
    }

    /// Runs `tokens`, the same number after each of some texts, and leaves them in flight. Computes
    /// the logits of the rows from `scored` on.
    pub(super) fn run(
        &mut self,
        texts: Range<usize>,
        tokens: &[u32],
        mask: &TreeMask,
        scored: usize,
    ) {
        let hidden = self.config.hidden;
        let vocab = self.weights.scored().outputs();
        let mut normed = std::mem::take(&mut self.normed);
        let mut logits = std::mem::take(&mut self.logits);
        normed.resize(tokens.len() * hidden, 0.0);
        logits.resize((tokens.len() - scored) * vocab, 0.0);
        let mut pass = self.pass_after(texts);
        pass.embed(tokens, mask);
        pass.transform(mask, &mut normed, &mut Taps::none());
        pass.head(&normed[scored * hidden..], &mut logits);
        self.normed = normed;
        self.logits = logits;
    }

    /// Commits `tokens` at the end of a text and computes the last one's logits.
    pub(super) fn read(&mut self, text: usize, tokens: &[u32]) {
        let mut chunks = tokens.chunks(CHUNK).peekable();
        while let Some(chunk) = chunks.next() {
            let scored = chunk.len() - usize::from(chunks.peek().is_none());
            self.caches[text].will_commit(chunk.len());
            self.run(text..text + 1, chunk, &TreeMask::causal(chunk.len()), scored);
            self.caches[text].commit(&self.pool, &(0..chunk.len()).collect::<Vec<_>>());
        }
    }
}
