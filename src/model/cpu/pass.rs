//! One forward pass of the target over some rows: embedding, blocks, final norm, LM head. It must
//! not depend on what the rows are for.

use super::scratch::CpuBlocks;
use super::weights::Weights;
use crate::kernels::{KvCache, TreeMask};
use crate::model::taps::Taps;

/// What a pass works with.
pub(super) struct Pass<'a> {
    pub(super) weights: &'a Weights,
    pub(super) blocks: CpuBlocks<'a>,
}

impl Pass<'_> {
    /// Runs one row for each of `tokens`. Row i of a cache is at position `len + depth(i)` and sees
    /// the committed prefix and then `mask.visible(i)`; its keys and values are left after the
    /// prefix. Writes the outputs of the final norm to `features`, `[rows, H]`.
    pub(super) fn run(
        &mut self,
        tokens: &[u32],
        depth: impl Fn(usize) -> usize,
        mask: &TreeMask,
        features: &mut [f32],
    ) {
        self.embed(tokens, depth);
        self.transform(mask, features, &mut Taps::none());
    }

    /// The first part of `run`: embeds the tokens and returns the stream, `[rows, H]`.
    pub(super) fn embed(&mut self, tokens: &[u32], depth: impl Fn(usize) -> usize) -> &mut [f32] {
        let Self { weights, blocks } = self;
        let config = blocks.config;
        let pool = blocks.pool;
        let each = tokens.len() / blocks.caches.len();
        let lens: Vec<usize> = blocks.caches.iter().map(KvCache::len).collect();
        blocks.place(tokens.len(), |row| lens[row / each] + depth(row % each), &weights.rope);
        pool.chunks(&mut blocks.scratch.stream, config.hidden, |row, stream| {
            weights.embedding.row(tokens[row] as usize, stream);
            config.block.scale_embedding(stream);
        });
        &mut blocks.scratch.stream
    }

    /// The rest of `run`: passes the stream through the blocks and the final norm. `taps` get the
    /// states on the way.
    pub(super) fn transform(&mut self, mask: &TreeMask, features: &mut [f32], taps: &mut Taps<'_>) {
        let Self { weights, blocks } = self;
        let config = blocks.config;
        let pool = blocks.pool;
        // The first blocks may be on another device.
        let below = config.layers - weights.layers.len();
        for (index, layer) in weights.layers.iter().enumerate() {
            taps.take(below + index, &blocks.scratch.stream);
            blocks.run(index, layer, mask);
        }
        taps.take(config.layers, &blocks.scratch.stream);
        weights.norm.apply(pool, &blocks.scratch.stream, config.rms_eps, features);
        blocks.lap();
    }

    /// The LM head on `features`, `[rows, H]`, into `logits`, `[rows, V]`.
    pub(super) fn head(&mut self, features: &[f32], logits: &mut [f32]) {
        self.blocks.products(features, &mut [(self.weights.head(), &mut *logits)]);
        self.blocks.config.block.finish_logits(self.blocks.pool, logits);
    }
}
