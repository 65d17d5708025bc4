//! Draft heads published as PyTorch files. candle reads the pickle: of its programs it knows only
//! those that rebuild tensors. It has no storage for flags (the `t2d` of an EAGLE-3 head), so they
//! are presented to it as bytes, which is how the file stores them. It must never run a program in
//! the file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use candle_core::pickle::{Object, Stack, TensorInfo};
use candle_core::{DType, Device, Error, Tensor};
use zip::ZipArchive;

use super::folder::Folder;
use super::{LibraryError, Result, Weight, pickle_check};
use crate::caught::caught;
use crate::files::{Open, open_regular};
use crate::kernels::Format;
use crate::model::head::TensorSource;

const FILE: &str = "pytorch_model.bin";
/// The file that lists the tensors of an archive.
const LIST: &str = "data.pkl";

/// The tensors of a PyTorch file.
#[derive(Debug)]
pub(super) struct PickledTensors {
    path: PathBuf,
    tensors: BTreeMap<String, TensorInfo>,
}

impl PickledTensors {
    /// Opens the file in `folder`.
    pub(super) fn open(folder: &Folder) -> Result<Self> {
        match folder {
            Folder::Disk(path) if path.join(FILE).exists() => Self::read(&path.join(FILE)),
            _ => Err(LibraryError::missing(
                folder.name(),
                format!("model.safetensors or {FILE}"),
                "download all files of the draft head into this folder",
            )),
        }
    }

    fn read(path: &Path) -> Result<Self> {
        let damaged = |problem: String| {
            LibraryError::damaged(&path.display().to_string(), "PyTorch archive", problem)
        };
        let file = open_regular(path, Open::Read).map_err(|error| LibraryError::io(path, error))?;
        let size = file.metadata().map_err(|error| LibraryError::io(path, error))?.len();
        pickle_check::check(BufReader::new(file)).map_err(damaged)?;
        let tensors = caught(|| listed(path))
            .ok_or_else(|| damaged("the candle library crashed on it".to_owned()))?
            .map_err(|error| damaged(error.to_string()))?;
        // PyTorch does not compress, so memory is allocated only for as much as the file can
        // contain.
        for info in tensors.values() {
            if bytes(info).is_none_or(|bytes| bytes > size) {
                let name = &info.name;
                let shape = info.layout.dims();
                return Err(damaged(format!(
                    "tensor {name} of shape {shape:?} does not fit in {size} bytes"
                )));
            }
        }
        if tensors.is_empty() {
            return Err(damaged("it has no tensors".to_owned()));
        }
        Ok(Self { path: path.to_owned(), tensors })
    }

    /// Its contents, for a line about the head.
    pub(super) fn weights(&self) -> impl Iterator<Item = Weight> {
        self.tensors.values().filter_map(|info| {
            let elements = info.layout.shape().elem_count() as u64;
            let format = match info.dtype {
                DType::F16 => Format::F16,
                DType::BF16 => Format::BF16,
                DType::F32 | DType::F64 => Format::F32,
                _ => return None,
            };
            Some(Weight { format, elements, bytes: elements * info.dtype.size_in_bytes() as u64 })
        })
    }

    fn tensor_of(&self, info: &TensorInfo) -> candle_core::Result<Tensor> {
        let mut archive = opened(&self.path)?;
        let mut entry = archive.by_name(&info.path).map_err(Error::wrap)?;
        let start = info.layout.start_offset() as u64;
        let size = bytes(info).unwrap_or(u64::MAX);
        let mut data = Vec::new();
        std::io::copy(&mut entry.by_ref().take(start), &mut std::io::sink())?;
        entry.take(size).read_to_end(&mut data)?;
        if data.len() as u64 != size {
            let name = &info.name;
            let held = data.len();
            return Err(Error::Msg(format!("{name}: it has {held} bytes instead of {size}")));
        }
        let dims = info.layout.dims();
        if info.layout.is_contiguous() {
            return Tensor::from_raw_buffer(&data, info.dtype, dims, &Device::Cpu);
        }
        if !info.layout.is_fortran_contiguous() {
            let name = &info.name;
            return Err(Error::Msg(format!("{name}: its elements are not contiguous")));
        }
        // A matrix that was saved transposed.
        let reversed: Vec<usize> = dims.iter().rev().copied().collect();
        let order: Vec<usize> = (0..dims.len()).rev().collect();
        Tensor::from_raw_buffer(&data, info.dtype, &reversed, &Device::Cpu)?.permute(order)
    }
}

/// Bytes of a tensor; `None` if they overflow.
fn bytes(info: &TensorInfo) -> Option<u64> {
    let mut dims = info.layout.dims().iter();
    let element = info.dtype.size_in_bytes() as u64;
    dims.try_fold(element, |bytes, &dim| bytes.checked_mul(dim as u64))
}

fn opened(path: &Path) -> candle_core::Result<ZipArchive<BufReader<File>>> {
    ZipArchive::new(BufReader::new(open_regular(path, Open::Read)?)).map_err(Error::wrap)
}

/// The tensors that an archive lists, by name. Tensors stored in a way that is not supported here
/// are left out: if one is needed, its name is reported as missing.
fn listed(path: &Path) -> candle_core::Result<BTreeMap<String, TensorInfo>> {
    let mut archive = opened(path)?;
    let mut tensors = BTreeMap::new();
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(Error::wrap)?;
        let name = entry.name().map_err(Error::wrap)?.into_owned();
        if !name.ends_with(LIST) {
            continue;
        }
        let folder = PathBuf::from(name.trim_end_matches(".pkl"));
        let mut stack = Stack::empty();
        stack.read_loop(&mut BufReader::new(entry))?;
        let Object::Dict(items) = stack.finalize()? else { continue };
        for (name, value) in items {
            let told = format!("{name:?}");
            match flags_as_bytes(value).into_tensor_info(name, &folder) {
                Ok(Some(info)) => {
                    tensors.insert(info.name.clone(), info);
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(tensor = told, %error, "skipping an entry of a \
                    PyTorch file"),
            }
        }
    }
    Ok(tensors)
}

/// The same object with storages of flags as storages of bytes.
fn flags_as_bytes(object: Object) -> Object {
    let all = |objects: Vec<Object>| objects.into_iter().map(flags_as_bytes).collect();
    let boxed = |object: Box<Object>| Box::new(flags_as_bytes(*object));
    match object {
        Object::Class { module_name, class_name } if class_name == "BoolStorage" => {
            Object::Class { module_name, class_name: "ByteStorage".to_owned() }
        }
        Object::Tuple(objects) => Object::Tuple(all(objects)),
        Object::List(objects) => Object::List(all(objects)),
        Object::Reduce { callable, args } => {
            Object::Reduce { callable: boxed(callable), args: boxed(args) }
        }
        Object::PersistentLoad(object) => Object::PersistentLoad(boxed(object)),
        other => other,
    }
}

impl TensorSource for PickledTensors {
    fn names(&self) -> Vec<String> {
        self.tensors.keys().cloned().collect()
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.get(name).map(|info| info.layout.dims().to_vec())
    }

    fn tensor(&self, name: &str) -> candle_core::Result<Tensor> {
        let Some(info) = self.tensors.get(name) else {
            return Err(Error::CannotFindTensor { path: name.to_owned() }.bt());
        };
        caught(|| self.tensor_of(info))
            .ok_or_else(|| Error::Msg(format!("{name}: the archive is damaged")))?
    }
}
