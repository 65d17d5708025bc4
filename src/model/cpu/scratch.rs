//! What the steps of a pass through some blocks work with: the buffers that are reused by the next
//! pass, the clock, and the products and biases that every part of a block needs. It must not
//! depend on a block's order of steps.

use std::time::{Duration, Instant};

use crate::kernels::{AlignedFloats, KvCache, Matrix, Pool, QuantizedRows, TreeMask, multiply};
use crate::model::rope::Rotations;
use crate::model::{Config, RopeTable};

/// Where the last pass spent its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassTiming {
    /// Matrix products, including the quantisation of their inputs.
    pub products: Duration,
    /// Attention over the cache.
    pub attention: Duration,
    /// Everything else: embedding, norms, rotary positions, cache writes, activation, sums.
    pub other: Duration,
}

/// Measures the time between its calls.
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.0, now)
    }
}

/// Buffers of a pass, reused by the next: they grow to the most rows seen so far.
#[derive(Default)]
pub(in crate::model) struct PassScratch {
    pub(super) rows: QuantizedRows,
    /// One for each of the model's rope tables.
    pub(super) rotations: Vec<Rotations>,
    /// The residual stream `[rows, H]`.
    pub(in crate::model) stream: Vec<f32>,
    /// The output of a norm, later of a branch: `[rows, H]`.
    pub(super) branch: Vec<f32>,
    /// The norm that attention has read, if the MLP reads it too: `[rows, H]`.
    pub(super) shared_norm: Vec<f32>,
    /// Room for a branch's own norm: `[rows, H]`.
    pub(super) branch_norm: Vec<f32>,
    /// The kernels of a convolution, `[rows, 2 · taps · groups]`.
    pub(super) kernels: Vec<f32>,
    /// Room for an MLP's output, `[rows, H]`.
    pub(super) mlp_out: Vec<f32>,
    pub(super) q: Vec<f32>,
    pub(super) k: Vec<f32>,
    pub(super) v: Vec<f32>,
    /// Queries and gates of attention with gated outputs, `[rows, heads · 2 d]`, and the gates.
    pub(super) q_and_gate: Vec<f32>,
    pub(super) gate: Vec<f32>,
    /// `[rows, heads · d]`: attention's output.
    pub(super) attended: Vec<f32>,
    /// Room for normed queries, keys and values.
    pub(super) normed: Vec<f32>,
    /// The embeddings that the layers add, `[rows, layers · per_layer_dim]`, and the gate of one
    /// layer's.
    pub(super) per_layer: Vec<f32>,
    pub(super) per_layer_gate: Vec<f32>,
    pub(super) mlp: MlpScratch,
    pub(super) latent: LatentScratch,
    pub(super) recurrent: RecurrentScratch,
    pub(super) experts: ExpertScratch,
}

/// Buffers of one MLP, `[rows, I]` each.
#[derive(Default)]
pub(super) struct MlpScratch {
    pub(super) gate: AlignedFloats,
    pub(super) up: AlignedFloats,
    /// The input of `down`, if it passes a norm.
    pub(super) normed: AlignedFloats,
}

/// Buffers of latent attention.
#[derive(Default)]
pub(super) struct LatentScratch {
    /// `[rows, q_rank]` before and after its norm.
    pub(super) q_latent: Vec<f32>,
    pub(super) q_normed: Vec<f32>,
    /// `[rows, heads · (nope + rope)]`.
    pub(super) q: Vec<f32>,
    /// `[rows, kv_rank + rope]`.
    pub(super) kv: Vec<f32>,
    /// `[rows, kv_rank]` before and after its norm.
    pub(super) latent: Vec<f32>,
    pub(super) normed: Vec<f32>,
    /// One head's part of every row, before and after a product.
    pub(super) head_in: Vec<f32>,
    pub(super) head_out: Vec<f32>,
    /// What attention computes, `[rows, heads · value]`.
    pub(super) values: Vec<f32>,
}

