//! The head's forward pass as functions of candle tensors, on any device and in any precision.
//! Must never know trees' scores or what drafting is for.

use candle_core::{DType, Device, Tensor};
use candle_nn::ops;

use super::weights::{FusionWeights, HeadWeights};
use crate::model::candle::{Block, BlockCache, Places, linear};
use crate::model::{Config, RopeTable};
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

/// A head ready to run: weights on one device in one precision, related products joined.
#[derive(Clone, Debug)]
pub struct HeadNet {
    config: Config,
    fusion: FusionWeights,
    blocks: Vec<Block>,
    rope: RopeTable,
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
            // Of a head no scaling depends on the context, so none is given.
            rope: RopeTable::of(&config, 0).swap_remove(0),
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
        let positions: Vec<usize> = (start..start + rows).collect();
        Places::new(&self.rope, &positions, mask, start, (&self.device, self.dtype))
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
        let position = |row: &BeamRow| stable + row.ancestors.len();
        let positions: Vec<usize> = beam.iter().map(position).collect();
        Places::new(&self.rope, &positions, mask, stable + scratch, (&self.device, self.dtype))
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
