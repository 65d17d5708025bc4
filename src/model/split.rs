//! A target split over two devices (method.md, Split target): its first blocks are on a GPU; the
//! others, the final norm and the LM head are on the CPU. Only the residual stream is transferred,
//! H floats per row.
//!
//! The shaders are row-invariant, as the CPU's kernels are: the target gives the same text with and
//! without speculation, bit for bit. The text may differ from that of the same model on the CPU
//! alone.

use std::sync::Arc;

use super::gpu::{Gpu, GpuLayers};
use super::lower::Lower;
use super::{
    CpuTarget, FeatureSource, LoadError, LoadRequest, Progress, Target, TargetError, TrafficMeter,
    Verified,
};
use crate::speculate::Tree;

/// A target whose first blocks are on another device.
pub struct SplitTarget {
    lower: GpuLayers,
    upper: CpuTarget,
}

impl SplitTarget {
    /// Puts as many of the first `layers` blocks on `gpu` as fit while `spare` bytes remain free
    /// for others, and says why not all of them fit. The rest is as in [`Self::load_on_gpu`].
    ///
    /// # Errors
    /// As for [`Self::load_on_gpu`] if none fits.
    pub fn load_fitting(
        gpu: &Arc<Gpu>,
        layers_and_spare: (usize, u64),
        request: &LoadRequest<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Self, Option<LoadError>), LoadError> {
        let fitting = GpuLayers::load_fitting(gpu, layers_and_spare, request, progress)?;
        let (lower, refused) = fitting;
        let upper = CpuTarget::load_above(lower.count(), request, progress)?;
        Ok((Self { lower, upper }, refused))
    }

    /// Puts the first `layers` blocks on `gpu`, in the precision in which the checkpoint stores
    /// them, and the rest on the CPU as [`CpuTarget::load`] does.
    ///
    /// # Errors
    /// [`LoadError`]; [`LoadError::Device`] if the device has no room or no kernels for such
    /// blocks.
    pub fn load_on_gpu(
        gpu: &Arc<Gpu>,
        layers: usize,
        request: &LoadRequest<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, LoadError> {
        let lower = GpuLayers::load(gpu, layers, request, progress)?;
        let upper = CpuTarget::load_above(layers, request, progress)?;
        Ok(Self { lower, upper })
    }

    /// The part on the CPU, which has the embedding and the LM head of the whole model.
    pub fn cpu(&self) -> &CpuTarget {
        &self.upper
    }

    /// How many blocks are on the other device.
    pub fn lower_layers(&self) -> usize {
        self.upper.config().layers - self.upper.layers()
    }

    /// Bytes on the other device: weights and KV cache.
    pub fn device_bytes(&self) -> u64 {
        self.lower.bytes()
    }
}

impl Target for SplitTarget {
    fn vocab(&self) -> usize {
        self.upper.vocab()
    }

    fn hidden(&self) -> usize {
        self.upper.hidden()
    }

    fn set_features(&mut self, source: FeatureSource) {
        self.upper.set_features(source);
    }

    fn feature_width(&self) -> usize {
        self.upper.feature_width()
    }

    fn capacity(&self) -> usize {
        self.upper.capacity()
    }

    fn len(&self) -> usize {
        self.upper.len()
    }

    fn prefill(&mut self, tokens: &[u32]) -> Result<Verified, TargetError> {
        self.upper.prefill_above(tokens, &mut self.lower)
    }

    fn verify(&mut self, tree: &Tree) -> Result<Verified, TargetError> {
        self.upper.verify_above(tree, &mut self.lower)
    }

    fn commit(&mut self, path: &[usize]) {
        self.upper.commit_above(path, &mut self.lower);
    }

    fn truncate(&mut self, len: usize) {
        self.upper.truncate_above(len, &mut self.lower);
    }

    fn traffic(&self) -> Option<TrafficMeter> {
        self.lower.traffic()
    }
}
