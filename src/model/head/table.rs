//! A matrix that is either packed for the CPU or a tensor. It must not depend on what the matrix is
//! for.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};

use crate::kernels::Matrix;

/// A matrix, row-major, e.g. `[V, H]` of the target.
#[derive(Clone, Debug)]
pub enum Table {
    /// Packed for the CPU, as the target itself uses it.
    Packed(Arc<Matrix>),
    /// A tensor, in any precision and on any device.
    Tensor(Tensor),
}

impl Table {
    /// Rows V and columns H.
    pub(super) fn shape(&self) -> (usize, usize) {
        match self {
            Self::Packed(matrix) => (matrix.outputs(), matrix.inputs()),
            Self::Tensor(tensor) => tensor.dims2().unwrap_or_default(),
        }
    }

    /// Whether both are the same matrix.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Packed(a), Self::Packed(b)) => Arc::ptr_eq(a, b),
            (Self::Tensor(a), Self::Tensor(b)) => a.id() == b.id(),
            _ => false,
        }
    }

    /// Some of its rows, in the order given, as a tensor on the CPU: f32 if the table is packed.
    pub(super) fn rows(&self, rows: &[u32]) -> candle_core::Result<Tensor> {
        let matrix = match self {
            Self::Tensor(tensor) => {
                let index = Tensor::from_slice(rows, rows.len(), tensor.device())?;
                return tensor.index_select(&index, 0)?.to_device(&Device::Cpu);
            }
            Self::Packed(matrix) => matrix,
        };
        let columns = matrix.inputs();
        let mut values = vec![0.0; rows.len() * columns];
        for (&row, values) in rows.iter().zip(values.chunks_exact_mut(columns)) {
            matrix.row(row as usize, values);
        }
        Tensor::from_vec(values, (rows.len(), columns), &Device::Cpu)
    }

    /// The matrix as a tensor on `device` in `dtype`. A packed matrix is widened a few rows at a
    /// time, so that memory never holds a second copy of it.
    pub(crate) fn to_tensor(&self, device: &Device, dtype: DType) -> candle_core::Result<Tensor> {
        const ROWS: usize = 1024;
        let matrix = match self {
            Self::Tensor(tensor) => return tensor.to_device(device)?.to_dtype(dtype),
            Self::Packed(matrix) => matrix,
        };
        let (rows, columns) = self.shape();
        let table = Tensor::zeros((rows, columns), dtype, device)?;
        for start in (0..rows).step_by(ROWS) {
            let count = ROWS.min(rows - start);
            let mut values = vec![0.0; count * columns];
            for (row, values) in values.chunks_exact_mut(columns).enumerate() {
                matrix.row(start + row, values);
            }
            let part = Tensor::from_vec(values, (count, columns), &Device::Cpu)?;
            table.slice_set(&part.to_dtype(dtype)?.to_device(device)?, 0, start)?;
        }
        Ok(table)
    }
}
