//! What a head takes from its target: the embedding and the LM head, held only once if possible. It
//! must not depend on the head's own weights.

use super::Table;
use crate::model::CpuTarget;

/// The target's matrices that a head uses. A tied target passes the same matrix twice.
#[derive(Clone, Debug)]
pub struct SharedTables {
    /// Embeddings, used if the head's checkpoint has none.
    pub embedding: Table,
    /// The LM head.
    pub lm_head: Table,
}

impl SharedTables {
    /// The embedding and LM head of `target`, as it holds them.
    pub fn of(target: &CpuTarget) -> Self {
        let embedding = target.embedding();
        let lm_head = target.lm_head();
        Self { embedding: Table::Packed(embedding), lm_head: Table::Packed(lm_head) }
    }

    /// Whether embedding and LM head are the same matrix.
    pub(crate) fn is_tied(&self) -> bool {
        self.embedding.is(&self.lm_head)
    }
}
