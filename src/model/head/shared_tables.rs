//! What a head takes from its target: the embedding and the LM head, held only once if possible. It
//! must not depend on the head's own weights.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};

use crate::kernels::Matrix;
use crate::model::CpuTarget;

/// The target's matrices `[V, H]` that a head uses. A tied target passes the same matrix twice.
#[derive(Clone, Debug)]
pub struct SharedTables {
    /// Embeddings, used if the head's checkpoint has none.
    pub embedding: Arc<Matrix>,
    /// The LM head.
    pub lm_head: Arc<Matrix>,
}

impl SharedTables {
    /// The embedding and LM head of `target`, as it holds them.
    pub fn of(target: &CpuTarget) -> Self {
        Self { embedding: target.embedding(), lm_head: target.lm_head() }
    }

    /// Whether embedding and LM head are the same matrix.
    pub(crate) fn is_tied(&self) -> bool {
        Arc::ptr_eq(&self.embedding, &self.lm_head)
    }
}

/// Some rows of a matrix, in the order given, one after the other.
pub(in crate::model) fn rows_of(matrix: &Matrix, rows: &[u32]) -> Vec<f32> {
    let mut values = vec![0.0; rows.len() * matrix.inputs()];
    for (&row, values) in rows.iter().zip(values.chunks_exact_mut(matrix.inputs())) {
        matrix.row(row as usize, values);
    }
    values
}

/// The matrix as a tensor on `device`. It is widened a few rows at a time, so that memory never
/// holds a second copy of it.
pub(crate) fn to_tensor(matrix: &Matrix, device: &Device) -> candle_core::Result<Tensor> {
    const ROWS: usize = 1024;
    let columns = matrix.inputs();
    let table = Tensor::zeros((matrix.outputs(), columns), DType::F32, device)?;
    let all: Vec<u32> = (0..matrix.outputs() as u32).collect();
    for (i, some) in all.chunks(ROWS).enumerate() {
        let part = Tensor::from_vec(rows_of(matrix, some), (some.len(), columns), device)?;
        table.slice_set(&part, 0, i * ROWS)?;
    }
    Ok(table)
}
