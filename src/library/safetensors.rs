//! Tensors in safetensors files: one file or several shards, mapped.
//!
//! The header is read here and not by the `safetensors` crate, because that crate adds the sizes in
//! a header without checking for overflow, and its errors name neither tensor nor value.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use candle_core::{DType, Device, Tensor};
use serde::Deserialize;
use serde_json::Value;

use super::blob::{Blob, identity_of};
use super::folder::Folder;
use super::{LibraryError, Result, Weight};
use crate::kernels::Format;
use crate::model::head::TensorSource;
use crate::model::{RawTensor, WeightSource};

/// Far above the header of any published shard (about 100 KB).
const LONGEST_HEADER: u64 = 32 << 20;
/// How the names of buffers end that checkpoints hold in addition to their weights. `t2d` is one
/// unless it consists of flags: it contains the same information as `d2t`.
const BUFFERS: [&str; 5] = [".inv_freq", ".position_ids", ".masked_bias", ".attn.bias", "t2d"];
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The tensors of one model, in one file or several.
#[derive(Debug)]
pub(super) struct Tensors {
    origin: String,
    files: Vec<Blob>,
    tensors: BTreeMap<String, StoredTensor>,
}

#[derive(Debug)]
struct StoredTensor {
    file: usize,
    element: ElementKind,
    shape: Vec<usize>,
    range: Range<usize>,
}

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementKind {
    /// Weights.
    Weight(Format),
    /// Token ids in 64 bits: a head's draft vocabulary.
    TokenId,
    /// One byte for each token of the target: whether it is in the draft vocabulary.
    Flag,
    /// Two codes of four bits per byte, of matrices in MXFP4.
    Fp4Codes,
    /// The scales of 32 such codes, one byte each.
    Fp4Scales,
}

impl ElementKind {
    /// The bytes of a row of `columns` elements, if they are a whole number of blocks.
    fn row_bytes(self, columns: usize) -> Option<usize> {
        match self {
            Self::Weight(format) => format.row_bytes(columns),
            Self::TokenId => columns.checked_mul(8),
            Self::Flag | Self::Fp4Codes | Self::Fp4Scales => Some(columns),
        }
    }
}

impl Tensors {
    /// Opens the weights in `folder`, or returns `None` if it has none in this format.
    pub(super) fn open(folder: &Folder) -> Result<Option<Self>> {
        if let Some(file) = folder.blob(SINGLE)? {
            return Self::read(folder.name(), vec![file]).map(Some);
        }
        let Some(index) = folder.blob(INDEX)? else { return Ok(None) };
        let places = shards(&index)?;
        let mut names: Vec<&String> = places.values().collect();
        names.sort();
        names.dedup();
        let files = names
            .iter()
            .map(|name| folder.need(name, "the index lists it; download all parts of the model"));
        let all = Self::read(folder.name(), files.collect::<Result<_, _>>()?)?;
        match places.iter().find(|(tensor, _)| !all.tensors.contains_key(*tensor)) {
            Some((tensor, file)) => Err(LibraryError::damaged(
                index.name(),
                format!("tensor `{tensor}`"),
                format!("it should be in {file}, but is not"),
            )),
            None => Ok(Some(all)),
        }
    }

    fn read(origin: String, files: Vec<Blob>) -> Result<Self> {
        let mut tensors = BTreeMap::new();
        for (number, file) in files.iter().enumerate() {
            for (name, entry) in header(file, number)? {
                if tensors.contains_key(&name) {
                    let place = format!("tensor `{name}`");
                    return Err(LibraryError::damaged(file.name(), place, "it occurs twice"));
                }
                tensors.insert(name, entry);
            }
        }
        Ok(Self { origin, files, tensors })
    }

