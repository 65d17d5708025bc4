//! One forward pass over some rows: the arithmetic of the transformer, layer by layer. Every call
//! gives a row the same bits whatever rows go with it, so the pass does too.

use std::time::{Duration, Instant};

use super::super::Config;
use super::super::rope::Rotations;
use super::weights::{Layer, Weights};
use crate::kernels::{
    KvCache, Matrix, Paths, Pool, Rows, add, attention, multiply, rms_norm, rope, silu_mul,
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
pub(super) struct Scratch {
    rows: Rows,
    rotations: Rotations,
    /// The residual stream `[rows, H]`.
    stream: Vec<f32>,
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

/// What a pass works with.
pub(super) struct Pass<'a> {
    pub(super) config: &'a Config,
    pub(super) weights: &'a Weights,
    pub(super) pool: &'a Pool,
    pub(super) cache: &'a mut KvCache,
    pub(super) scratch: &'a mut Scratch,
    pub(super) timing: &'a mut PassTiming,
}

impl Pass<'_> {
    /// Runs one row for each of `tokens`, row i at position `len + depth(i)` and seeing
    /// `paths.of(i)` behind the committed prefix; leaves their keys and values behind it. Writes
    /// the outputs of the final norm to `features`, `[rows, H]`.
    pub(super) fn run(
        &mut self,
        tokens: &[u32],
        depth: impl Fn(usize) -> usize,
        paths: &Paths,
        features: &mut [f32],
    ) {
        let Self { config, weights, pool, .. } = *self;
        let mut clock = Clock(Instant::now());
        let s = &mut *self.scratch;
        s.fit(config, tokens.len());
        for row in 0..tokens.len() {
            s.rotations.set(row, self.cache.len() + depth(row), &weights.frequencies);
        }
        pool.chunks(&mut s.stream, config.hidden, |row, stream| {
            weights.embedding.row(tokens[row] as usize, stream);
        });
        self.timing.other += clock.lap();
        for (index, layer) in weights.layers.iter().enumerate() {
            self.attend(index, layer, paths, &mut clock);
            self.transform(layer, &mut clock);
        }
        rms_norm(pool, &self.scratch.stream, &weights.norm, config.rms_eps, features);
        self.timing.other += clock.lap();
    }

    /// The LM head on `features`, `[rows, H]`, into `logits`, `[rows, V]`.
    pub(super) fn head(&mut self, features: &[f32], logits: &mut [f32]) {
        let mut clock = Clock(Instant::now());
        let head = self.weights.head();
        products(self.pool, &mut self.scratch.rows, features, &mut [(head, logits)]);
        self.timing.products += clock.lap();
    }

    /// The attention half of a layer: stream += o(attention(q, k, v)).
    fn attend(&mut self, index: usize, layer: &Layer, paths: &Paths, clock: &mut Clock) {
        let Self { config, pool, .. } = *self;
        let (s, timing) = (&mut *self.scratch, &mut *self.timing);
        rms_norm(pool, &s.stream, &layer.attention_norm, config.rms_eps, &mut s.branch);
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
        self.cache.write(pool, index, &s.k, &s.v);
        timing.other += clock.lap();
        attention(pool, self.cache, index, &s.q, paths, &mut s.attended);
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
    fn transform(&mut self, layer: &Layer, clock: &mut Clock) {
        let Self { config, pool, .. } = *self;
        let (s, timing) = (&mut *self.scratch, &mut *self.timing);
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
fn products(pool: &Pool, rows: &mut Rows, x: &[f32], products: &mut [(&Matrix, &mut [f32])]) {
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
