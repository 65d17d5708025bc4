//! The target's weights, packed once and held once. It must not depend on passes.

use std::sync::Arc;

use super::super::weights::{self, WeightError};
use super::super::{LoadRequest, RopeTable};
use super::layer::{Layer, NormWeights};
use super::packer::Packer;
use super::per_layer::PerLayerEmbedding;
use crate::kernels::Matrix;

/// Everything a pass reads.
pub(super) struct Weights {
    pub(super) embedding: Arc<Matrix>,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: NormWeights,
    head: Option<Arc<Matrix>>,
    /// The part of the LM head whose logits are computed, if not the whole.
    scored: Option<Matrix>,
    /// `[V]`.
    pub(super) head_bias: Option<Vec<f32>>,
    /// What each layer adds for a token.
    pub(super) per_layer: Option<PerLayerEmbedding>,
    /// What the layers' rotary positions are computed from.
    pub(super) rope: Vec<RopeTable>,
}

impl Weights {
    /// Packs the blocks from `first` on, the embedding, the norm and the LM head.
    pub(super) fn load(request: &LoadRequest<'_>, first: usize) -> Result<Self, WeightError> {
        let &LoadRequest { config, source, ref pool, capacity, progress, .. } = request;
        let mut packer = Packer::new(source, pool);
        let h = config.hidden;
        let vocab = config.vocab;
        Ok(Self {
            embedding: Arc::new(packer.matrix(weights::EMBEDDING, [vocab, h], None)?),
            layers: packer.layers(config, first..config.layers, progress)?,
            norm: packer.norm(&config.block, weights::NORM, h)?,
            head: if config.tied_head {
                None
            } else {
                Some(Arc::new(packer.matrix(weights::HEAD, [vocab, h], None)?))
            },
            scored: None,
            head_bias: packer.vector_if(config.block.head_bias, weights::HEAD_BIAS, vocab)?,
            per_layer: PerLayerEmbedding::load(config, &mut packer)?,
            rope: RopeTable::of(config, capacity),
        })
    }

    /// The LM head: its own matrix, or the embedding.
    pub(super) fn head(&self) -> &Arc<Matrix> {
        self.head.as_ref().unwrap_or(&self.embedding)
    }

    /// The part of the LM head whose logits are computed.
    pub(super) fn scored(&self) -> &Matrix {
        self.scored.as_ref().unwrap_or_else(|| self.head())
    }

    /// Computes the logits of only these groups of tokens from now on. Returns whether it does.
    pub(super) fn score(&mut self, groups: &[u32]) -> bool {
        let can = self.head_bias.is_none();
        if can {
            self.scored = Some(self.head().of_groups(groups));
        }
        can
    }

    /// Bytes of all packed matrices.
    pub(super) fn bytes(&self) -> u64 {
        let head = self.head.as_ref().map_or(0, |head| head.bytes()) as u64;
        let per_layer = self.per_layer.as_ref().map_or(0, |own| own.table.packed_bytes()) as u64;
        let projection = self.per_layer.as_ref().map_or(0, |own| own.projection.bytes()) as u64;
        per_layer
            + projection
            + self.layers.iter().flat_map(Layer::matrices).map(|m| m.bytes() as u64).sum::<u64>()
            + self.embedding.bytes() as u64
            + head
    }

    /// Bytes that a pass can read: everything except embeddings that are not also the LM head.
    pub(super) fn pass_bytes(&self) -> u64 {
        let embedding = self.head.as_ref().map_or(0, |_| self.embedding.bytes());
        let per_layer = self.per_layer.as_ref().map_or(0, |own| own.table.packed_bytes());
        self.bytes() - (embedding + per_layer) as u64
    }
}