    /// Its contents, for a line about the model.
    pub(super) fn weights(&self) -> impl Iterator<Item = Weight> {
        self.tensors.values().filter_map(|entry| {
            let held = || entry.shape.iter().map(|&n| n as u64).product::<u64>();
            let (format, elements) = match entry.element {
                ElementKind::Weight(format) => (format, held()),
                ElementKind::Fp4Codes => (Format::Mxfp4, held() * 2),
                ElementKind::Fp4Scales => (Format::Mxfp4, 0),
                ElementKind::TokenId | ElementKind::Flag => return None,
            };
            Some(Weight { format, elements, bytes: entry.range.len() as u64 })
        })
    }

    /// Whether there is a tensor with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Shape and bytes of a tensor of MXFP4's codes or scales.
    pub(super) fn fp4(&self, name: &str) -> Option<(&[usize], &[u8])> {
        let entry = self.tensors.get(name)?;
        matches!(entry.element, ElementKind::Fp4Codes | ElementKind::Fp4Scales)
            .then(|| (entry.shape.as_slice(), self.bytes(entry)))
    }

    /// Releases the memory of a tensor, or of these rows of it.
    pub(super) fn release_rows(&self, name: &str, rows: Option<Range<usize>>) {
        let Some(entry) = self.tensors.get(name) else { return };
        let mut range = entry.range.clone();
        if let (Some(rows), total @ 1..) = (rows, rows_in(&entry.shape)) {
            let row = range.len() / total;
            let start = range.start;
            range = start + rows.start.min(total) * row..start + rows.end.min(total) * row;
        }
        self.files[entry.file].release(range);
    }

    fn bytes(&self, entry: &StoredTensor) -> &[u8] {
        &self.files[entry.file][entry.range.clone()]
    }
}

impl WeightSource for Tensors {
    fn describe(&self) -> String {
        self.origin.clone()
    }

    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        let entry = self.tensors.get(name)?;
        let ElementKind::Weight(format) = entry.element else { return None };
        Some(RawTensor {
            format,
            shape: entry.shape.clone(),
            bytes: Cow::Borrowed(self.bytes(entry)),
        })
    }

    fn release(&self, name: &str) {
        self.release_rows(name, None);
    }

    fn identity(&self) -> Option<String> {
        let ranges = self.tensors.values().map(|entry| (entry.file, entry.range.start));
        identity_of(&self.files, ranges)
    }
}

impl TensorSource for Tensors {
    fn names(&self) -> Vec<String> {
        self.tensors.keys().cloned().collect()
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.get(name).map(|entry| entry.shape.clone())
    }

    fn tensor(&self, name: &str) -> candle_core::Result<Tensor> {
        let Some(entry) = self.tensors.get(name) else {
            return Err(candle_core::Error::CannotFindTensor { path: name.to_owned() }.bt());
        };
        let bytes = self.bytes(entry);
        let dtype = match entry.element {
            ElementKind::Weight(Format::Q4_1) => {
                let rows = rows_in(&entry.shape);
                let shape = [rows, bytes.len() / rows.max(1)];
                return Tensor::from_raw_buffer(bytes, DType::U8, &shape, &Device::Cpu);
            }
            ElementKind::Weight(Format::F16) => DType::F16,
            ElementKind::Weight(Format::BF16) => DType::BF16,
            ElementKind::Weight(_) => DType::F32,
            ElementKind::TokenId => DType::I64,
            ElementKind::Flag | ElementKind::Fp4Codes | ElementKind::Fp4Scales => DType::U8,
        };
        Tensor::from_raw_buffer(bytes, dtype, &entry.shape, &Device::Cpu)
    }
}

/// Tensor name to shard, from the index file.
fn shards(index: &Blob) -> Result<HashMap<String, String>> {
    #[derive(Deserialize)]
    struct ShardIndex {
        weight_map: HashMap<String, String>,
    }
    let index_damaged = |problem: String| LibraryError::damaged(index.name(), "index", problem);
    let parsed: ShardIndex =
        serde_json::from_slice(index).map_err(|error| index_damaged(error.to_string()))?;
    match parsed.weight_map.values().find(|name| name.contains(['/', '\\'])) {
        Some(name) => Err(index_damaged(format!("`{name}` is outside the folder"))),
        None => Ok(parsed.weight_map),
    }
}

