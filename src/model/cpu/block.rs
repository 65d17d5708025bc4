//! One decoder block over some rows: the arithmetic that a target and a draft head share. Every
//! call gives a row the same bits whatever rows go with it, so the block does too.

use std::time::{Duration, Instant};

use super::experts::ExpertScratch;
use super::latent::LatentScratch;
use super::layer::{Attention, Dense, GroupedQuery, Layer, Mlp, Norm};
use crate::kernels::{
    AttentionOptions, KvCache, Matrix, Pool, QuantizedRows, TreeMask, activate, add,
    attention_with, gated, multiply, partial_rope, rms_norm,
};
use crate::model::rope::Rotations;
use crate::model::{Config, RopeTable};

/// Where the time of the last pass went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassTiming {
    /// Matrix products, quantising their inputs included.
    pub products: Duration,
    /// Attention over the cache.
    pub attention: Duration,
    /// All else: embedding, norms, rotary positions, cache writes, activation, sums.
    pub other: Duration,
}

/// Measures the stretches between its calls.
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.0, now)
    }
}

/// Buffers of a pass, kept from one to the next: they grow to the most rows ever seen.
#[derive(Default)]
pub(in crate::model) struct Scratch {
    pub(super) rows: QuantizedRows,
    /// One for each of the model's rope tables.
    pub(super) rotations: Vec<Rotations>,
    /// The residual stream `[rows, H]`.
    pub(in crate::model) stream: Vec<f32>,
    /// A norm's output, later a branch's: `[rows, H]`.
    pub(super) branch: Vec<f32>,
    /// Room for a branch's own norm: `[rows, H]`.
    branch_norm: Vec<f32>,
    /// Room for an MLP's output, `[rows, H]`.
    pub(super) mlp_out: Vec<f32>,
    pub(super) q: Vec<f32>,
    pub(super) k: Vec<f32>,
    pub(super) v: Vec<f32>,
    /// `[rows, heads · d]`: attention's output.
    pub(super) attended: Vec<f32>,
    /// `[rows, kv_heads · d]`: room for normed keys.
    normed: Vec<f32>,
    pub(super) mlp: MlpScratch,
    pub(super) latent: LatentScratch,
    pub(super) experts: ExpertScratch,
}

/// Buffers of one MLP, `[rows, I]` each.
#[derive(Default)]
pub(super) struct MlpScratch {
    gate: Vec<f32>,
    up: Vec<f32>,
}

impl Scratch {
    fn fit(&mut self, config: &Config, rows: usize) {
        let block = &config.block;
        for (buffer, width) in [
            (&mut self.stream, config.hidden),
            (&mut self.branch, config.hidden),
            (&mut self.branch_norm, if block.output_norms { config.hidden } else { 0 }),
            (&mut self.q, config.q_width()),
            (&mut self.attended, config.q_width()),
            (&mut self.k, config.kv_width()),
            (&mut self.v, config.kv_width()),
            (&mut self.normed, if config.qk_norm { config.kv_width() } else { 0 }),
        ] {
            buffer.resize(rows * width, 0.0);
        }
    }
}

/// What a pass through some blocks works with.
pub(in crate::model) struct Blocks<'a> {
    pub(in crate::model) config: &'a Config,
    pub(in crate::model) pool: &'a Pool,
    pub(in crate::model) cache: &'a mut KvCache,
    pub(in crate::model) scratch: &'a mut Scratch,
    pub(in crate::model) timing: &'a mut PassTiming,
    pub(super) clock: Clock,
}

impl<'a> Blocks<'a> {
    /// Begins a pass and its clock.
    pub(in crate::model) fn begin(
        config: &'a Config,
        pool: &'a Pool,
        cache: &'a mut KvCache,
        scratch: &'a mut Scratch,
        timing: &'a mut PassTiming,
    ) -> Self {
        Self { config, pool, cache, scratch, timing, clock: Clock(Instant::now()) }
    }

    /// Makes room for `rows` rows, row i at `position(i)`. They are then to be put into
    /// `scratch.stream`.
    pub(in crate::model) fn place(
        &mut self,
        rows: usize,
        position: impl Fn(usize) -> usize,
        tables: &[RopeTable],
    ) {
        self.scratch.fit(self.config, rows);
        self.scratch.rotations.resize_with(tables.len(), Rotations::default);
        for (rotations, table) in self.scratch.rotations.iter_mut().zip(tables) {
            rotations.fit(rows, self.config.rotary_dim());
            for row in 0..rows {
                rotations.set(row, position(row), table);
            }
        }
    }

    /// Runs the stream through block `index`; the rows' keys and values stay in flight.
    pub(in crate::model) fn run(&mut self, index: usize, layer: &Layer, mask: &TreeMask) {
        self.lap();
        self.attend(index, layer, mask);
        self.transform(layer);
    }

    /// All products of `x` in one dispatch.
    pub(in crate::model) fn products(&mut self, x: &[f32], all: &mut [(&Matrix, &mut [f32])]) {
        self.lap();
        products(self.pool, &mut self.scratch.rows, x, all);
        self.timing.products += self.clock.lap();
    }

    /// Counts the time since the last call as other than products and attention.
    pub(in crate::model) fn lap(&mut self) {
        self.timing.other += self.clock.lap();
    }

