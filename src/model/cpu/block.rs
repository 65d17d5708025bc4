//! One decoder block over some rows: the arithmetic that a target and a draft head share. The bits
//! that a call computes for a row do not depend on the other rows, and so neither do those of the
//! block. It must not depend on whose block it is.

use super::layer::{Attention, GroupedQuery, Layer, Mlp, NormWeights};
use super::scratch::{CpuBlocks, add_bias, products};
use crate::kernels::{
    AttentionOptions, KvCache, TreeMask, add, attention, rms_norm, rope, sigmoid_gate,
};

impl CpuBlocks<'_> {
    /// Runs the stream through block `index`; the rows' keys and values stay in flight. `mask`
    /// applies to the rows of every cache.
    pub(in crate::model) fn run(&mut self, index: usize, layer: &Layer, mask: &TreeMask) {
        self.lap();
        self.norm(layer.attention_norm.as_ref());
        self.attend(index, layer, mask);
        self.transform(layer);
    }

    /// The same, but attention reads `input` `[rows, any width]` instead of the normed stream.
    pub(in crate::model) fn run_on(
        &mut self,
        index: usize,
        layer: &Layer,
        mask: &TreeMask,
        input: &[f32],
    ) {
        self.lap();
        self.scratch.branch.clear();
        self.scratch.branch.extend_from_slice(input);
        self.attend(index, layer, mask);
        self.transform(layer);
    }

    /// The attention half of a layer, or its recurrent counterpart: stream += o(what it computes
    /// from `branch`).
    fn attend(&mut self, index: usize, layer: &Layer, mask: &TreeMask) {
        match &layer.attention {
            Attention::Grouped(weights) => {
                self.grouped(weights, layer.rope);
                self.look_back(index, layer, mask);
                let s = &mut *self.scratch;
                if self.config.block.output_gate {
                    sigmoid_gate(self.pool, &mut s.attended, &s.gate);
                }
            }
            Attention::Latent(weights) => {
                self.latent_qkv(weights, layer.rope);
                self.look_back(index, layer, mask);
                self.latent_values(weights);
            }
            Attention::Recurrent(weights) => self.recur(index, weights),
        }
        let Self { pool, .. } = *self;
        let s = &mut *self.scratch;
        let attended = match &layer.attention {
            Attention::Grouped(_) => &s.attended,
            Attention::Latent(_) => &s.latent.values,
            Attention::Recurrent(_) => &s.recurrent.gate,
        };
        s.branch.resize(s.stream.len(), 0.0);
        products(pool, &mut s.rows, attended, &mut [(&layer.o, &mut s.branch[..])]);
        self.timing.products += self.clock.lap();
        if let Some(bias) = &layer.o_bias {
            add_bias(&mut s.branch, bias);
        }
        self.join(layer.attention_out_norm.as_ref());
    }

    /// attended = attention(q, k, v) over the cache.
    fn look_back(&mut self, index: usize, layer: &Layer, mask: &TreeMask) {
        let Self { config, pool, .. } = *self;
        let s = &mut *self.scratch;
        KvCache::write_each(pool, self.caches, index, mask.first(), &s.k, &s.v);
        self.timing.other += self.clock.lap();
        let options = AttentionOptions {
            scale: config.block.attention_scale,
            softcap: config.block.attention_softcap,
            window: layer.window,
            sinks: layer.sinks.as_deref(),
        };
        attention(pool, self.caches, index, &s.q, mask, &options, &mut s.attended);
        self.timing.attention += self.clock.lap();
    }

    /// The MLP half of a layer: stream += mlp(norm(stream)).
    fn transform(&mut self, layer: &Layer) {
        self.norm(layer.mlp_norm.as_ref());
        let Self { config, pool, .. } = *self;
        match &layer.mlp {
            Mlp::Dense(dense) => {
                let s = &mut *self.scratch;
                self.timing.other += self.clock.lap();
                let x = std::mem::take(&mut s.branch);
                let mut out = std::mem::take(&mut s.mlp_out);
                out.resize(x.len(), 0.0);
                dense.run(pool, config, &mut s.rows, &mut s.mlp, &x, &mut out);
                s.branch = out;
                s.mlp_out = x;
                self.timing.products += self.clock.lap();
            }
            Mlp::Experts(mixture) => self.experts(mixture),
        }
        self.join(layer.mlp_out_norm.as_ref());
    }

    /// branch = norm(stream), or the stream itself.
    fn norm(&mut self, norm: Option<&NormWeights>) {
        let s = &mut *self.scratch;
        match norm {
            Some(norm) => norm.apply(self.pool, &s.stream, self.config.rms_eps, &mut s.branch),
            None => s.branch.copy_from_slice(&s.stream),
        }
        self.timing.other += self.clock.lap();
    }

    /// stream += branch, normed and scaled as in the family.
    fn join(&mut self, norm: Option<&NormWeights>) {
        let s = &mut *self.scratch;
        if let Some(norm) = norm {
            norm.apply(self.pool, &s.branch, self.config.rms_eps, &mut s.branch_norm);
            std::mem::swap(&mut s.branch, &mut s.branch_norm);
        }
        let scale = self.config.block.residual_scale;
        if scale != 1.0 {
            for x in s.branch.iter_mut() {
                *x *= scale;
            }
        }
        add(self.pool, &mut s.stream, &s.branch);
        self.timing.other += self.clock.lap();
    }

    /// Queries, keys and values of grouped-query attention from `branch`, rotated.
    fn grouped(&mut self, weights: &GroupedQuery, rotation: Option<usize>) {
        let Self { config, pool, .. } = *self;
        let s = &mut *self.scratch;
        let gated = config.block.output_gate;
        let q = if gated { &mut s.q_and_gate } else { &mut s.q };
        let mut qkv =
            [(&weights.q, &mut q[..]), (&weights.k, &mut s.k[..]), (&weights.v, &mut s.v[..])];
        products(pool, &mut s.rows, &s.branch, &mut qkv);
        self.timing.products += self.clock.lap();
        if gated {
            let heads = s.q_and_gate.chunks_exact(2 * config.head_dim);
            let parts =
                s.q.chunks_exact_mut(config.head_dim).zip(s.gate.chunks_exact_mut(config.head_dim));
            for ((q, gate), both) in parts.zip(heads) {
                q.copy_from_slice(&both[..config.head_dim]);
                gate.copy_from_slice(&both[config.head_dim..]);
            }
        }
        if let Some([q, k, v]) = &weights.qkv_bias {
            add_bias(&mut s.q, q);
            add_bias(&mut s.k, k);
            add_bias(&mut s.v, v);
        }
        if let Some([q, k]) = &weights.qk_norm {
            rms_norm(pool, &s.q, q, config.rms_eps, &mut s.attended);
            std::mem::swap(&mut s.q, &mut s.attended);
            rms_norm(pool, &s.k, k, config.rms_eps, &mut s.normed);
            std::mem::swap(&mut s.k, &mut s.normed);
        }
        if let Some(rotation) = rotation {
            let (cos, sin) = s.rotations[rotation].rows();
            let rotary = config.rotary_dim();
            rope(pool, &mut s.q, config.head_dim, rotary, cos, sin);
            rope(pool, &mut s.k, config.head_dim, rotary, cos, sin);
        }
    }
}
