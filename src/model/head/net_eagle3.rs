//! An EAGLE-3 head's pass as functions of candle tensors (method.md, EAGLE-3). It must not depend
//! on trees.

use candle_core::{DType, Tensor};
use candle_nn::ops;

use super::net::HeadNet;
use super::weights::Eagle3Weights;
use crate::model::candle::{BlockCache, Places};

impl HeadNet {
    /// What further rows can read, computed from states and token embeddings, `[rows, H]` each.
    pub(super) fn eagle3(
        &self,
        own: &Eagle3Weights,
        state: Tensor,
        embeddings: &Tensor,
        places: &Places,
        cache: &BlockCache,
    ) -> candle_core::Result<Tensor> {
        let (body, eps) = (&self.config.body, self.config.body.rms_eps);
        let normed = ops::rms_norm(&state.contiguous()?, &own.state_norm, eps)?;
        let embeddings = ops::rms_norm(embeddings, &own.embedding_norm, eps)?;
        let input = Tensor::cat(&[&embeddings, &normed], 1)?;
        let before = self.eagle3_config(|config| config.norm_before_residual);
        let residual = if before { normed } else { state };
        let mut output = residual.clone();
        for block in self.blocks.iter().take(1) {
            output = block.run_on(&input, residual.clone(), body, places, cache)?;
        }
        match self.eagle3_config(|config| config.norm_output) {
            true => ops::rms_norm(&output.contiguous()?, &own.norm, eps),
            false => Ok(output),
        }
    }

    /// The tapped states as `fc` reads them.
    pub(super) fn normed_taps(
        &self,
        own: &Eagle3Weights,
        taps: &Tensor,
    ) -> candle_core::Result<Tensor> {
        let (Some(weight), Some(config)) = (&own.tap_norm, &self.config.eagle3) else {
            return Ok(taps.clone());
        };
        let (rows, width) = taps.dims2()?;
        let together = config.normed_together();
        let ones = Tensor::ones(together, DType::F32, taps.device())?.to_dtype(taps.dtype())?;
        let runs = taps.reshape((rows * width / together.max(1), together))?.contiguous()?;
        let normed = ops::rms_norm(&runs, &ones, self.config.body.rms_eps)?;
        normed.reshape((rows, width))?.broadcast_mul(weight)
    }
}
