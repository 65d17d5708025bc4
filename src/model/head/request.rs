//! What a head is packed from and for, on any device. It must not depend on how it drafts.

use std::sync::Arc;

use super::{
    AssistantHead, ChainedHeads, DraftPrecision, HeadBackend, HeadError, HeadKind, HeadWeights,
    PackedHead, SharedTables,
};
use crate::kernels::{KvFormat, Pool};
use crate::model::{Narrowed, WeightSource};

/// What a head is packed from and for.
#[derive(Clone)]
pub struct HeadRequest<'a> {
    /// The head.
    pub weights: &'a HeadWeights,
    /// Where the tensors are that `weights` does not hold: those of a head in its target's file and
    /// of an assistant.
    pub source: Option<&'a dyn WeightSource>,
    /// What it takes from its target.
    pub shared: &'a SharedTables,
    /// The threads that pack it and then compute on the CPU.
    pub pool: Arc<Pool>,
    /// At how many positions it drafts.
    pub capacity: usize,
    /// The most that its matrices take.
    pub precision: DraftPrecision,
    /// The number format of its cache.
    pub kv: KvFormat,
}

impl<'a> HeadRequest<'a> {
    /// For a head as the program drafts with it on the CPU.
    pub fn new(
        weights: &'a HeadWeights,
        shared: &'a SharedTables,
        pool: Arc<Pool>,
        capacity: usize,
    ) -> Self {
        let precision = DraftPrecision::Four;
        Self { weights, source: None, shared, pool, capacity, precision, kv: KvFormat::F16 }
    }

    /// With every number as it is stored, and a cache of 32-bit floats.
    #[must_use]
    pub fn exact(self) -> Self {
        Self { precision: DraftPrecision::Stored, kv: KvFormat::F32, ..self }
    }

    /// The head on the CPU.
    ///
    /// # Errors
    /// [`HeadError`] if a tensor is missing or misshapen, or there is not enough memory.
    pub fn on_cpu(&self) -> Result<Box<dyn HeadBackend>, HeadError> {
        let config = &self.weights.config;
        Ok(match &config.kind {
            HeadKind::Assistant(_) => Box::new(AssistantHead::new(self)?),
            _ if config.levels().is_some() => Box::new(ChainedHeads::new(self)?),
            _ => Box::new(PackedHead::new(self)?),
        })
    }

    /// The tensors of the head, which may be in its target's file or an assistant's.
    pub(super) fn tensors(&self) -> Result<&'a dyn WeightSource, HeadError> {
        if self.weights.config.kind.format().is_none() {
            return Ok(self.weights);
        }
        let missing = || HeadError::Weights { problems: vec!["it has no tensors".to_owned()] };
        self.source.ok_or_else(missing)
    }

    /// The same in its precision.
    pub(super) fn narrowed(&self) -> Result<Narrowed<'_>, HeadError> {
        let &Self { ref pool, precision, .. } = self;
        Ok(Narrowed { source: self.tensors()?, precision, pool })
    }
}
