//! One decoder block over some rows: the arithmetic that a target and a draft head share. Every
//! call gives a row the same bits whatever rows go with it, so the block does too.

use std::time::{Duration, Instant};

use super::super::Config;
use super::super::rope::Rotations;
use super::weights::Layer;
use crate::kernels::{
    KvCache, Matrix, Pool, QuantizedRows, TreeMask, add, attention, multiply, rms_norm, rope,
    silu_mul,
};

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
struct Clock(Instant);

impl Clock {
    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.0, now)
    }
}

/// Buffers of a pass, kept from one to the next: they grow to the most rows ever seen.
#[derive(Default)]
pub(in crate::model) struct Scratch {
    rows: QuantizedRows,
    rotations: Rotations,
    /// The residual stream `[rows, H]`.
    pub(in crate::model) stream: Vec<f32>,
    /// A norm's output, later a branch's: `[rows, H]`.
    branch: Vec<f32>,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    /// `[rows, heads · d]`: attention's output.
    attended: Vec<f32>,
    /// `[rows, kv_heads · d]`: room for normed keys.
    normed: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
}

impl Scratch {
    fn fit(&mut self, config: &Config, rows: usize) {
        self.rotations.fit(rows, config.head_dim);
        for (buffer, width) in [
            (&mut self.stream, config.hidden),
            (&mut self.branch, config.hidden),
            (&mut self.q, config.q_width()),
            (&mut self.attended, config.q_width()),
            (&mut self.k, config.kv_width()),
            (&mut self.v, config.kv_width()),
            (&mut self.normed, if config.qk_norm { config.kv_width() } else { 0 }),
            (&mut self.gate, config.intermediate),
            (&mut self.up, config.intermediate),
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
    clock: Clock,
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
        frequencies: &[f32],
    ) {
        self.scratch.fit(self.config, rows);
        for row in 0..rows {
            self.scratch.rotations.set(row, position(row), frequencies);
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
        let Self { config, pool, .. } = *self;
        let (s, timing, clock) = (&mut *self.scratch, &mut *self.timing, &mut self.clock);
        match &layer.attention_norm {
            Some(weight) => rms_norm(pool, &s.stream, weight, config.rms_eps, &mut s.branch),
            None => s.branch.copy_from_slice(&s.stream),
        }
        timing.other += clock.lap();
        let mut qkv =
            [(&layer.q, &mut s.q[..]), (&layer.k, &mut s.k[..]), (&layer.v, &mut s.v[..])];
        products(pool, &mut s.rows, &s.branch, &mut qkv);
        timing.products += clock.lap();
        if let Some([q, k, v]) = &layer.qkv_bias {
            add_bias(&mut s.q, q);
            add_bias(&mut s.k, k);
            add_bias(&mut s.v, v);
        }
        if let Some([q, k]) = &layer.qk_norm {
            rms_norm(pool, &s.q, q, config.rms_eps, &mut s.attended);
            std::mem::swap(&mut s.q, &mut s.attended);
            rms_norm(pool, &s.k, k, config.rms_eps, &mut s.normed);
            std::mem::swap(&mut s.k, &mut s.normed);
        }
        let (cos, sin) = s.rotations.rows();
        rope(pool, &mut s.q, config.head_dim, cos, sin);
        rope(pool, &mut s.k, config.head_dim, cos, sin);
        self.cache.write_behind(pool, index, mask.first(), &s.k, &s.v);
        timing.other += clock.lap();
        attention(pool, self.cache, index, &s.q, mask, &mut s.attended);
        timing.attention += clock.lap();
        products(pool, &mut s.rows, &s.attended, &mut [(&layer.o, &mut s.branch[..])]);
        timing.products += clock.lap();
        if let Some(bias) = &layer.o_bias {
            add_bias(&mut s.branch, bias);
        }
        add(pool, &mut s.stream, &s.branch);
        timing.other += clock.lap();
    }

    /// The MLP half of a layer: stream += down(silu(gate) · up).
    fn transform(&mut self, layer: &Layer) {
        let Self { config, pool, .. } = *self;
        let (s, timing, clock) = (&mut *self.scratch, &mut *self.timing, &mut self.clock);
        rms_norm(pool, &s.stream, &layer.mlp_norm, config.rms_eps, &mut s.branch);
        timing.other += clock.lap();
        let mut gate_up = [(&layer.gate, &mut s.gate[..]), (&layer.up, &mut s.up[..])];
        products(pool, &mut s.rows, &s.branch, &mut gate_up);
        timing.products += clock.lap();
        silu_mul(pool, &mut s.gate, &s.up);
        timing.other += clock.lap();
        products(pool, &mut s.rows, &s.gate, &mut [(&layer.down, &mut s.branch[..])]);
        timing.products += clock.lap();
        add(pool, &mut s.stream, &s.branch);
        timing.other += clock.lap();
    }
}

/// All products of the same input, in one dispatch.
fn products(
    pool: &Pool,
    rows: &mut QuantizedRows,
    x: &[f32],
    products: &mut [(&Matrix, &mut [f32])],
) {
    let inputs = products.first().map_or(0, |(matrix, _)| matrix.inputs());
    rows.prepare(pool, x, inputs, products.iter().map(|(matrix, _)| matrix.format()));
    multiply(pool, rows, products);
}

fn add_bias(rows: &mut [f32], bias: &[f32]) {
    for row in rows.chunks_exact_mut(bias.len()) {
        for (x, b) in row.iter_mut().zip(bias) {
            *x += b;
        }
    }
}
