//! A small language model on a GPU that drafts, with passes over only the new rows of a growing
//! tree. It must not depend on what is drafted for.

use std::sync::Arc;

use super::device::Gpu;
use super::layers::load_blocks;
use super::model::{GpuModel, Logits};
use crate::kernels::TreeMask;
use crate::model::cpu::packer::Packer;
use crate::model::small::{SLOTS, level};
use crate::model::taps::Taps;
use crate::model::target::check_runnable;
use crate::model::weights::EMBEDDING;
use crate::model::{LoadError, LoadRequest, SmallLm, TargetError, TrafficMeter};
use crate::speculate::BeamRow;

/// A small language model on a GPU.
pub struct GpuDraft {
    model: GpuModel,
    logits: Vec<f32>,
}

impl GpuDraft {
    /// Puts the model on `gpu` with a KV cache for the request's positions and the rows of a tree.
    /// Its embeddings stay in main memory.
    ///
    /// # Errors
    /// [`LoadError`]; [`LoadError::Device`] if the device has no room or no kernels for it.
    pub fn load(gpu: &Arc<Gpu>, request: &LoadRequest<'_>) -> Result<Self, LoadError> {
        let config = request.config;
        request.check_capacity()?;
        let shape = [config.vocab, config.hidden];
        let embedding =
            Packer::new(request.source, &request.pool).matrix(EMBEDDING, shape, None)?;
        let blocks = load_blocks(gpu, config.layers, request, SLOTS)?;
        let model = GpuModel::around(blocks, request, Arc::new(embedding))?;
        Ok(Self { model, logits: Vec::new() })
    }

    /// Runs a row for each of `tokens` on `mask`, whose paths begin after the committed positions.
    fn pass(&mut self, tokens: &[u32], mask: &TreeMask, logits: Logits) -> Result<(), TargetError> {
        self.logits = self.model.pass(tokens, mask, &mut [], &mut Taps::none(), logits)?;
        Ok(())
    }
}

impl SmallLm for GpuDraft {
    fn describe(&self) -> String {
        format!("{} on {}", self.model.format(), self.model.blocks.gpu.name())
    }

    fn vocab(&self) -> usize {
        self.model.blocks.config.vocab
    }

    fn capacity(&self) -> usize {
        self.model.capacity
    }

    fn room(&self) -> usize {
        self.model.blocks.cache.slots - self.len()
    }

    fn len(&self) -> usize {
        self.model.blocks.cache.len
    }

    fn read(&mut self, tokens: &[u32]) -> Result<&[f32], TargetError> {
        if tokens.is_empty() {
            return Ok(&[]);
        }
        let needed = self.len() + tokens.len();
        check_runnable(tokens.iter().copied(), self.vocab(), needed, self.capacity())?;
        let count = tokens.len();
        self.pass(tokens, &TreeMask::causal(count), Logits::Last)?;
        self.model.blocks.cache.commit(&(0..count).collect::<Vec<_>>());
        Ok(&self.logits)
    }

    fn grow(&mut self, first: usize, rows: &[BeamRow]) -> Result<&[f32], TargetError> {
        let (tokens, mask) = level(self, first, rows)?;
        self.pass(&tokens, &mask, Logits::All)?;
        Ok(&self.logits)
    }

    fn keep(&mut self, path: &[usize], stay: &[usize]) {
        // The rows after the moved path are in flight again.
        let len = self.len() + path.len();
        self.model.blocks.cache.commit(&[path, stay].concat());
        self.model.blocks.cache.leave_in_flight(len);
    }

    fn truncate(&mut self, len: usize) {
        self.model.blocks.cache.truncate(len);
    }

    fn bytes(&self) -> u64 {
        self.model.bytes()
    }

    fn traffic(&self) -> Option<TrafficMeter> {
        Some(self.model.blocks.gpu.traffic_meter())
    }
}
