//! Recurrent layers over some rows: gated DeltaNet (Yang et al. 2025, "Gated Delta Networks"),
//! Mamba-2 (Dao and Gu 2024, "Transformers are SSMs") and gated short convolutions (LFM2). All
//! convolve rows along their paths; the first two then update a state per head. It must not depend
//! on which rows are committed.

use super::layer::Recurrent;
use super::scratch::{CpuBlocks, products};
use crate::kernels::{Activation, KvCache, Pool, StateKind, gated, rms_norm};
use crate::model::RecurrentLayers;

/// Above this, softplus is its argument.
const LINEAR: f32 = 20.0;

impl CpuBlocks<'_> {
    /// Computes the layer's results, `[rows, outputs]`, from `branch`, in the buffer `gate`.
    pub(super) fn recur(&mut self, weights: &Recurrent) {
        let Self { config, pool, .. } = *self;
        let Some(layers) = &config.block.recurrent else { return };
        let shape = &layers.shape;
        let s = &mut *self.scratch;
        let r = &mut s.recurrent;
        let rows = s.branch.len() / config.hidden;
        r.input.resize(rows * shape.channels, 0.0);
        r.gate.resize(rows * shape.outputs(), 0.0);
        r.out.resize(rows * shape.outputs(), 0.0);
        let factors: usize = weights.factors.iter().map(|matrix| matrix.outputs()).sum();
        r.factors.resize(rows * factors, 0.0);
        let mut rest = &mut r.factors[..];
        let mut all = vec![(&weights.input, &mut r.input[..]), (&weights.gate, &mut r.gate[..])];
        for matrix in &weights.factors {
            let (own, later) = rest.split_at_mut(rows * matrix.outputs());
            all.push((matrix, own));
            rest = later;
        }
        products(pool, &mut s.rows, &s.branch, &mut all);
        self.timing.products += self.clock.lap();
        if shape.heads == 0 {
            multiply(&mut r.input, &r.factors);
        }
        r.gates.resize(rows * 2 * shape.heads, 0.0);
        gates(pool, layers, weights, &r.factors, &mut r.gates);
        let inputs = [&r.input[..], &r.gates];
        KvCache::recur(pool, self.caches, weights.index, &weights.states, inputs, &mut r.out);
        self.timing.attention += self.clock.lap();
        if shape.heads == 0 {
            multiply(&mut r.gate, &r.out);
            return;
        }
        r.normed.resize(r.out.len(), 0.0);
        if shape.kind == StateKind::Delta {
            rms_norm(pool, &r.out, &weights.norm, config.rms_eps, &mut r.normed);
            gated(pool, Activation::Silu, &mut r.gate, &r.normed);
            return;
        }
        gated(pool, Activation::Silu, &mut r.gate, &r.out);
        if !weights.norm.is_empty() {
            let ones = vec![1.0; shape.outputs() / shape.key_heads];
            rms_norm(pool, &r.gate, &ones, config.rms_eps, &mut r.normed);
            for row in r.normed.chunks_exact_mut(shape.outputs()) {
                multiply(row, &weights.norm);
            }
            std::mem::swap(&mut r.gate, &mut r.normed);
        }
    }
}

/// x = x · y, element by element.
fn multiply(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x *= y;
    }
}

/// The decays and factors of all heads, `[rows, 2 · heads]`.
fn gates(
    pool: &Pool,
    layers: &RecurrentLayers,
    weights: &Recurrent,
    factors: &[f32],
    out: &mut [f32],
) {
    let shape = &layers.shape;
    let heads = shape.heads;
    if heads == 0 {
        return;
    }
    let rows = out.len() / (2 * heads);
    pool.chunks(out, 2 * heads, |row, out| {
        let (decays, others) = out.split_at_mut(heads);
        for head in 0..heads {
            let (step, factor) = if shape.kind == StateKind::Mamba2 {
                (factors[row * heads + head], None)
            } else if layers.fused_gates {
                // For each key head, first all factors and then all steps.
                let group = heads / shape.key_heads;
                let at = 2 * row * heads + head / group * 2 * group + head % group;
                (factors[at + group], Some(factors[at]))
            } else {
                (factors[(rows + row) * heads + head], Some(factors[row * heads + head]))
            };
            let step = softplus(step + weights.step_bias[head]);
            decays[head] = libm::expf(weights.decay[head] * step);
            others[head] = factor.map_or(step, |factor| 1.0 / (1.0 + libm::expf(-factor)));
        }
    });
}

/// ln(1 + eˣ).
fn softplus(x: f32) -> f32 {
    if x > LINEAR { x } else { libm::log1pf(libm::expf(x)) }
}
