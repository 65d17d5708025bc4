//! What a head takes from its target: the embedding and the LM head, held once wherever possible.
//! Must never know the head's own weights.

use crate::model::CpuTarget;
use crate::model::candle::Table;

/// The target's matrices that a head uses. A tied target passes the same one twice.
#[derive(Clone, Debug)]
pub struct SharedTables {
    /// Embeddings, used if the head's checkpoint has none.
    pub embedding: Table,
    /// The LM head.
    pub lm_head: Table,
}

impl SharedTables {
    /// Embedding and LM head of `target`, as it holds them.
    pub fn of(target: &CpuTarget) -> Self {
        let (embedding, lm_head) = (target.embedding(), target.lm_head());
        Self { embedding: Table::Packed(embedding), lm_head: Table::Packed(lm_head) }
    }

    /// Whether embedding and LM head are one matrix.
    pub fn is_tied(&self) -> bool {
        self.embedding.is(&self.lm_head)
    }
}
