//! A small language model on the CPU that drafts. It makes the target's passes, but only over the
//! new rows of a growing tree; what the rows above them left in the cache is not computed again. It
//! must not depend on what is drafted for.

use super::layer::Layer;
use super::model::CpuModel;
use super::packer::Progress;
use crate::kernels::{Format, Matrix};
use crate::model::in_flight::{Bounds, RowsInFlight, SLOTS};
use crate::model::target::check_runnable;
use crate::model::{DraftRow, LoadError, LoadRequest, SmallLm, TargetError};

/// A small language model on the CPU.
pub struct CpuDraft {
    model: CpuModel,
    flight: RowsInFlight,
}

impl CpuDraft {
    /// Packs the weights and allocates a KV cache for the request's positions and the rows of a
    /// tree. Calls `progress` after every matrix.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(
        request: &LoadRequest<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, LoadError> {
        let model = CpuModel::load(request, 0, SLOTS, progress)?;
        Ok(Self { model, flight: RowsInFlight::default() })
    }

    /// Bytes of weights that one pass reads.
    pub fn pass_bytes(&self) -> u64 {
        self.model.weights.pass_bytes()
    }

    fn bounds(&self) -> Bounds {
        let vocab = self.vocab();
        let capacity = self.capacity();
        Bounds { vocab, capacity, slots: self.model.caches[0].capacity(), len: self.len() }
    }
}

impl SmallLm for CpuDraft {
    fn describe(&self) -> String {
        let format = self
            .model
            .weights
            .layers
            .first()
            .and_then(Layer::typical)
            .map_or(Format::F32, Matrix::format);
        format!("{format} on CPU")
    }

    fn vocab(&self) -> usize {
        self.model.config.vocab
    }

    fn capacity(&self) -> usize {
        self.model.capacity
    }

    fn room(&self) -> usize {
        self.model.caches[0].capacity() - self.model.caches[0].len() - self.flight.count()
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
        self.flight.clear();
        self.model.read(0, tokens);
        Ok(&self.model.logits)
    }

    fn grow(&mut self, rows: &[DraftRow]) -> Result<&[f32], TargetError> {
        if rows.is_empty() {
            return Ok(&[]);
        }
        let further = self.flight.further(rows, self.bounds())?;
        self.model.run(0..1, &further.tokens, &further.mask, 0);
        self.flight.extend(further);
        Ok(&self.model.logits)
    }

    fn keep(&mut self, path: &[usize]) -> Vec<usize> {
        let stay = self.flight.keep(path);
        if !path.is_empty() {
            self.model.caches[0].keep(&self.model.pool, path, &stay);
        }
        stay
    }

    fn truncate(&mut self, len: usize) {
        self.model.caches[0].truncate(len);
        self.flight.clear();
    }

    fn bytes(&self) -> u64 {
        self.model.weights.bytes() + self.model.caches[0].bytes() as u64
    }
}
