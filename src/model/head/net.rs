//! The head's forward pass as functions of candle tensors, on any device and in any precision.

use candle_core::{DType, Device, Tensor};
use candle_nn::ops;

use super::cache::BlockCache;
use super::weights::{BlockWeights, FusionWeights, HeadWeights, Linear};
use crate::model::{Config, frequencies};
use crate::speculate::BeamRow;

/// The fusion's result and what led to it, `[rows, H]` each unless said otherwise.
#[derive(Clone, Debug)]
pub struct Fused {
    /// u: the input of block 0.
    pub output: Tensor,
    /// What was computed on the way, by the names of the golden files: `normed_embed`, `h1`, `h2`
    /// and `gate` of DGF, `fc_in` `[rows, 2H]` of EAGLE.
    pub parts: Vec<(&'static str, Tensor)>,
}

/// Where the rows of one pass stand.
#[derive(Clone, Debug)]
pub struct Places {
    /// `[rows, d / 2]`.
    cos: Tensor,
    /// `[rows, d / 2]`.
    sin: Tensor,
    /// `[rows, len]` in f32: 0 where a row sees a KV row, −∞ where not; `None` if all see all.
    mask: Option<Tensor>,
    /// First KV row that the pass writes.
    at: usize,
    /// KV rows there are after the pass.
    len: usize,
}

impl Places {
    /// Rows whose rotations `cos` and `sin` are, `[rows, d / 2]`; they write the KV rows from `at`
    /// on and then see `mask`'s share of all `len`.
    pub(in crate::model) fn new(
        cos: Tensor,
        sin: Tensor,
        mask: Option<Tensor>,
        at: usize,
        len: usize,
    ) -> Self {
        Self { cos, sin, mask, at, len }
    }
}

/// A head ready to run: weights on one device in one precision, related products joined.
#[derive(Clone, Debug)]
pub struct HeadNet {
    config: Config,
    fusion: FusionWeights,
    blocks: Vec<Block>,
    frequencies: Vec<f32>,
    dtype: DType,
    device: Device,
}

impl HeadNet {
    /// Puts `weights` on `device` in `dtype`.
    ///
    /// # Errors
    /// If the device has no room or fails.
    pub fn new(weights: &HeadWeights, device: &Device, dtype: DType) -> candle_core::Result<Self> {
        let config = weights.config.body.clone();
        // One block after another: joining its products holds it twice for a moment, and a card
        // may have room for the blocks once only.
        let blocks =
            weights.blocks.iter().map(|block| Block::new(&block.to(device, dtype)?, &config));
        Ok(Self {
            fusion: weights.fusion.to(device, dtype)?,
            blocks: blocks.collect::<candle_core::Result<_>>()?,
            frequencies: frequencies(config.head_dim, config.rope_theta, &config.rope_scaling),
            config,
            dtype,
            device: device.clone(),
        })
    }

    /// u from features and token embeddings, `[rows, H]` each (method.md, Draft heads).
    ///
    /// # Errors
    /// If the device fails.
    pub fn fuse(&self, features: &Tensor, embeddings: &Tensor) -> candle_core::Result<Fused> {
        match &self.fusion {
            FusionWeights::Dgf { w_1, w_2, w_z, norm } => {
                let h1 = features.matmul(w_1)?;
                let normed = ops::rms_norm(embeddings, norm, self.config.rms_eps)?;
                let h2 = normed.matmul(w_2)?.silu()?;
                let gate = ops::sigmoid(&Tensor::cat(&[&h1, &h2], 1)?.matmul(w_z)?)?;
                // z ⊙ h1 + (1 − z) ⊙ h2
                let output = (&h2 + (&gate * (&h1 - &h2)?)?)?;
                let parts = vec![("normed_embed", normed), ("h1", h1), ("h2", h2), ("gate", gate)];
                Ok(Fused { output, parts })
            }
            FusionWeights::Eagle { weight, bias } => {
                let input = Tensor::cat(&[embeddings, features], 1)?;
                let output = linear(&input, weight, bias.as_ref())?;
                Ok(Fused { output, parts: vec![("fc_in", input)] })
            }
        }
    }

    /// Runs `x` `[rows, H]` through the first `blocks` blocks, writing their KV rows to `caches`.
    ///
    /// # Errors
    /// If the device fails.
    pub fn run<'a>(
        &self,
        x: Tensor,
        blocks: usize,
        places: &Places,
        cache: impl Fn(usize) -> &'a BlockCache,
    ) -> candle_core::Result<Tensor> {
        let mut blocks = self.blocks.iter().take(blocks).enumerate();
        blocks.try_fold(x, |x, (i, block)| block.run(x, &self.config, places, cache(i)))
    }

    /// Places of `rows` causal rows behind `start` stable ones, at positions `start..`.
    ///
    /// # Errors
    /// If the device fails.
    pub fn causal(&self, start: usize, rows: usize) -> candle_core::Result<Places> {
        let mask = if rows == 1 {
            None
        } else {
            let hidden = |row: usize, column: usize| column > row;
            Some(self.mask(start, rows, rows, hidden)?)
        };
        let angles = (start..start + rows).flat_map(|position| self.angles(position));
        let (cos, sin) = self.rotations(angles, rows)?;
        Ok(Places { cos, sin, mask, at: start, len: start + rows })
    }

