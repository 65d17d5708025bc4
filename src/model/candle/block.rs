//! The decoder block's forward pass as functions of candle tensors, on any device and in any
//! precision. It must not depend on whether a draft head or a target runs it.

use candle_core::{DType, Device, Tensor};
use candle_nn::ops;

use super::cache::BlockCache;
use super::weights::{BlockWeights, Linear};
use crate::model::rope::Rotations;
use crate::model::{Config, RopeTable};

/// The positions of the rows of one pass, and what they see.
#[derive(Clone, Debug)]
pub struct Places {
    /// `[rows, d / 2]`.
    cos: Tensor,
    /// `[rows, d / 2]`.
    sin: Tensor,
    /// `[rows, len]` in f32: 0 where a row sees a KV row, −∞ where it does not; `None` if all rows
    /// see all KV rows.
    mask: Option<Tensor>,
    /// The first KV row that the pass writes.
    at: usize,
    /// How many KV rows there are after the pass.
    len: usize,
}

impl Places {
    /// Rows at `positions` that write the KV rows from `at` on and then see what `mask` allows.
    pub(in crate::model) fn new(
        rope: &RopeTable,
        positions: &[usize],
        mask: Option<Tensor>,
        at: usize,
        (device, dtype): (&Device, DType),
    ) -> candle_core::Result<Self> {
        let (rows, half) = (positions.len(), rope.frequencies.len());
        let mut rotations = Rotations::default();
        rotations.fit(rows, 2 * half);
        for (row, &position) in positions.iter().enumerate() {
            rotations.set(row, position, rope);
        }
        let (cos, sin) = rotations.rows();
        let put = |values| Tensor::from_slice(values, (rows, half), device)?.to_dtype(dtype);
        Ok(Self { cos: put(cos)?, sin: put(sin)?, mask, at, len: at + rows })
    }
}

/// A decoder block that computes q, k and v in one product and gate and up in one product.
#[derive(Clone, Debug)]
pub(in crate::model) struct Block {
    input_norm: Option<Tensor>,
    qk_norm: Option<[Tensor; 2]>,
    qkv: Linear,
    o: Tensor,
    post_norm: Tensor,
    gate_up: Tensor,
    down: Tensor,
}

impl Block {
    /// Joins the products of `weights`, the weights of a block of `config`.
    pub(in crate::model) fn new(
        weights: &BlockWeights,
        config: &Config,
    ) -> candle_core::Result<Self> {
        let BlockWeights { q, k, v, .. } = weights;
        let bias = match (&q.bias, &k.bias, &v.bias) {
            (Some(q), Some(k), Some(v)) => Some(Tensor::cat(&[q, k, v], 0)?),
            _ => None,
        };
        debug_assert_eq!(q.weight.dim(0)?, config.q_width());
        Ok(Self {
            input_norm: weights.input_norm.clone(),
            qk_norm: weights.qk_norm.clone(),
            qkv: Linear { weight: Tensor::cat(&[&q.weight, &k.weight, &v.weight], 0)?, bias },
            o: weights.o.clone(),
            post_norm: weights.post_norm.clone(),
            gate_up: Tensor::cat(&[&weights.gate, &weights.up], 0)?,
            down: weights.down.clone(),
        })
    }

    /// Runs `x` `[rows, H]` through the block, writing its KV rows to `cache`.
    pub(in crate::model) fn run(
        &self,
        x: Tensor,
        config: &Config,
        places: &Places,
        cache: &BlockCache,
    ) -> candle_core::Result<Tensor> {
        // Block 0 has no norm of its own: it reads the fused input directly (method.md, Draft
        // heads).
        let normed = match &self.input_norm {
            Some(weight) => ops::rms_norm(&x, weight, config.rms_eps)?,
            None => x.clone(),
        };
        self.run_on(&normed, x, config, places, cache)
    }