/// The entries of one file, with ranges that have been checked to lie inside it.
fn header(file: &Blob, number: usize) -> Result<Vec<(String, StoredTensor)>> {
    let damaged = |place: &str, problem: String| LibraryError::damaged(file.name(), place, problem);
    let Some((length, rest)) = file.split_first_chunk() else {
        let problem = format!("only {} bytes, too few for a length", file.len());
        return Err(damaged("offset 0", problem));
    };
    let length = u64::from_le_bytes(*length);
    let header = usize::try_from(length).ok().filter(|_| length <= LONGEST_HEADER);
    let Some((header, data)) = header.and_then(|header| rest.split_at_checked(header)) else {
        let problem =
            format!("the header should have {length} bytes, but only {} follow", rest.len());
        return Err(damaged("offset 0", problem));
    };
    let entries: serde_json::Map<String, Value> = serde_json::from_slice(header)
        .map_err(|error| damaged("header at offset 8", error.to_string()))?;
    let start = file.len() - data.len();
    let mut tensors = Vec::with_capacity(entries.len());
    for (name, value) in entries {
        if name == "__metadata__" {
            continue;
        }
        if let Some(entry) = entry(value, data.len(), &name, file.name())? {
            let range = entry.range.start + start..entry.range.end + start;
            tensors.push((name, StoredTensor { file: number, range, ..entry }));
        }
    }
    Ok(tensors)
}

/// One entry, its range relative to the data. Buffers that no model needs are left out.
fn entry(value: Value, data: usize, name: &str, origin: &str) -> Result<Option<StoredTensor>> {
    #[derive(Deserialize)]
    struct Header {
        dtype: String,
        shape: Vec<usize>,
        data_offsets: (usize, usize),
    }
    let place = format!("tensor `{name}`");
    let header: Header = serde_json::from_value(value)
        .map_err(|error| LibraryError::damaged(origin, &place, error))?;
    let (start, end) = header.data_offsets;
    if start > end || end > data {
        let problem = format!("it should be at bytes {start} to {end}, but the file has {data}");
        return Err(LibraryError::damaged(origin, place, problem));
    }
    let element = match header.dtype.as_str() {
        "F32" => ElementKind::Weight(Format::F32),
        "F16" => ElementKind::Weight(Format::F16),
        "BF16" => ElementKind::Weight(Format::BF16),
        // Ours: heads of this program are stored as they are run (method.md, Published files of a
        // head).
        "Q4_1" => ElementKind::Weight(Format::Q4_1),
        "I64" if name.ends_with("d2t") => ElementKind::TokenId,
        "BOOL" if name.ends_with("t2d") => ElementKind::Flag,
        "U8" if name.ends_with("_blocks") => ElementKind::Fp4Codes,
        "U8" if name.ends_with("_scales") => ElementKind::Fp4Scales,
        _ if BUFFERS.iter().any(|end| name.ends_with(end)) => return Ok(None),
        other => {
            let remedy = "use the model in F32, F16 or BF16, or its GGUF file";
            let what = format!("the type of {place}");
            return Err(LibraryError::unsupported(origin, what, other, remedy));
        }
    };
    let (rows, columns) = match header.shape.split_last() {
        Some((&columns, rows)) => (rows, columns),
        None => (&[][..], 1),
    };
    let size = rows.iter().fold(element.row_bytes(columns), |size, &n| size?.checked_mul(n));
    if size != Some(end - start) {
        let Header { dtype, shape, .. } = header;
        let bytes = end - start;
        let problem = format!("shape {shape:?} of {dtype} does not match its {bytes} bytes");
        return Err(LibraryError::damaged(origin, place, problem));
    }
    Ok(Some(StoredTensor { file: 0, element, shape: header.shape, range: start..end }))
}

