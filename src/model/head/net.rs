//! The head's forward pass as functions of candle tensors, on any device and in any precision. It
//! must not depend on the scores of trees or on what drafting is for.

use candle_core::{DType, Device, Tensor};
use candle_nn::ops;

use super::backend::Origin;
use super::weights::{FusionWeights, HeadWeights};
use super::{Eagle3Config, HeadConfig};
use crate::model::RopeTable;
use crate::model::candle::{Block, BlockCache, Places, linear};
use crate::speculate::BeamRow;

/// The fusion's result and the intermediate results, `[rows, H]` each unless said otherwise.
#[derive(Clone, Debug)]
pub struct Fused {
    /// u: the input of block 0.
    pub output: Tensor,
    /// Intermediate results, by the names of the golden files: `normed_embed`, `h1`, `h2` and
    /// `gate` of DGF, `fc_in` `[rows, 2H]` of EAGLE.
    pub parts: Vec<(&'static str, Tensor)>,
}

/// A head ready to run: weights on one device in one precision, related products joined.
#[derive(Clone, Debug)]
pub struct HeadNet {
    pub(super) config: HeadConfig,
    fusion: FusionWeights,
    pub(super) blocks: Vec<Block>,
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
        let config = weights.config.clone();
        let body = &config.body;
        // One block after the other: joining the products of a block holds it twice for a moment,
        // and a card may have room for the blocks only once.
        let blocks = weights.blocks.iter().map(|block| Block::new(&block.to(device, dtype)?, body));
        Ok(Self {
            fusion: weights.fusion.to(device, dtype)?,
            blocks: blocks.collect::<candle_core::Result<_>>()?,
            // No scaling of a head depends on the context, so none is given.
            rope: RopeTable::of(body, 0).swap_remove(0),
            config,
            dtype,
            device: device.clone(),
        })
    }

    /// The outputs for features and token embeddings `[rows, H]`, by the first `blocks` blocks,
    /// which write their KV rows to `cache`.
    ///
    /// # Errors
    /// If the device fails.
    pub fn forward<'a>(
        &self,
        (features, origin): (&Tensor, Origin),
        embeddings: &Tensor,
        blocks: usize,
        places: &Places,
        cache: impl Fn(usize) -> &'a BlockCache,
    ) -> candle_core::Result<Tensor> {
        match &self.fusion {
            FusionWeights::Eagle3(own) => {
                let state = match origin {
                    Origin::Target => self.fuse(features, embeddings)?.output,
                    Origin::Head => features.clone(),
                };
                self.eagle3(own, state, embeddings, places, cache(0))
            }
            FusionWeights::Dgf { tapped: Some(own), .. } if origin == Origin::Target => {
                let state = linear(features, &own.fc, None)?;
                self.run(self.fuse(&state, embeddings)?.output, blocks, places, cache)
            }
            _ => self.run(self.fuse(features, embeddings)?.output, blocks, places, cache),
        }
    }

    /// The LM head's input, computed from the outputs.
    ///
    /// # Errors
    /// If the device fails.
    pub fn scored(&self, outputs: &Tensor) -> candle_core::Result<Tensor> {
        match &self.fusion {
            FusionWeights::Eagle3(own) if !self.eagle3_config(|own| own.norm_output) => {
                ops::rms_norm(&outputs.contiguous()?, &own.norm, self.config.body.rms_eps)
            }
            FusionWeights::Dgf { tapped: Some(own), .. } => {
                ops::rms_norm(&outputs.contiguous()?, &own.norm, self.config.body.rms_eps)
            }
            _ => Ok(outputs.clone()),
        }
    }

    /// Whether this is an EAGLE-3 head for which `is` holds.
    pub(super) fn eagle3_config(&self, is: impl Fn(&Eagle3Config) -> bool) -> bool {
        self.config.eagle3.as_ref().is_some_and(is)
    }

    /// u from features and token embeddings, `[rows, H]` each (method.md, Draft heads); for an
    /// EAGLE-3 head, the state that `fc` computes from the tapped ones. A DGF head over tapped
    /// states uses the output of its own `fc` as features.
    ///
    /// # Errors
    /// If the device fails.
    pub fn fuse(&self, features: &Tensor, embeddings: &Tensor) -> candle_core::Result<Fused> {
        match &self.fusion {
            FusionWeights::Dgf { w_1, w_2, w_z, norm, .. } => {
                let h1 = features.matmul(w_1)?;
                let normed = ops::rms_norm(embeddings, norm, self.config.body.rms_eps)?;
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
            FusionWeights::Eagle3(own) => {
                let taps = self.normed_taps(own, features)?;
                let output = linear(&taps, &own.fc.weight, own.fc.bias.as_ref())?;
                Ok(Fused { output, parts: Vec::new() })
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
        blocks.try_fold(x, |x, (i, block)| block.run(x, &self.config.body, places, cache(i)))
    }

    /// The places of `rows` causal rows after `start` stable ones, at positions `start..`.
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

    /// The places of further rows of a tree, after `stable` rows and `scratch` earlier rows, each
    /// at the RoPE position of its level.
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

    /// A mask in which every row sees the first `open` columns and only some of the `tail` columns.
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
            FusionWeights::Dgf { w_1, w_2, w_z, norm, tapped } => {
                let tapped = tapped.iter().flat_map(|own| [&own.fc, &own.norm]);
                [w_1, w_2, w_z, norm].into_iter().chain(tapped).map(Tensor::elem_count).sum()
            }
            FusionWeights::Eagle { weight, bias } => {
                weight.elem_count() + bias.as_ref().map_or(0, Tensor::elem_count)
            }
            FusionWeights::Eagle3(own) => own.elements(),
        };
        let blocks: usize = self.blocks.iter().map(Block::elements).sum();
        ((fusion + blocks) * self.dtype.size_in_bytes()) as u64
    }
}
