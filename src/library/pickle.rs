//! Draft heads that were published as PyTorch files. candle reads the pickle: of its programs it
//! knows only those that rebuild tensors. Must never run a program of the file.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use candle_core::pickle::PthTensors;
use candle_core::{DType, Tensor};

use super::folder::Folder;
use super::{LibraryError, Weight, pickle_check};
use crate::caught::caught;
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
        let file = File::open(path).map_err(|error| LibraryError::io(path, error))?;
        let size = file.metadata().map_err(|error| LibraryError::io(path, error))?.len();
        pickle_check::check(BufReader::new(file)).map_err(damaged)?;
        let tensors = caught(|| PthTensors::new(PathBuf::from(path), None))
            .ok_or_else(|| damaged("candle fails on it".to_owned()))?
            .map_err(|error| damaged(error.to_string()))?;
        // PyTorch does not compress: room is made for no more than the file can fill.
        for info in tensors.tensor_infos().values() {
            let mut dims = info.layout.dims().iter();
            let bytes = dims.try_fold(info.dtype.size_in_bytes() as u64, |bytes, &dim| {
                bytes.checked_mul(dim as u64)
            });
            if bytes.is_none_or(|bytes| bytes > size) {
                let (name, shape) = (&info.name, info.layout.dims());
                return Err(damaged(format!(
                    "tensor {name} of shape {shape:?} does not fit in {size} bytes"
                )));
            }
        }
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
        let failed = || candle_core::Error::Msg(format!("{name}: the archive is damaged"));
        caught(|| self.0.get(name))
            .ok_or_else(failed)??
            .ok_or_else(|| candle_core::Error::CannotFindTensor { path: name.to_owned() }.bt())
    }
}
