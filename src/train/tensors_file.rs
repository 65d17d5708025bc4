//! Writes tensors as a safetensors file into an open file. The library's own function creates a
//! temporary file of its own, which would remain after a kill. It must not depend on what a tensor
//! is for.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use candle_core::Tensor;
use safetensors::tensor::{Metadata, TensorInfo, View};

use super::TrainError;
use crate::files::{Access, atomic_write};

/// Replaces or creates the tensor file at `path`, completely or not at all.
pub(super) fn save_tensors(
    path: &Path,
    tensors: HashMap<String, Tensor>,
    metadata: Option<HashMap<String, String>>,
) -> Result<(), TrainError> {
    save(path, |file| write_tensors(file, tensors, metadata))
}

/// Replaces or creates the file at `path`, completely or not at all, readable by other programs.
pub(super) fn save(
    path: &Path,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), TrainError> {
    atomic_write(path, Access::Usual, fill)
        .map_err(|source| TrainError::Io { path: path.to_owned(), source })
}

/// Writes `tensors`, ordered by alignment and name as in the library, with `metadata`.
pub(super) fn write_tensors<S: AsRef<str>, V: View>(
    file: impl Write,
    tensors: impl IntoIterator<Item = (S, V)>,
    metadata: Option<HashMap<String, String>>,
) -> io::Result<()> {
    const ALIGNMENT: usize = 8;
    let mut tensors: Vec<(S, V)> = tensors.into_iter().collect();
    tensors.sort_by(|(a, left), (b, right)| {
        right.dtype().cmp(&left.dtype()).then_with(|| a.as_ref().cmp(b.as_ref()))
    });
    let mut offset = 0;
    let describe = |(name, tensor): &(S, V)| {
        let from = offset;
        offset += tensor.data_len();
        let dtype = tensor.dtype();
        let shape = tensor.shape().to_vec();
        (name.as_ref().to_owned(), TensorInfo { dtype, shape, data_offsets: (from, offset) })
    };
    let infos = tensors.iter().map(describe).collect();
    let header = Metadata::new(metadata, infos).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
    let mut out = BufWriter::with_capacity(1 << 20, file);
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for (_, tensor) in &tensors {
        out.write_all(&tensor.data())?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::{Dtype, TensorView};

    use super::*;

    #[test]
    fn the_bytes_are_the_librarys_own() {
        let bytes: Vec<u8> = (0..24).collect();
        let tensor =
            |dtype, shape: &[usize], data| TensorView::new(dtype, shape.to_vec(), data).unwrap();
        let tensors = [
            ("b", tensor(Dtype::F16, &[2, 3], &bytes[..12])),
            ("mask", tensor(Dtype::U8, &[3], &bytes[..3])),
            ("a", tensor(Dtype::F16, &[4], &bytes[..8])),
            ("z", tensor(Dtype::F32, &[2, 3], &bytes)),
            ("none", tensor(Dtype::F32, &[0], &[])),
        ];
        for metadata in [None, Some(HashMap::from([("key".to_owned(), "value".to_owned())]))] {
            let mut written = Vec::new();
            write_tensors(&mut written, tensors.clone(), metadata.clone()).unwrap();
            assert_eq!(written, safetensors::serialize(tensors.clone(), metadata).unwrap());
        }
    }
}
