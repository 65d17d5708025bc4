//! Multi-head latent attention (DeepSeek V2, section 2.1) in its absorbed form. The cache holds one
//! key head, which is the rotated part and the latent, and each head's query is projected to the
//! latent. The values are the latent itself, projected back after attention. It must not depend on
//! the other kind of attention.

use super::layer::Latent;
use super::scratch::{CpuBlocks, products};
use crate::kernels::{Matrix, Pool, QuantizedRows, rope};

impl CpuBlocks<'_> {
    /// Computes queries, keys and values from `branch`. A head's query and the only key are the
    /// rotated part and then the latent; the value is the latent and then zeros.
    pub(super) fn latent_qkv(&mut self, weights: &Latent, rotation: Option<usize>) {
        let Self { config, pool, .. } = *self;
        let Some(shape) = &config.block.latent else { return };
        let rank = shape.kv_rank;
        let rot = shape.rope_dim;
        let nope = shape.nope_dim;
        let head = nope + rot;
        let s = &mut *self.scratch;
        let l = &mut s.latent;
        let rows = s.branch.len() / config.hidden;

        s.q.resize(rows * config.q_width(), 0.0);
        for buffer in [&mut s.k, &mut s.v] {
            buffer.resize(rows * config.kv_width(), 0.0);
        }
        l.kv.resize(rows * (rank + rot), 0.0);
        l.q.resize(rows * config.heads * head, 0.0);
        match &weights.q_a {
            Some((matrix, norm)) => {
                l.q_latent.resize(rows * matrix.outputs(), 0.0);
                l.q_normed.resize(rows * matrix.outputs(), 0.0);
                let mut both = [(matrix, &mut l.q_latent[..]), (&weights.kv_a, &mut l.kv[..])];
                products(pool, &mut s.rows, &s.branch, &mut both);
                norm.apply(pool, &l.q_latent, config.rms_eps, &mut l.q_normed);
                products(pool, &mut s.rows, &l.q_normed, &mut [(&weights.q_b, &mut l.q)]);
            }
            None => {
                let mut both = [(&weights.q_b, &mut l.q[..]), (&weights.kv_a, &mut l.kv[..])];
                products(pool, &mut s.rows, &s.branch, &mut both);
            }
        }

        // The only key: rotated part, normed latent. The value: normed latent, zeros.
        gather(&l.kv, rank + rot, 0..rank, &mut l.latent);
        l.normed.resize(l.latent.len(), 0.0);
        weights.kv_norm.apply(pool, &l.latent, config.rms_eps, &mut l.normed);
        let keys = s.k.chunks_exact_mut(rot + rank).zip(s.v.chunks_exact_mut(rot + rank));
        for (((key, value), kv), latent) in
            keys.zip(l.kv.chunks_exact(rank + rot)).zip(l.normed.chunks_exact(rank))
        {
            key[..rot].copy_from_slice(&kv[rank..]);
            key[rot..].copy_from_slice(latent);
            value[..rank].copy_from_slice(latent);
            value[rank..].fill(0.0);
        }

        // Each head's query: the rotated part, then the other part multiplied by the head's matrix.
        let width = config.heads * (rot + rank);
        for (i, matrix) in weights.k_b.iter().enumerate() {
            let nope_at = i * head..i * head + nope;
            gather(&l.q, config.heads * head, nope_at, &mut l.head_in);
            product(pool, &mut s.rows, matrix, &l.head_in, &mut l.head_out);
            let at = i * (rot + rank);
            for (row, to) in s.q.chunks_exact_mut(width).enumerate() {
                let from = &l.q[row * config.heads * head + i * head + nope..][..rot];
                to[at..at + rot].copy_from_slice(from);
                to[at + rot..at + rot + rank].copy_from_slice(&l.head_out[row * rank..][..rank]);
            }
        }
        if let Some(rotation) = rotation {
            let (cos, sin) = s.rotations[rotation].rows();
            rope(pool, &mut s.q, rot + rank, rot, cos, sin);
            rope(pool, &mut s.k, rot + rank, rot, cos, sin);
        }
        self.timing.products += self.clock.lap();
    }

    /// Computes each head's value from the latents that attention summed.
    pub(super) fn latent_values(&mut self, weights: &Latent) {
        let Self { config, pool, .. } = *self;
        let Some(shape) = &config.block.latent else { return };
        let rank = shape.kv_rank;
        let value = shape.value_dim;
        let s = &mut *self.scratch;
        let l = &mut s.latent;
        let width = config.heads * config.head_dim;
        let rows = s.attended.len() / width;
        l.values.resize(rows * config.heads * value, 0.0);
        for (i, matrix) in weights.v_b.iter().enumerate() {
            let at = i * config.head_dim;
            gather(&s.attended, width, at..at + rank, &mut l.head_in);
            product(pool, &mut s.rows, matrix, &l.head_in, &mut l.head_out);
            let heads = l.values.chunks_exact_mut(config.heads * value);
            for (to, from) in heads.zip(l.head_out.chunks_exact(value)) {
                to[i * value..(i + 1) * value].copy_from_slice(from);
            }
        }
        self.timing.products += self.clock.lap();
    }
}

/// Copies the columns `at` of every row of `x`, whose rows are `width` wide, to `to`.
fn gather(x: &[f32], width: usize, at: std::ops::Range<usize>, to: &mut Vec<f32>) {
    to.clear();
    to.extend(x.chunks_exact(width).flat_map(|row| &row[at.clone()]));
}

fn product(pool: &Pool, rows: &mut QuantizedRows, matrix: &Matrix, x: &[f32], to: &mut Vec<f32>) {
    to.resize(x.len() / matrix.inputs() * matrix.outputs(), 0.0);
    products(pool, rows, x, &mut [(matrix, to)]);
}