/// How many rows a tensor of this shape has; the numbers of a vector are rows.
pub(super) fn rows_in(shape: &[usize]) -> usize {
    match shape {
        [length] => *length,
        [rows @ .., _] => rows.iter().product(),
        [] => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::kernels::expand_row;
    use proptest::prelude::*;
    use safetensors::tensor::{Dtype, TensorView, serialize};
    use serde_json::json;

    /// Two weights and a buffer, as written by the reference library.
    fn sound() -> Vec<u8> {
        let floats: Vec<u8> = (0..6u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
        let halves: Vec<u8> =
            (0..4u8).flat_map(|i| half::bf16::from_f32(f32::from(i)).to_le_bytes()).collect();
        let view = |dtype, shape: &[usize], data| TensorView::new(dtype, shape.to_vec(), data);
        let tensors = [
            ("a.weight", view(Dtype::F32, &[2, 3], &floats[..]).unwrap()),
            ("b.weight", view(Dtype::BF16, &[4], &halves[..]).unwrap()),
            ("a.rotary_emb.position_ids", view(Dtype::I64, &[1], &[0; 8]).unwrap()),
        ];
        serialize(tensors, None).unwrap()
    }

    fn with_header(header: &Value, data: usize) -> Vec<u8> {
        let header = header.to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.resize(file.len() + data, 0);
        file
    }

    fn open(folder: &Path) -> Result<Tensors> {
        Ok(Tensors::open(&Folder::Disk(folder.to_owned()))?.expect("there is a file"))
    }

    fn open_bytes(bytes: &[u8]) -> Result<Tensors> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(SINGLE), bytes).unwrap();
        open(folder.path())
    }

    #[test]
    fn weights_are_read_as_they_were_written() {
        let all = open_bytes(&sound()).unwrap();
        assert_eq!(all.names(), ["a.weight", "b.weight"]);
        let a = WeightSource::tensor(&all, "a.weight").unwrap();
        assert_eq!((a.format, a.shape.as_slice(), a.bytes.len()), (Format::F32, &[2, 3][..], 24));
        WeightSource::release(&all, "a.weight");
        let a = TensorSource::tensor(&all, "a.weight").unwrap();
        assert_eq!(a.to_vec2::<f32>().unwrap(), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]);
        let b = TensorSource::tensor(&all, "b.weight").unwrap();
        assert_eq!(b.dtype(), DType::BF16);
        assert_eq!(b.to_dtype(DType::F32).unwrap().to_vec1::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0]);
        assert!(TensorSource::tensor(&all, "c").is_err());
    }

    #[test]
    fn bytes_at_any_alignment_are_read() {
        let mut shifted = vec![0];
        shifted.extend(sound());
        let bytes: &'static [u8] = &shifted.leak()[1..];
        let all = Tensors::read("built".into(), vec![Blob::built("built".into(), bytes)]).unwrap();
        let a = TensorSource::tensor(&all, "a.weight").unwrap();
        assert_eq!(a.to_vec2::<f32>().unwrap(), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]);
    }

    #[test]
    fn weights_of_four_bits_are_read_as_blocks() {
        let header = json!({"w": {"dtype": "Q4_1", "shape": [2, 32], "data_offsets": [0, 40]}});
        let mut bytes = with_header(&header, 0);
        for scale in [1.0, 0.5] {
            let [scale, least] = [scale, -2.0].map(|x| half::f16::from_f32(x).to_le_bytes());
            bytes.extend([scale, least].concat());
            bytes.extend([0x30; 16]);
        }
        let all = open_bytes(&bytes).unwrap();
        let blocks = TensorSource::tensor(&all, "w").unwrap().to_vec2::<u8>().unwrap();
        let raw = WeightSource::tensor(&all, "w").unwrap();
        assert_eq!((raw.format, &raw.bytes[..]), (Format::Q4_1, &blocks.concat()[..]));
        let mut second = [0.0; 32];
        expand_row(Format::Q4_1, &blocks[1], &mut second);
        assert_eq!([second[15], second[16]], [-2.0, -0.5]);
    }

    #[test]
    fn shards_are_one_model() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        let tensor = |n: usize| json!({"dtype": "F32", "shape": [n], "data_offsets": [0, 4 * n]});
        write("model-1.safetensors", &with_header(&json!({"a": tensor(1)}), 4));
        write("model-2.safetensors", &with_header(&json!({"b": tensor(2)}), 8));
        let index = |map: Value| json!({"metadata": {}, "weight_map": map}).to_string();
        let sound = json!({"a": "model-1.safetensors", "b": "model-2.safetensors"});
        write(INDEX, index(sound).as_bytes());
        assert_eq!(open(folder.path()).unwrap().names(), ["a", "b"]);

        let cases = [
            (json!({"a": "model-1.safetensors", "b": "model-3.safetensors"}), "download all parts"),
            (json!({"c": "model-1.safetensors"}), "tensor `c`"),
            (json!({"a": "../model-1.safetensors"}), "outside the folder"),
            (json!(3), "index"),
        ];
        for (map, expected) in cases {
            write(INDEX, index(map).as_bytes());
            let text = open(folder.path()).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
        }
        write("model-2.safetensors", &with_header(&json!({"a": tensor(2)}), 8));
        write(
            INDEX,
            index(json!({"a": "model-1.safetensors", "b": "model-2.safetensors"})).as_bytes(),
        );
        assert!(open(folder.path()).unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn inconsistent_headers_are_refused_by_field_and_value() {
        let tensor = |dtype: &str, shape: Value, offsets: Value| {
            with_header(
                &json!({"w": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}),
                16,
            )
        };
        let huge = u64::MAX / 4;
        let cases = [
            (vec![], "offset 0: only 0 bytes"),
            (u64::MAX.to_le_bytes().to_vec(), "should have 18446744073709551615 bytes"),
            ([&40u64.to_le_bytes()[..], b"{}"].concat(), "should have 40 bytes, but only 2 follow"),
            ([&2u64.to_le_bytes()[..], b"[]"].concat(), "header at offset 8"),
            (tensor("F32", json!([4]), json!([0, 17])), "it should be at bytes 0 to 17"),
            (tensor("F32", json!([4]), json!([8, 4])), "it should be at bytes 8 to 4"),
            (tensor("F32", json!([5]), json!([0, 16])), "shape [5] of F32 does not match"),
            (tensor("F32", json!([huge, huge]), json!([0, 16])), "does not match"),
            (tensor("F32", json!([-4]), json!([0, 16])), "tensor `w`"),
            (tensor("Q4_1", json!([16]), json!([0, 16])), "shape [16] of Q4_1 does not match"),
            (tensor("F8_E4M3", json!([16]), json!([0, 16])), "F8_E4M3, which is not supported"),
        ];
        for (bytes, expected) in cases {
            let text = open_bytes(&bytes).unwrap_err().to_string();
            assert!(text.contains(expected) && text.contains(SINGLE), "{text} lacks {expected}");
        }
    }

    #[test]
    fn sizes_that_overflow_in_sum_are_refused() {
        // Each size alone is valid; their sum wraps around to the size of the file.
        let quarter = 1u64 << 62;
        let shape = [quarter / 4];
        let tensor = |from: u64, to: u64| {
            let at = [from, to];
            json!({"dtype": "F32", "shape": shape, "data_offsets": at})
        };
        let header = json!({
            "a": tensor(0, quarter), "b": tensor(quarter, 2 * quarter),
            "c": tensor(2 * quarter, 3 * quarter), "d": tensor(3 * quarter, u64::MAX)
        });
        let text = open_bytes(&with_header(&header, 0)).unwrap_err().to_string();
        assert!(text.contains("it should be at bytes"), "{text}");
    }

    proptest! {
        #[test]
        fn torn_and_changed_files_never_panic(
            cut in 0usize..400,
            changes in prop::collection::vec((0usize..400, any::<u8>()), 0..6),
        ) {
            let mut bytes = sound();
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            bytes.truncate(cut.max(1));
            if let Ok(all) = open_bytes(&bytes) {
                for name in all.names() {
                    prop_assert!(TensorSource::tensor(&all, &name).is_ok());
                }
            }
        }
    }
}