    /// The attention half of a layer: stream += o(attention(q, k, v)).
    fn attend(&mut self, index: usize, layer: &Layer, mask: &TreeMask) {
        self.norm(layer.attention_norm.as_ref());
        match &layer.attention {
            Attention::Grouped(weights) => self.grouped(weights, layer.rope),
            Attention::Latent(weights) => self.latent_qkv(weights, layer.rope),
        }
        let Self { config, pool, .. } = *self;
        let s = &mut *self.scratch;
        self.cache.write_behind(pool, index, mask.first(), &s.k, &s.v);
        self.timing.other += self.clock.lap();
        let options = AttentionOptions {
            scale: config.block.attention_scale,
            softcap: config.block.attention_softcap,
            window: layer.window,
            sinks: layer.sinks.as_deref(),
        };
        attention_with(pool, self.cache, index, &s.q, mask, &options, &mut s.attended);
        self.timing.attention += self.clock.lap();
        if let Attention::Latent(weights) = &layer.attention {
            self.latent_values(weights);
        }
        let s = &mut *self.scratch;
        let attended = match &layer.attention {
            Attention::Grouped(_) => &s.attended,
            Attention::Latent(_) => s.latent.values(),
        };
        products(pool, &mut s.rows, attended, &mut [(&layer.o, &mut s.branch[..])]);
        self.timing.products += self.clock.lap();
        if let Some(bias) = &layer.o_bias {
            add_bias(&mut s.branch, bias);
        }
        self.join(layer.attention_out_norm.as_ref());
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
    fn norm(&mut self, norm: Option<&Norm>) {
        let s = &mut *self.scratch;
        match norm {
            Some(norm) => norm.apply(self.pool, &s.stream, self.config.rms_eps, &mut s.branch),
            None => s.branch.copy_from_slice(&s.stream),
        }
        self.timing.other += self.clock.lap();
    }

    /// stream += branch, normed and scaled as the family does it.
    fn join(&mut self, norm: Option<&Norm>) {
        let s = &mut *self.scratch;
        if let Some(norm) = norm {
            norm.apply(self.pool, &s.branch, self.config.rms_eps, &mut s.branch_norm);
            std::mem::swap(&mut s.branch, &mut s.branch_norm);
        }
        let scale = self.config.block.residual_scale;
        if scale != 1.0 {
            s.branch.iter_mut().for_each(|x| *x *= scale);
        }
        add(self.pool, &mut s.stream, &s.branch);
        self.timing.other += self.clock.lap();
    }

    /// Queries, keys and values of grouped-query attention from `branch`, rotated.
    fn grouped(&mut self, weights: &GroupedQuery, rope: Option<usize>) {
        let Self { config, pool, .. } = *self;
        let s = &mut *self.scratch;
        let mut qkv =
            [(&weights.q, &mut s.q[..]), (&weights.k, &mut s.k[..]), (&weights.v, &mut s.v[..])];
        products(pool, &mut s.rows, &s.branch, &mut qkv);
        self.timing.products += self.clock.lap();
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
        if let Some(rope) = rope {
            let (cos, sin) = s.rotations[rope].rows();
            let rotary = config.rotary_dim();
            partial_rope(pool, &mut s.q, config.head_dim, rotary, cos, sin);
            partial_rope(pool, &mut s.k, config.head_dim, rotary, cos, sin);
        }
    }
}

impl Dense {
    /// out = down(activation(gate(x)) · up(x)), rows of `x` as they come.
    pub(super) fn run(
        &self,
        pool: &Pool,
        config: &Config,
        rows: &mut QuantizedRows,
        scratch: &mut MlpScratch,
        x: &[f32],
        out: &mut [f32],
    ) {
        let width = x.len() / self.up.inputs() * self.up.outputs();
        let MlpScratch { gate, up } = scratch;
        up.resize(width, 0.0);
        let activation = config.block.activation;
        let inner = match &self.gate {
            Some(matrix) => {
                gate.resize(width, 0.0);
                products(pool, rows, x, &mut [(matrix, gate), (&self.up, up)]);
                for (values, bias) in [(&mut *gate, &self.gate_bias), (&mut *up, &self.up_bias)] {
                    if let Some(bias) = bias {
                        add_bias(values, bias);
                    }
                }
                gated(pool, activation, gate, up);
                gate
            }
            None => {
                products(pool, rows, x, &mut [(&self.up, up)]);
                if let Some(bias) = &self.up_bias {
                    add_bias(up, bias);
                }
                activate(pool, activation, up);
                up
            }
        };
        products(pool, rows, inner, &mut [(&self.down, out)]);
        if let Some(bias) = &self.down_bias {
            add_bias(out, bias);
        }
    }
}

/// All products of the same input, in one dispatch.
pub(super) fn products(
    pool: &Pool,
    rows: &mut QuantizedRows,
    x: &[f32],
    products: &mut [(&Matrix, &mut [f32])],
) {
    let inputs = products.first().map_or(0, |(matrix, _)| matrix.inputs());
    rows.prepare(pool, x, inputs, products.iter().map(|(matrix, _)| matrix.format()));
    multiply(pool, rows, products);
}

pub(super) fn add_bias(rows: &mut [f32], bias: &[f32]) {
    for row in rows.chunks_exact_mut(bias.len()) {
        for (x, b) in row.iter_mut().zip(bias) {
            *x += b;
        }
    }
}