    /// The same, but attention reads `input` `[rows, any width]`; its result is added to `x`
    /// `[rows, H]`.
    pub(in crate::model) fn run_on(
        &self,
        input: &Tensor,
        x: Tensor,
        config: &Config,
        places: &Places,
        cache: &BlockCache,
    ) -> candle_core::Result<Tensor> {
        let attended = self.attend(input, config, places, cache)?;
        let x = (x + linear(&attended, &self.o, None)?)?;
        let normed = ops::rms_norm(&x, &self.post_norm, config.rms_eps)?;
        let inner = ops::swiglu(&linear(&normed, &self.gate_up, None)?)?;
        x + linear(&inner, &self.down, None)?
    }

    /// Attention of `x` `[rows, width]` over the cache and over `x` itself, `[rows, heads · d]`.
    fn attend(
        &self,
        x: &Tensor,
        config: &Config,
        places: &Places,
        cache: &BlockCache,
    ) -> candle_core::Result<Tensor> {
        let rows = x.dim(0)?;
        let Config { heads, kv_heads, head_dim, .. } = *config;
        let group = heads / kv_heads;
        let qkv = linear(x, &self.qkv.weight, self.qkv.bias.as_ref())?;
        // One copy moves all heads to the front; then q, k and v are slices of it.
        let qkv = qkv.reshape((rows, heads + 2 * kv_heads, head_dim))?.transpose(0, 1)?;
        let qkv = qkv.contiguous()?;
        let turned = match &self.qk_norm {
            None => qkv.narrow(0, 0, heads + kv_heads)?,
            Some([q, k]) => {
                let [queries, keys] = [(0, heads, q), (heads, kv_heads, k)].map(|(at, n, norm)| {
                    ops::rms_norm(&qkv.narrow(0, at, n)?.contiguous()?, norm, config.rms_eps)
                });
                Tensor::cat(&[queries?, keys?], 0)?
            }
        };
        let turned = turned.unsqueeze(0)?;
        let turned = candle_nn::rotary_emb::rope(&turned, &places.cos, &places.sin)?.squeeze(0)?;
        let values = qkv.narrow(0, heads + kv_heads, kv_heads)?;
        cache.write(places.at, &turned.narrow(0, heads, kv_heads)?, &values)?;
        let (keys, values) = cache.read(places.len)?;

        // The query heads of a group are treated as more rows over the same keys.
        let queries = turned.narrow(0, 0, heads)?.reshape((kv_heads, group * rows, head_dim))?;
        let queries = (queries * (head_dim as f64).sqrt().recip())?;
        let scores = queries.matmul(&keys.t()?)?.to_dtype(DType::F32)?;
        let scores = scores.reshape((heads, rows, places.len))?;
        let scores = match &places.mask {
            Some(mask) => scores.broadcast_add(mask)?,
            None => scores,
        };
        let shares = ops::softmax_last_dim(&scores)?.to_dtype(values.dtype())?;
        let shares = shares.reshape((kv_heads, group * rows, places.len))?;
        let mixed = shares.matmul(&values)?.reshape((heads, rows, head_dim))?;
        mixed.transpose(0, 1)?.reshape((rows, heads * head_dim))
    }

    /// How many weights it has in all.
    pub(in crate::model) fn elements(&self) -> usize {
        let optional = |tensor: &Option<Tensor>| tensor.as_ref().map_or(0, Tensor::elem_count);
        let required = [&self.qkv.weight, &self.o, &self.post_norm, &self.gate_up, &self.down];
        required.iter().map(|tensor| tensor.elem_count()).sum::<usize>()
            + optional(&self.input_norm)
            + optional(&self.qkv.bias)
            + self.qk_norm.iter().flatten().map(Tensor::elem_count).sum::<usize>()
    }
}

/// x · Wᵀ + b with W `[out, in]`.
pub(in crate::model) fn linear(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> candle_core::Result<Tensor> {
    let product = x.matmul(&weight.t()?)?;
    bias.map_or(Ok(product.clone()), |bias| product.broadcast_add(bias))
}
