//! One decoder block over some rows: the arithmetic that a target and a draft head share. The bits
//! that a call computes for a row do not depend on the other rows, and so neither do those of the
//! block. It must not depend on whose block it is.

use super::layer::{Attention, Convolution, Dense, GroupedQuery, Layer, Mlp, NormWeights};
use super::scratch::{CpuBlocks, PassScratch, add_bias, products};
use crate::kernels::{
    AttentionOptions, KvCache, Matrix, Pool, TreeMask, activate, add, attention, rope, sigmoid_gate,
};
use crate::model::QkNorm;

impl CpuBlocks<'_> {
    /// Runs the stream through block `index`; the rows' keys and values stay in flight. `mask`
    /// applies to the rows of every cache.
    pub(in crate::model) fn run(&mut self, index: usize, layer: &Layer, mask: &TreeMask) {
        self.lap();
        self.norm(layer.attention_norm.as_ref());
        if self.config.block.parallel {
            self.scratch.shared_norm.clone_from(&self.scratch.branch);
        }
        self.convolve_input(layer.convolutions.as_ref().map(|both| &both[0]));
        self.attend(index, layer, mask);
        self.transform(layer);
        self.add_embedding(index, layer);
        scale(&mut self.scratch.stream, layer.output_scale.unwrap_or(1.0));
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

    /// Puts the keys and values of `input` `[rows, H]`, which is not normed, into block `index`.
    pub(in crate::model) fn inject(
        &mut self,
        index: usize,
        layer: &Layer,
        mask: &TreeMask,
        input: &[f32],
    ) {
        let Some(Attention::Grouped(weights)) = &layer.attention else { return };
        self.scratch.branch.clear();
        self.scratch.branch.extend_from_slice(input);
        self.grouped(weights, layer.rope, false);
        let s = &*self.scratch;
        KvCache::write_each(self.pool, self.caches, index, mask.first(), &s.k, &s.v);
        self.lap();
    }

    /// The attention half of a layer and its recurrent counterpart: stream += o(what it computes
    /// from `branch`).
    fn attend(&mut self, index: usize, layer: &Layer, mask: &TreeMask) {
        if let Some(weights) = &layer.recurrent {
            self.recur(weights);
        }
        match &layer.attention {
            None => {}
            Some(Attention::Grouped(weights)) => {
                self.grouped(weights, layer.rope, true);
                self.look_back(index, layer, mask);
                let s = &mut *self.scratch;
                if self.config.block.output_gate {
                    sigmoid_gate(self.pool, &mut s.attended, &s.gate);
                }
                if let Some(norm) = &layer.attention_inner_norm {
                    s.normed.resize(s.attended.len(), 0.0);
                    norm.apply(self.pool, &s.attended, self.config.rms_eps, &mut s.normed);
                    std::mem::swap(&mut s.normed, &mut s.attended);
                }
            }
            Some(Attention::Latent(weights)) => {
                self.latent_qkv(weights, layer.rope);
                self.look_back(index, layer, mask);
                self.latent_values(weights);
            }
        }
        if let Some(o) = &layer.o {
            self.project(o, |s| match &layer.attention {
                Some(Attention::Latent(_)) => &s.latent.values,
                _ => &s.attended,
            });
            let s = &mut *self.scratch;
            if let Some(bias) = &layer.o_bias {
                add_bias(&mut s.branch, bias);
            }
            scale(&mut s.branch, self.config.block.attention_out_scale);
            self.convolve(layer.convolutions.as_ref().map(|both| &both[0]), 1);
            self.join(layer.attention_out_norm.as_ref());
        }
        if let Some(weights) = &layer.recurrent {
            self.project(&weights.out, |s| &s.recurrent.gate);
            self.join(layer.attention_out_norm.as_ref());
        }
    }

    /// branch = matrix(the buffer).
    fn project(&mut self, matrix: &Matrix, buffer: impl Fn(&PassScratch) -> &Vec<f32>) {
        let s = &mut *self.scratch;
        let mut branch = std::mem::take(&mut s.branch);
        let mut rows = std::mem::take(&mut s.rows);
        branch.resize(s.stream.len(), 0.0);
        products(self.pool, &mut rows, buffer(s), &mut [(matrix, &mut branch[..])]);
        (s.branch, s.rows) = (branch, rows);
        self.timing.products += self.clock.lap();
    }

    /// attended = attention(q, k, v) over the cache.
    fn look_back(&mut self, index: usize, layer: &Layer, mask: &TreeMask) {
        let Self { config, pool, .. } = *self;
        let s = &mut *self.scratch;
        let (kv_layer, width) = match (&layer.attention, &layer.o) {
            (Some(Attention::Grouped(weights)), Some(o)) => {
                (weights.kv_layer.unwrap_or(index), o.inputs())
            }
            _ => (index, config.q_width()),
        };
        if kv_layer == index {
            KvCache::write_each(pool, self.caches, index, mask.first(), &s.k, &s.v);
        }
        s.attended.resize(self.caches.len() * mask.len() * width, 0.0);
        self.timing.other += self.clock.lap();
        let options = AttentionOptions {
            scale: config.block.attention_scale,
            softcap: config.block.attention_softcap,
            window: layer.window,
            sinks: layer.sinks.as_deref(),
        };
        attention(pool, self.caches, kv_layer, &s.q, mask, &options, &mut s.attended);
        self.timing.attention += self.clock.lap();
    }

    /// The MLP half of a layer: stream += mlp(norm(stream)), or mlp of attention's norm.
    fn transform(&mut self, layer: &Layer) {
        let Some(mlp) = &layer.mlp else { return };
        match self.config.block.parallel {
            true => std::mem::swap(&mut self.scratch.branch, &mut self.scratch.shared_norm),
            false => self.norm(layer.mlp_norm.as_ref()),
        }
        let convolution = layer.convolutions.as_ref().map(|both| &both[1]);
        self.convolve_input(convolution);
        match mlp {
            Mlp::Dense(dense) => self.mlp(dense),
            Mlp::Experts(mixture) => match &mixture.beside {
                None => self.experts(mixture),
                Some(beside) => self.experts_beside(mixture, beside),
            },
        }
        self.convolve(convolution, 1);
        self.join(layer.mlp_out_norm.as_ref());
    }

    /// Computes the kernels of the rows from `branch`, and convolves it.
    fn convolve_input(&mut self, convolution: Option<&Convolution>) {
        let Some(own) = convolution else { return };
        let s = &mut *self.scratch;
        s.kernels.resize(s.branch.len() / own.dynamic.inputs() * own.dynamic.outputs(), 0.0);
        products(self.pool, &mut s.rows, &s.branch, &mut [(&own.dynamic, &mut s.kernels)]);
        self.convolve(convolution, 0);
    }

    /// branch = its rows, convolved by one side of the kernels of the rows.
    fn convolve(&mut self, convolution: Option<&Convolution>, side: usize) {
        let Some(&Convolution { taps, ref base, ref dynamic }) = convolution else { return };
        let s = &mut *self.scratch;
        let width = dynamic.inputs();
        let groups = dynamic.outputs() / (2 * taps);
        let kernels = s.kernels.chunks_exact(dynamic.outputs());
        // From the last row on, so that what a row reads is not yet convolved.
        for (row, kernel) in kernels.enumerate().rev() {
            for channel in 0..width {
                let group = channel * groups / width;
                let of = |tap: usize| {
                    let at = side * taps + tap;
                    let weight = base[at * width + channel] + kernel[at * groups + group];
                    weight * s.branch[(row - tap) * width + channel]
                };
                s.branch[row * width + channel] = (0..taps.min(row + 1)).map(of).sum();
            }
        }
        self.lap();
    }

    /// branch = mlp(branch).
    pub(super) fn mlp(&mut self, dense: &Dense) {
        let Self { config, pool, .. } = *self;
        let s = &mut *self.scratch;
        self.timing.other += self.clock.lap();
        s.mlp_out.resize(s.branch.len(), 0.0);
        dense.run(pool, config, &mut s.rows, &mut s.mlp, &s.branch, &mut s.mlp_out);
        std::mem::swap(&mut s.branch, &mut s.mlp_out);
        self.timing.products += self.clock.lap();
    }

    /// stream += what the layer adds for the row's token.
    fn add_embedding(&mut self, index: usize, layer: &Layer) {
        let Some(own) = &layer.per_layer else { return };
        let Self { config, pool, .. } = *self;
        let s = &mut *self.scratch;
        let dim = config.block.per_layer_dim;
        let row = config.layers * dim;
        s.per_layer_gate.resize(s.stream.len() / config.hidden * dim, 0.0);
        let gate = &mut s.per_layer_gate[..];
        products(pool, &mut s.rows, &s.stream, &mut [(&own.gate, &mut *gate)]);
        activate(pool, config.block.activation, gate);
        for (gate, all) in gate.chunks_exact_mut(dim).zip(s.per_layer.chunks_exact(row)) {
            for (x, own) in gate.iter_mut().zip(&all[index * dim..]) {
                *x *= own;
            }
        }
        products(pool, &mut s.rows, &s.per_layer_gate, &mut [(&own.projection, &mut s.branch)]);
        self.timing.products += self.clock.lap();
        self.join(Some(&own.norm));
    }

    /// branch = norm(stream), or the stream itself.
    pub(super) fn norm(&mut self, norm: Option<&NormWeights>) {
        let s = &mut *self.scratch;
        match norm {
            Some(norm) => norm.apply(self.pool, &s.stream, self.config.rms_eps, &mut s.branch),
            None => s.branch.copy_from_slice(&s.stream),
        }
        self.timing.other += self.clock.lap();
    }

    /// stream += branch, normed and scaled as in the family.
    pub(super) fn join(&mut self, norm: Option<&NormWeights>) {
        let s = &mut *self.scratch;
        if let Some(norm) = norm {
            norm.apply(self.pool, &s.branch, self.config.rms_eps, &mut s.branch_norm);
            std::mem::swap(&mut s.branch, &mut s.branch_norm);
        }
        scale(&mut s.branch, self.config.block.residual_scale);
        add(self.pool, &mut s.stream, &s.branch);
        self.timing.other += self.clock.lap();
    }

    /// Keys, values and, if wanted, queries of grouped-query attention from `branch`, rotated.
    fn grouped(&mut self, weights: &GroupedQuery, rotation: Option<usize>, queries: bool) {
        let Self { config, pool, .. } = *self;
        let s = &mut *self.scratch;
        let rows = s.branch.len() / weights.q.inputs();
        let gated = config.block.output_gate && queries;
        s.q.clear();
        let all = [queries.then_some(&weights.q), weights.k.as_ref(), weights.v.as_ref()];
        let q = if gated { &mut s.q_and_gate } else { &mut s.q };
        let mut qkv = Vec::with_capacity(3);
        for (matrix, buffer) in all.into_iter().zip([q, &mut s.k, &mut s.v]) {
            let Some(matrix) = matrix else { continue };
            buffer.resize(rows * matrix.outputs(), 0.0);
            qkv.push((matrix, &mut buffer[..]));
        }
        products(pool, &mut s.rows, &s.branch, &mut qkv);
        self.timing.products += self.clock.lap();
        if gated {
            s.part_gates(weights.head_dim);
        }
        if weights.v.is_none() && weights.k.is_some() {
            s.v.clone_from(&s.k);
        }
        if let Some([q, k, v]) = &weights.qkv_bias {
            add_bias(&mut s.q, q);
            add_bias(&mut s.k, k);
            add_bias(&mut s.v, v);
        }
        let late = config.block.qk_norm == QkNorm::PerHeadAfterRope;
        if !late {
            s.norm_heads(pool, config.rms_eps, weights);
        }
        if let Some(rotation) = rotation {
            let (cos, sin) = s.rotations[rotation].rows();
            let rotary = 2 * cos.len() / rows;
            if queries {
                rope(pool, &mut s.q, weights.head_dim, rotary, cos, sin);
            }
            if weights.k.is_some() {
                rope(pool, &mut s.k, weights.head_dim, rotary, cos, sin);
            }
        }
        if late {
            s.norm_heads(pool, config.rms_eps, weights);
        }
    }
}