    /// Places of further rows of a tree, behind `stable` rows and `scratch` rows that came before,
    /// each at the RoPE position of its level.
    ///
    /// # Errors
    /// If the device fails.
    pub fn further(
        &self,
        stable: usize,
        scratch: usize,
        beam: &[BeamRow],
    ) -> candle_core::Result<Places> {
        let rows = beam.len();
        let hidden = |row: usize, column: usize| {
            column != scratch + row && beam[row].ancestors.binary_search(&column).is_err()
        };
        let sees_all = scratch + rows == 1;
        let mask =
            if sees_all { None } else { Some(self.mask(stable, rows, scratch + rows, hidden)?) };
        let angles = beam.iter().flat_map(|row| self.angles(stable + row.ancestors.len()));
        let (cos, sin) = self.rotations(angles, rows)?;
        Ok(Places { cos, sin, mask, at: stable + scratch, len: stable + scratch + rows })
    }

    /// A mask that shows every row the first `open` columns and hides some of the `tail` ones.
    fn mask(
        &self,
        open: usize,
        rows: usize,
        tail: usize,
        hidden: impl Fn(usize, usize) -> bool,
    ) -> candle_core::Result<Tensor> {
        let hidden = &hidden;
        let values: Vec<f32> = (0..rows)
            .flat_map(|row| (0..tail).map(move |column| hidden(row, column)))
            .map(|hidden| if hidden { f32::NEG_INFINITY } else { 0.0 })
            .collect();
        let tail = Tensor::from_vec(values, (rows, tail), &self.device)?;
        if open == 0 {
            return Ok(tail);
        }
        Tensor::cat(&[&Tensor::zeros((rows, open), DType::F32, &self.device)?, &tail], 1)
    }

    fn angles(&self, position: usize) -> impl Iterator<Item = f32> + '_ {
        self.frequencies.iter().map(move |frequency| position as f32 * frequency)
    }

    fn rotations(
        &self,
        angles: impl Iterator<Item = f32>,
        rows: usize,
    ) -> candle_core::Result<(Tensor, Tensor)> {
        let (sin, cos): (Vec<f32>, Vec<f32>) = angles.map(f32::sin_cos).unzip();
        let put = |values: Vec<f32>| {
            let shape = (rows, self.frequencies.len());
            Tensor::from_vec(values, shape, &self.device)?.to_dtype(self.dtype)
        };
        Ok((put(cos)?, put(sin)?))
    }

    /// Precision of the weights.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Where the weights are.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> u64 {
        let fusion: usize = match &self.fusion {
            FusionWeights::Dgf { w_1, w_2, w_z, norm } => {
                [w_1, w_2, w_z, norm].iter().map(|tensor| tensor.elem_count()).sum()
            }
            FusionWeights::Eagle { weight, bias } => {
                weight.elem_count() + bias.as_ref().map_or(0, Tensor::elem_count)
            }
        };
        let blocks: usize = self.blocks.iter().map(Block::elements).sum();
        ((fusion + blocks) * self.dtype.size_in_bytes()) as u64
    }
}

/// A decoder block with q, k, v in one product and gate, up in another.
#[derive(Clone, Debug)]
pub(in crate::model) struct Block {
    input_norm: Option<Tensor>,
    qkv: Linear,
    o: Tensor,
    post_norm: Tensor,
    gate_up: Tensor,
    down: Tensor,
}

impl Block {
    /// Joins the products of `weights`, which are those of a block of `config`.
    pub(in crate::model) fn new(
        weights: &BlockWeights,
        config: &Config,
    ) -> candle_core::Result<Self> {
        let BlockWeights { q, k, v, .. } = weights;
        let bias = match (&q.bias, &k.bias, &v.bias) {
            (Some(q), Some(k), Some(v)) => Some(Tensor::cat(&[q, k, v], 0)?),
            _ => None,
        };
        debug_assert_eq!(q.weight.dims(), [config.q_width(), config.hidden]);
        Ok(Self {
            input_norm: weights.input_norm.clone(),
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
        // Block 0 has no norm of its own: it reads the fused input as it is (method.md, Draft
        // heads).
        let normed = match &self.input_norm {
            Some(weight) => ops::rms_norm(&x, weight, config.rms_eps)?,
            None => x.clone(),
        };
        let attended = self.attend(&normed, config, places, cache)?;
        let x = (x + linear(&attended, &self.o, None)?)?;
        let normed = ops::rms_norm(&x, &self.post_norm, config.rms_eps)?;
        let inner = ops::swiglu(&linear(&normed, &self.gate_up, None)?)?;
        x + linear(&inner, &self.down, None)?
    }

    /// Attention of `x` `[rows, H]` over the cache and itself, `[rows, heads · d]`.
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
        // All heads to the front in one copy; then q, k and v are slices of it.
        let qkv = qkv.reshape((rows, heads + 2 * kv_heads, head_dim))?.transpose(0, 1)?;
        let qkv = qkv.contiguous()?;
        let turned = qkv.narrow(0, 0, heads + kv_heads)?.unsqueeze(0)?;
        let turned = candle_nn::rotary_emb::rope(&turned, &places.cos, &places.sin)?.squeeze(0)?;
        let values = qkv.narrow(0, heads + kv_heads, kv_heads)?;
        cache.write(places.at, &turned.narrow(0, heads, kv_heads)?, &values)?;
        let (keys, values) = cache.read(places.len)?;

        // The query heads of a group are further rows over the same keys.
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

    /// Weights in all.
    pub(in crate::model) fn elements(&self) -> usize {
        let optional = |tensor: &Option<Tensor>| tensor.as_ref().map_or(0, Tensor::elem_count);
        let required = [&self.qkv.weight, &self.o, &self.post_norm, &self.gate_up, &self.down];
        required.iter().map(|tensor| tensor.elem_count()).sum::<usize>()
            + optional(&self.input_norm)
            + optional(&self.qkv.bias)
    }
}

/// x · Wᵀ + b with W `[out, in]`.
fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> candle_core::Result<Tensor> {
    let product = x.matmul(&weight.t()?)?;
    bias.map_or(Ok(product.clone()), |bias| product.broadcast_add(bias))
}
