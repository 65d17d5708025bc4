//! An EAGLE-3 head's pass on the CPU's kernels (method.md, EAGLE-3). It must not depend on trees.

use super::backend::FeatureOrigin;
use super::pack::Eagle3Fusion;
use crate::kernels::{TreeMask, add, rms_norm};
use crate::model::cpu::layer::Layer;
use crate::model::cpu::scratch::CpuBlocks;

/// What the rows of a pass read.
pub(super) struct HeadInputs<'a> {
    pub(super) features: &'a [f32],
    pub(super) origin: FeatureOrigin,
    pub(super) embeddings: &'a [f32],
}

/// Buffers for intermediate numbers, reused so that a step allocates nothing.
#[derive(Default)]
pub(super) struct Eagle3Buffers {
    taps: Vec<f32>,
    ones: Vec<f32>,
    state: Vec<f32>,
    embedding: Vec<f32>,
    normed: Vec<f32>,
    /// `[rows, 2H]`.
    joined: Vec<f32>,
}

impl Eagle3Fusion {
    /// Runs placed rows of `features` and `embeddings` through the head's block. The stream then
    /// holds what further rows can read.
    pub(super) fn run(
        &self,
        HeadInputs { features, origin, embeddings }: HeadInputs<'_>,
        layer: &Layer,
        mask: &TreeMask,
        buffers: &mut Eagle3Buffers,
        blocks: &mut CpuBlocks<'_>,
    ) {
        let pool = blocks.pool;
        let hidden = blocks.config.hidden;
        let eps = blocks.config.rms_eps;
        let size = embeddings.len();
        let Eagle3Buffers { state, embedding, normed, joined, .. } = buffers;
        for buffer in [&mut *state, embedding, normed] {
            buffer.resize(size, 0.0);
        }
        match origin {
            FeatureOrigin::Head => state.copy_from_slice(features),
            FeatureOrigin::Target => {
                buffers.ones.resize(self.config.normed_together(), 1.0);
                let taps = self.normed_taps(features, &buffers.ones, &mut buffers.taps, blocks);
                blocks.products(taps, &mut [(&self.fc, &mut *state)]);
                if let Some(bias) = &self.bias {
                    for row in state.chunks_exact_mut(hidden) {
                        add(pool, row, bias);
                    }
                }
            }
        }
        rms_norm(pool, embeddings, &self.embedding_norm, eps, embedding);
        rms_norm(pool, state, &self.state_norm, eps, normed);
        joined.clear();
        for (embedding, state) in embedding.chunks_exact(hidden).zip(normed.chunks_exact(hidden)) {
            joined.extend_from_slice(embedding);
            joined.extend_from_slice(state);
        }
        let residual = if self.config.norm_before_residual { &*normed } else { &*state };
        blocks.scratch.stream.copy_from_slice(residual);
        blocks.run_on(0, layer, mask, joined);
        if self.config.norm_output {
            rms_norm(pool, &blocks.scratch.stream, &self.norm, eps, normed);
            blocks.scratch.stream.copy_from_slice(normed);
        }
    }

    /// The LM head's input for `outputs`: computed in `room`, or the outputs themselves.
    pub(super) fn scored<'a>(
        &self,
        outputs: &'a [f32],
        room: &'a mut Vec<f32>,
        blocks: &CpuBlocks<'_>,
    ) -> &'a [f32] {
        if self.config.norm_output {
            return outputs;
        }
        room.resize(outputs.len(), 0.0);
        rms_norm(blocks.pool, outputs, &self.norm, blocks.config.rms_eps, room);
        room
    }

    fn normed_taps<'a>(
        &self,
        features: &'a [f32],
        ones: &[f32],
        room: &'a mut Vec<f32>,
        blocks: &CpuBlocks<'_>,
    ) -> &'a [f32] {
        let Some(weight) = &self.tap_norm else { return features };
        room.resize(features.len(), 0.0);
        // Each run of `ones` is normed in the same way, then multiplied by the weight.
        rms_norm(blocks.pool, features, ones, blocks.config.rms_eps, room);
        for row in room.chunks_exact_mut(weight.len()) {
            for (x, weight) in row.iter_mut().zip(weight) {
                *x *= weight;
            }
        }
        room
    }
}
