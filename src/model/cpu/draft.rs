//! A small language model on the CPU that drafts. It makes the target's passes, but only over the
//! new rows of a growing tree; what the rows above them left in the cache is not computed again. It
//! must not depend on what is drafted for.

use super::layer::format_of;
use super::model::CpuModel;
use crate::model::small::{SLOTS, level};
use crate::model::target::check_runnable;
use crate::model::{LoadError, LoadRequest, SmallLm, TargetError};
use crate::speculate::BeamRow;

/// A small language model on the CPU.
pub struct CpuDraft {
    model: CpuModel,
}

impl CpuDraft {
    /// Packs the weights and allocates a KV cache for the request's positions and the rows of a
    /// tree.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(request: &LoadRequest<'_>) -> Result<Self, LoadError> {
        Ok(Self { model: CpuModel::load(request, 0, SLOTS)? })
    }

    /// Bytes of weights that one pass reads.
    pub fn pass_bytes(&self) -> u64 {
        self.model.weights.pass_bytes()
    }
}

impl SmallLm for CpuDraft {
    fn describe(&self) -> String {
        format!("{} on CPU", format_of(&self.model.weights.layers))
    }

    fn vocab(&self) -> usize {
        self.model.config.vocab
    }

    fn capacity(&self) -> usize {
        self.model.capacity
    }

    fn room(&self) -> usize {
        self.model.caches[0].capacity() - self.len()
    }

    fn len(&self) -> usize {
        self.model.caches[0].len()
    }

    fn score(&mut self, groups: &[u32]) -> bool {
        self.model.weights.score(groups)
    }

    fn read(&mut self, tokens: &[u32]) -> Result<&[f32], TargetError> {
        if tokens.is_empty() {
            return Ok(&[]);
        }
        let needed = self.len() + tokens.len();
        check_runnable(tokens.iter().copied(), self.vocab(), needed, self.capacity())?;
        self.model.read(0, tokens);
        Ok(&self.model.logits)
    }

    fn grow(&mut self, first: usize, rows: &[BeamRow]) -> Result<&[f32], TargetError> {
        let (tokens, mask) = level(self, first, rows)?;
        self.model.run(0..1, &tokens, &mask, 0);
        Ok(&self.model.logits)
    }

    fn keep(&mut self, path: &[usize], stay: &[usize]) {
        self.model.caches[0].keep(&self.model.pool, path, stay);
    }

    fn truncate(&mut self, len: usize) {
        self.model.caches[0].truncate(len);
    }

    fn bytes(&self) -> u64 {
        self.model.weights.bytes() + self.model.caches[0].bytes() as u64
    }
}
