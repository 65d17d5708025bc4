//! One target with several texts, each with its own KV cache. A pass appends one token to each of
//! them and computes its products once for all. A text's logits have the same bits as when it runs
//! alone. It must not depend on where the tokens came from.

use std::sync::Arc;

use super::model::CpuModel;
use super::scratch::PassTiming;
use super::target::CpuTarget;
use crate::kernels::{Pool, TreeMask};
use crate::model::target::check_runnable;
use crate::model::{LoadError, TargetError};

/// A target on the CPU with several sequences in parallel, numbered from 0.
pub struct CpuBatch {
    model: CpuModel,
}

impl CpuBatch {
    /// `target` with `sequences` empty texts (at least one), each of which may become as long as
    /// `target`'s own.
    ///
    /// # Errors
    /// [`LoadError::Cache`] if there is not enough memory for so many KV caches.
    pub fn new(target: CpuTarget, sequences: usize) -> Result<Self, LoadError> {
        let mut model = target.model;
        let capacity = model.capacity;
        model.caches[0].truncate(0);
        while model.caches.len() < sequences {
            let cache = model.caches[0].another(capacity);
            model.caches.push(cache.map_err(|error| LoadError::Cache { capacity, error })?);
        }
        Ok(Self { model })
    }

    /// How many sequences there are.
    pub fn sequences(&self) -> usize {
        self.model.caches.len()
    }

    /// How many positions each sequence can hold.
    pub fn capacity(&self) -> usize {
        self.model.capacity
    }

    /// V.
    pub fn vocab(&self) -> usize {
        self.model.config.vocab
    }

    /// The threads it runs on.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.model.pool
    }

    /// How many positions of a sequence are committed.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn len(&self, sequence: usize) -> usize {
        self.model.caches[sequence].len()
    }

    /// Whether no position of a sequence is committed.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn is_empty(&self, sequence: usize) -> bool {
        self.len(sequence) == 0
    }

    /// Rolls a sequence back to its first `len` positions, or to fewer if it has recurrent layers:
    /// see [`Self::len`].
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn truncate(&mut self, sequence: usize, len: usize) {
        self.model.caches[sequence].truncate(len);
    }

    /// Swaps the numbers of two sequences.
    ///
    /// # Panics
    /// If there are no such sequences.
    pub fn swap(&mut self, a: usize, b: usize) {
        self.model.caches.swap(a, b);
    }

    /// Commits `tokens` at the end of a sequence and returns the last token's logits, `[V]`, or
    /// nothing if there are no tokens.
    ///
    /// # Errors
    /// [`TargetError`]; nothing is changed then.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn prefill(&mut self, sequence: usize, tokens: &[u32]) -> Result<&[f32], TargetError> {
        let needed = self.len(sequence) + tokens.len();
        check_runnable(tokens.iter().copied(), self.vocab(), needed, self.capacity())?;
        self.model.timing = PassTiming::default();
        self.model.read(sequence, tokens);
        Ok(if tokens.is_empty() { &[] } else { &self.model.logits })
    }

    /// Commits one token at the end of each of the first `tokens.len()` sequences, in one pass, and
    /// returns their logits, `[rows, V]`.
    ///
    /// # Errors
    /// [`TargetError`]; nothing is changed then.
    ///
    /// # Panics
    /// If there are fewer sequences.
    pub fn append(&mut self, tokens: &[u32]) -> Result<&[f32], TargetError> {
        for (&token, cache) in tokens.iter().zip(&self.model.caches[..tokens.len()]) {
            check_runnable([token], self.vocab(), cache.len() + 1, self.capacity())?;
        }
        self.model.timing = PassTiming::default();
        if tokens.is_empty() {
            return Ok(&[]);
        }
        self.model.run(0..tokens.len(), tokens, &TreeMask::causal(1), 0);
        for cache in &mut self.model.caches[..tokens.len()] {
            cache.commit(&self.model.pool, &[0]);
        }
        Ok(&self.model.logits)
    }
}
