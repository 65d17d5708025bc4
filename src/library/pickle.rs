//! Draft heads that were published as PyTorch files. candle reads the pickle: of its programs it
//! knows only those that rebuild tensors.

use std::path::{Path, PathBuf};

use candle_core::pickle::PthTensors;
use candle_core::{DType, Tensor};

use super::folder::Folder;
use super::{LibraryError, Weight};
use crate::kernels::Format;
use crate::model::head::TensorSource;

const FILE: &str = "pytorch_model.bin";

/// The tensors of a PyTorch file.
pub(super) struct PickledTensors(PthTensors);

impl PickledTensors {
    /// Opens the file in `folder`.
    pub(super) fn open(folder: &Folder) -> Result<Self, LibraryError> {
        match folder {
            Folder::Disk(path) if path.join(FILE).exists() => Self::read(&path.join(FILE)),
            _ => Err(LibraryError::Missing {
                origin: folder.name(),
                file: format!("model.safetensors or {FILE}"),
                remedy: "fetch all files of the draft head into this folder",
            }),
        }
    }

    fn read(path: &Path) -> Result<Self, LibraryError> {
        let damaged = |problem: String| {
            LibraryError::damaged(&path.display().to_string(), "PyTorch archive", problem)
        };
        let tensors = PthTensors::new(PathBuf::from(path), None)
            .map_err(|error| damaged(error.to_string()))?;
        if tensors.tensor_infos().is_empty() {
            return Err(damaged("it holds no tensors".to_owned()));
        }
        Ok(Self(tensors))
    }

    /// What is in it, for a line about the head.
    pub(super) fn weights(&self) -> impl Iterator<Item = Weight> {
        self.0.tensor_infos().values().map(|info| {
            let elements = info.layout.shape().elem_count() as u64;
            let format = match info.dtype {
                DType::F16 => Format::F16,
                DType::BF16 => Format::BF16,
                _ => Format::F32,
            };
            Weight { format, elements, bytes: elements * info.dtype.size_in_bytes() as u64 }
        })
    }
}

impl TensorSource for PickledTensors {
    fn names(&self) -> Vec<String> {
        self.0.tensor_infos().keys().cloned().collect()
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.0.tensor_infos().get(name).map(|info| info.layout.dims().to_vec())
    }

    fn tensor(&self, name: &str) -> candle_core::Result<Tensor> {
        self.0
            .get(name)?
            .ok_or_else(|| candle_core::Error::CannotFindTensor { path: name.to_owned() }.bt())
    }
}