/// Buffers of recurrent layers.
#[derive(Default)]
pub(super) struct RecurrentScratch {
    /// `[rows, channels]`.
    pub(super) input: Vec<f32>,
    /// `[rows, outputs]`: the gate, and then what it has let through.
    pub(super) gate: Vec<f32>,
    /// One matrix's `[rows, its outputs]` after the other's.
    pub(super) factors: Vec<f32>,
    /// `[rows, 2 · heads]`.
    pub(super) gates: Vec<f32>,
    /// `[rows, outputs]`, and room for its norm.
    pub(super) out: Vec<f32>,
    pub(super) normed: Vec<f32>,
}

/// Buffers of a mixture.
#[derive(Default)]
pub(super) struct ExpertScratch {
    /// The router's logits, `[rows, E]`.
    pub(super) logits: Vec<f32>,
    /// For each expert, its rows and their weights; kept to reuse the allocations.
    pub(super) chosen: Vec<Vec<(usize, f32)>>,
    /// The rows of one expert, `[its rows, H]`, and its outputs for them.
    pub(super) input: Vec<f32>,
    pub(super) output: Vec<f32>,
    /// What experts in a latent space read, `[rows, latent]`, and the shared expert's output.
    pub(super) latent: Vec<f32>,
    pub(super) shared: Vec<f32>,
    /// The gate of the shared expert, `[rows]`.
    pub(super) gates: Vec<f32>,
}

impl PassScratch {
    fn fit(&mut self, config: &Config, rows: usize) {
        let block = &config.block;
        for (buffer, width) in [
            (&mut self.stream, config.hidden),
            (&mut self.branch, config.hidden),
            (&mut self.branch_norm, if block.output_norms { config.hidden } else { 0 }),
        ] {
            buffer.resize(rows * width, 0.0);
        }
    }
}

/// What a pass through some blocks works with.
pub(in crate::model) struct CpuBlocks<'a> {
    pub(in crate::model) config: &'a Config,
    pub(in crate::model) pool: &'a Pool,
    /// Each has the same number of rows, those of the first cache first. There is one cache unless
    /// several texts run in parallel.
    pub(in crate::model) caches: &'a mut [KvCache],
    pub(in crate::model) scratch: &'a mut PassScratch,
    pub(in crate::model) timing: &'a mut PassTiming,
    pub(super) clock: Clock,
}

impl<'a> CpuBlocks<'a> {
    /// Begins a pass and its clock.
    pub(in crate::model) fn begin(
        config: &'a Config,
        pool: &'a Pool,
        caches: &'a mut [KvCache],
        scratch: &'a mut PassScratch,
        timing: &'a mut PassTiming,
    ) -> Self {
        Self { config, pool, caches, scratch, timing, clock: Clock(Instant::now()) }
    }

    /// Makes room for the rows of every cache; a row's position comes after those that it sees. The
    /// caller then puts the rows into `scratch.stream`.
    pub(in crate::model) fn place(&mut self, mask: &TreeMask, tables: &[RopeTable]) {
        let rows = self.caches.len() * mask.len();
        self.scratch.fit(self.config, rows);
        for cache in self.caches.iter_mut() {
            cache.begin(mask);
        }
        self.scratch.rotations.resize_with(tables.len(), Rotations::default);
        for (rotations, table) in self.scratch.rotations.iter_mut().zip(tables) {
            rotations.fit(rows, 2 * table.frequencies.len());
            for row in 0..rows {
                let len = self.caches[row / mask.len()].len();
                rotations.set(row, len + mask.depth(row % mask.len()), table);
            }
        }
    }

    /// Computes all products of `x` in one dispatch.
    pub(in crate::model) fn products(&mut self, x: &[f32], all: &mut [(&Matrix, &mut [f32])]) {
        self.lap();
        products(self.pool, &mut self.scratch.rows, x, all);
        self.timing.products += self.clock.lap();
    }

    /// Counts the time since the last call as neither products nor attention.
    pub(in crate::model) fn lap(&mut self) {
        self.timing.other += self.clock.lap();
    }
}

/// Computes all products of the same input in one dispatch.
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

/// Adds a bias to every row.
pub(in crate::model) fn add_bias(rows: &mut [f32], bias: &[f32]) {
    for row in rows.chunks_exact_mut(bias.len()) {
        for (x, b) in row.iter_mut().zip(bias) {
            *x += b;
        }
    }
}
