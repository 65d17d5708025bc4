//! One forward pass of the target over some rows: embedding, blocks, final norm, LM head. It must
//! not depend on what the rows are for.

use super::scratch::{CpuBlocks, add_bias};
use super::weights::Weights;
use crate::kernels::TreeMask;
use crate::model::taps::Taps;

/// What a pass works with.
pub(super) struct Pass<'a> {
    pub(super) weights: &'a Weights,
    pub(super) blocks: CpuBlocks<'a>,
}

impl Pass<'_> {
    /// Embeds one row for each of `tokens` and returns the stream, `[rows, H]`. Row i of a cache
    /// sees the committed prefix and then `mask.visible(i)`.
    pub(super) fn embed(&mut self, tokens: &[u32], mask: &TreeMask) -> &mut [f32] {
        let Self { weights, blocks } = self;
        let config = blocks.config;
        blocks.place(mask, &weights.rope);
        blocks.pool.chunks(&mut blocks.scratch.stream, config.hidden, |row, stream| {
            weights.embedding.row(tokens[row] as usize, stream);
            config.block.scale_embedding(stream);
        });
        if let Some(per_layer) = &weights.per_layer {
            per_layer.run(blocks, tokens);
        }
        &mut blocks.scratch.stream
    }

    /// Passes the stream through the blocks, which leave its keys and values after the prefix, and
    /// the final norm, whose outputs `[rows, H]` become `features`. `taps` get the states on the
    /// way.
    pub(super) fn transform(&mut self, mask: &TreeMask, features: &mut [f32], taps: &mut Taps<'_>) {
        let Self { weights, blocks } = self;
        let config = blocks.config;
        let pool = blocks.pool;
        // The first blocks may be on another device.
        let below = config.layers - weights.layers.len();
        for (index, layer) in weights.layers.iter().enumerate() {
            taps.take(below + index, 0, &blocks.scratch.stream);
            blocks.run(index, layer, mask);
        }
        taps.take(config.layers, 0, &blocks.scratch.stream);
        weights.norm.apply(pool, &blocks.scratch.stream, config.rms_eps, features);
        blocks.lap();
    }

    /// The LM head on `features`, `[rows, H]`, into `logits`, `[rows, V]`, or those of the
    /// tokens that are scored.
    pub(super) fn head(&mut self, features: &[f32], logits: &mut [f32]) {
        self.blocks.products(features, &mut [(self.weights.scored(), &mut *logits)]);
        if let Some(bias) = &self.weights.head_bias {
            add_bias(logits, bias);
        }
        self.blocks.config.block.finish_logits(self.blocks.pool, logits);
    }
}
