//! A small language model on the CPU that drafts. It makes the target's passes, but only over the
//! new rows of a growing tree; what the rows above them left in the cache is not computed again. It
//! must not depend on what is drafted for.

use super::CHUNK;
use super::model::CpuModel;
use super::packer::Progress;
use crate::kernels::{Format, TreeMask};
use crate::model::in_flight::{Bounds, RowsInFlight, SLOTS};
use crate::model::target::check_runnable;
use crate::model::{Config, DraftRow, LoadError, LoadRequest, SmallLm, TargetError};

/// A small language model on the CPU.
pub struct CpuDraft {
    model: CpuModel,
    flight: RowsInFlight,
    features: Vec<f32>,
    logits: Vec<f32>,
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
        Ok(Self {
            model,
            flight: RowsInFlight::default(),
            features: Vec::new(),
            logits: Vec::new(),
        })
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

    /// Runs a row for each of `tokens` on `mask`, whose paths begin after the committed positions.
    fn pass(&mut self, tokens: &[u32], mask: &TreeMask) {
        self.features.resize(tokens.len() * self.model.config.hidden, 0.0);
        let depth = |row: usize| mask.visible(row).len() - 1;
        self.model.pass().run(tokens, depth, mask, &mut self.features);
    }

    /// The LM head on the rows of the last pass from `first` on.
    fn head(&mut self, first: usize) -> &[f32] {
        let Config { hidden, vocab, .. } = self.model.config;
        let features = &self.features[first * hidden..];
        self.logits.resize(features.len() / hidden * vocab, 0.0);
        self.model.pass().head(features, &mut self.logits);
        &self.logits
    }
}

impl SmallLm for CpuDraft {
    fn describe(&self) -> String {
        let format =
            self.model.weights.layers.first().map_or(Format::F32, |layer| layer.typical().format());
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

    fn read(&mut self, tokens: &[u32]) -> Result<&[f32], TargetError> {
        if tokens.is_empty() {
            return Ok(&[]);
        }
        let needed = self.len() + tokens.len();
        check_runnable(tokens.iter().copied(), self.vocab(), needed, self.capacity())?;
        self.flight.clear();
        let mut last = 0;
        for chunk in tokens.chunks(CHUNK) {
            self.pass(chunk, &TreeMask::causal(chunk.len()));
            self.model.caches[0].commit(&self.model.pool, &(0..chunk.len()).collect::<Vec<_>>());
            last = chunk.len() - 1;
        }
        Ok(self.head(last))
    }

    fn grow(&mut self, rows: &[DraftRow]) -> Result<&[f32], TargetError> {
        if rows.is_empty() {
            return Ok(&[]);
        }
        let further = self.flight.further(rows, self.bounds())?;
        self.pass(&further.tokens, &further.mask);
        self.flight.extend(further);
        Ok(self.head(0))
    }

    fn keep(&mut self, path: &[usize]) -> Vec<usize> {
        let stay = self.flight.keep(path);
        if !path.is_empty() {
            // The rows after the moved path are in flight again.
            let len = self.len() + path.len();
            self.model.caches[0].commit(&self.model.pool, &[path, &stay].concat());
            self.model.caches[0].truncate(len);
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
