//! A matrix with rows and columns exchanged, for files that store it the other way round. It must
//! not depend on which matrix it is.

use std::borrow::Cow;

use crate::kernels::{Format, Matrix, Pool};
use crate::model::RawTensor;

/// The matrix `tensor` transposed, as floats, because blocks along a row cannot be cut into
/// columns. `None` if it is not a matrix, or cannot be read.
pub(super) fn transposed(tensor: &RawTensor<'_>) -> Option<RawTensor<'static>> {
    let &[rows, columns] = tensor.shape.as_slice() else { return None };
    let matrix = Matrix::pack(tensor.format, rows, columns, &tensor.bytes, &Pool::new(1)).ok()?;
    let mut row = vec![0f32; columns];
    let mut bytes = vec![0u8; rows * columns * size_of::<f32>()];
    let (elements, _) = bytes.as_chunks_mut::<4>();
    for i in 0..rows {
        matrix.row(i, &mut row);
        for (j, value) in row.iter().enumerate() {
            elements[j * rows + i] = value.to_le_bytes();
        }
    }
    Some(RawTensor { format: Format::F32, shape: vec![columns, rows], bytes: Cow::Owned(bytes) })
}