/// Multiplies all numbers by a factor.
fn scale(x: &mut [f32], by: f32) {
    if by != 1.0 {
        for x in x.iter_mut() {
            *x *= by;
        }
    }
}

impl PassScratch {
    /// Takes the queries of each head and the gates after them apart.
    fn part_gates(&mut self, head_dim: usize) {
        let width = self.q_and_gate.len() / 2;
        self.q.resize(width, 0.0);
        self.gate.resize(width, 0.0);
        let parts = self.q.chunks_exact_mut(head_dim).zip(self.gate.chunks_exact_mut(head_dim));
        for ((q, gate), both) in parts.zip(self.q_and_gate.chunks_exact(2 * head_dim)) {
            q.copy_from_slice(&both[..head_dim]);
            gate.copy_from_slice(&both[head_dim..]);
        }
    }

    /// Norms q and k, and v, if the model has such norms.
    fn norm_heads(&mut self, pool: &Pool, eps: f32, weights: &GroupedQuery) {
        let own = weights.k.is_some();
        let [q, k] = weights.qk_norm.as_ref().map_or([None; 2], |[q, k]| [Some(q), Some(k)]);
        let own = if own { [k, weights.value_norm.as_ref()] } else { [None; 2] };
        for (norm, x) in [(q, &mut self.q), (own[0], &mut self.k), (own[1], &mut self.v)] {
            let Some(norm) = norm else { continue };
            self.normed.resize(x.len(), 0.0);
            norm.apply(pool, x, eps, &mut self.normed);
            std::mem::swap(x, &mut self.normed);
        }
    }
}
