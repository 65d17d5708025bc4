//! The file as a whole: header, metadata, tensor table. It is checked once, so that everything else
//! can trust the ranges.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use super::reader::Reader;
use super::values::Value;
use crate::kernels::Format;
use crate::library::blob::Blob;
use crate::library::other_file::{
    ADAPTER, BIG_ENDIAN, IMATRIX, OtherFile, PROJECTOR, VERSION_1, VOCABULARY,
};
use crate::library::shard_names::MOST_SHARDS;
use crate::library::{LibraryError, Result, Weight};

/// A tensor in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TensorEntry {
    pub(super) format: Format,
    /// `[rows, columns]`: the file gives the row's length first.
    pub(super) shape: Vec<usize>,
    /// Which of the model's files contains it.
    pub(super) file: usize,
    /// Its bytes in that file.
    pub(super) range: Range<usize>,
}

impl TensorEntry {
    /// Its contribution to the model's size.
    pub(super) fn weight(&self) -> Weight {
        let elements = self.shape.iter().map(|&n| n as u64).product();
        Weight { format: self.format, elements, bytes: self.range.len() as u64 }
    }

    /// The rows `at` of a matrix, or `None` if it has fewer.
    pub(super) fn rows(&self, at: Range<usize>) -> Option<Self> {
        let &[rows, cols] = self.shape.as_slice() else { return None };
        if at.end > rows || at.start >= at.end {
            return None;
        }
        let row = self.range.len() / rows;
        let start = self.range.start;
        let range = start + at.start * row..start + at.end * row;
        Some(Self { shape: vec![at.len(), cols], range, ..*self })
    }

    /// The tensor at each index of the first dimension.
    pub(super) fn parts(&self) -> impl Iterator<Item = Self> {
        let (count, shape) = match self.shape.split_first() {
            Some((&count, rest)) if !rest.is_empty() => (count, rest.to_vec()),
            _ => (0, Vec::new()),
        };
        let part = self.range.len() / count.max(1);
        (0..count).map(move |i| {
            let start = self.range.start + i * part;
            Self { shape: shape.clone(), range: start..start + part, ..*self }
        })
    }
}

/// A model in GGUF of version 2 or 3: one file, or several, of which the first has the metadata.
#[derive(Debug)]
pub(in crate::library) struct GgufFile {
    blobs: Vec<Blob>,
    metadata: BTreeMap<String, Value>,
    pub(super) tensors: BTreeMap<String, TensorEntry>,
}

const MOST_DIMENSIONS: u32 = 4;
const DEFAULT_ALIGNMENT: u64 = 32;

impl GgufFile {
    /// Reads a model whose first or only file is `blob`; `shard` opens file number n (starting
    /// at 1) of a model in several files.
    pub(super) fn read(blob: Blob, shard: impl Fn(u64, u64) -> Result<Blob>) -> Result<Self> {
        let mut whole = Self::read_one(blob)?;
        let Some(count) = whole.number("split.count")?.filter(|&count| count > 1) else {
            return Ok(whole);
        };
        if count > MOST_SHARDS {
            let problem = format!("{count} files, but a model has at most {MOST_SHARDS}");
            return Err(LibraryError::damaged(whole.name(), "metadata `split.count`", problem));
        }
        whole.expect_shard(0, count)?;
        for number in 1..count {
            let part = Self::read_one(shard(number + 1, count)?)?;
            part.expect_shard(number, count)?;
            let file = whole.blobs.len();
            for (name, entry) in part.tensors {
                if whole.tensors.insert(name.clone(), TensorEntry { file, ..entry }).is_some() {
                    let place = format!("tensor `{name}`");
                    let problem = "it is also in another file of the model";
                    return Err(LibraryError::damaged(part.blobs[0].name(), place, problem));
                }
            }
            whole.blobs.extend(part.blobs);
        }
        match whole.number("split.tensors.count")? {
            Some(listed) if listed != whole.tensors.len() as u64 => {
                let problem = format!(
                    "the model has {listed} tensors, but the {count} files have {}; are they all \
                     from one model?",
                    whole.tensors.len()
                );
                Err(LibraryError::damaged(whole.name(), "metadata `split.tensors.count`", problem))
            }
            _ => Ok(whole),
        }
    }

    fn read_one(blob: Blob) -> Result<Self> {
        let mut reader = Reader::new(&blob, blob.name());
        let (tensor_count, value_count) = read_counts(&mut reader)?;
        let metadata = read_metadata(&mut reader, value_count)?;
        let tensors = read_tensors(&mut reader, tensor_count, alignment(&metadata, &blob)?)?;
        Ok(Self { metadata, tensors, blobs: vec![blob] })
    }

    /// Refuses a file that is not number `number` (starting at 0) of `count`.
    fn expect_shard(&self, number: u64, count: u64) -> Result<()> {
        let no = self.number("split.no")?;
        let of = self.number("split.count")?;
        if (no, of) == (Some(number), Some(count)) {
            return Ok(());
        }
        let found = |n: Option<u64>| n.map_or("absent".to_owned(), |n| n.to_string());
        let problem = format!(
            "it is {} of {} instead of {number} of {count}; download all files of one model",
            found(no),
            found(of)
        );
        Err(LibraryError::damaged(self.name(), "metadata `split.no`", problem))
    }

    pub(super) fn name(&self) -> &str {
        self.blobs[0].name()
    }

    /// The bytes of a tensor.
    pub(super) fn bytes(&self, entry: &TensorEntry) -> &[u8] {
        &self.blobs[entry.file][entry.range.clone()]
    }

    pub(super) fn into_tensors(self) -> (Vec<Blob>, BTreeMap<String, TensorEntry>) {
        (self.blobs, self.tensors)
    }

    /// The value of `key`, if the file has it; a value of another type is an error.
    pub(super) fn get<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => {
                let problem = format!("it is {} instead of {expected}", value.describe());
                Err(LibraryError::damaged(self.name(), format!("metadata `{key}`"), problem))
            }
        }
    }

    /// What the file holds instead of a language model, if that is known.
    pub(super) fn other(&self) -> Option<OtherFile> {
        let text = |key: &str| self.text(key).ok().flatten().unwrap_or_default();
        let architecture = text("general.architecture");
        let of_lora = |name: &String| name.ends_with(".lora_a");
        let has = |begin: &str| self.metadata.keys().any(|key| key.starts_with(begin));
        match text("general.type") {
            "adapter" => Some(ADAPTER),
            "imatrix" => Some(IMATRIX),
            "mmproj" => Some(PROJECTOR),
            _ if has("adapter.") || self.tensors.keys().any(of_lora) => Some(ADAPTER),
            _ if has("imatrix.") => Some(IMATRIX),
            _ if has("clip.") => Some(PROJECTOR),
            "vocab" => Some(VOCABULARY),
            _ if self.tensors.is_empty() && has("tokenizer.") => Some(VOCABULARY),
            _ => OtherFile::of_architecture(architecture),
        }
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<u64>> {
        self.get(key, "a whole number", Value::as_u64)
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f64>> {
        self.get(key, "a number", Value::as_f64)
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.get(key, "true or false", |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&str>> {
        self.get(key, "text", |value| match value {
            Value::String(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The value of `key`, of any type.
    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<String>>> {
        Ok(self.texts_at(key, 0..u64::MAX)?.map(|(_, texts)| texts))
    }

    /// How many texts the list under `key` has, and those at `at`.
    pub(super) fn texts_at(&self, key: &str, at: Range<u64>) -> Result<Option<(u64, Vec<String>)>> {
        self.get(key, "a list of strings", |value| value.strings(&self.blobs[0], at))
    }

    pub(super) fn list(&self, key: &str) -> Result<Option<Vec<Value>>> {
        self.get(key, "a list of numbers", |value| value.items(&self.blobs[0]))
    }
}

/// Magic and version; returns how many tensors and values there are.
fn read_counts(reader: &mut Reader<'_>) -> Result<(u64, u64)> {
    let magic = reader.bytes.get(..4).unwrap_or(reader.bytes);
    if magic != b"GGUF" {
        if let Some(other) = OtherFile::of_bytes(Path::new(reader.origin), reader.bytes) {
            return Err(other.error(reader.origin));
        }
        let problem = format!("{:?} instead of \"GGUF\"", String::from_utf8_lossy(magic));
        return Err(reader.damaged(0, "magic", problem));
    }
    reader.at = magic.len();
    let version = reader.u32("version")?;
    if !matches!(version, 2 | 3) {
        if matches!(version.swap_bytes(), 1..=3) {
            return Err(BIG_ENDIAN.error(reader.origin));
        }
        if version == 1 {
            return Err(VERSION_1.error(reader.origin));
        }
        let found = version.to_string();
        let remedy = "use a file of version 2 or 3, or a newer release of dovetail";
        return Err(LibraryError::unsupported(reader.origin, "the version of GGUF", found, remedy));
    }
    Ok((reader.u64("tensor count")?, reader.u64("metadata count")?))
}

fn read_metadata(reader: &mut Reader<'_>, count: u64) -> Result<BTreeMap<String, Value>> {
    let mut metadata = BTreeMap::new();
    for number in 0..count {
        let at = reader.at;
        let key = reader.name(&format!("metadata key {number} of {count}"))?;
        let value = Value::read(reader, &format!("metadata `{key}`"))?;
        if metadata.insert(key.to_owned(), value).is_some() {
            let what = format!("metadata `{key}`");
            return Err(reader.damaged(at, &what, "the key occurs twice".to_owned()));
        }
    }
    Ok(metadata)
}

fn alignment(metadata: &BTreeMap<String, Value>, blob: &Blob) -> Result<u64> {
    let Some(value) = metadata.get("general.alignment") else { return Ok(DEFAULT_ALIGNMENT) };
    value.as_u64().filter(|&n| n.is_power_of_two() && n <= 1 << 20).ok_or_else(|| {
        let problem = format!("{} is not a power of two up to 1048576", value.describe());
        LibraryError::damaged(blob.name(), "metadata `general.alignment`", problem)
    })
}

/// The table, and where the data after it begins.
fn read_tensors(
    reader: &mut Reader<'_>,
    count: u64,
    alignment: u64,
) -> Result<BTreeMap<String, TensorEntry>> {
    let mut claims = Vec::new();
    for number in 0..count {
        let at = reader.at;
        let name = reader.name(&format!("tensor {number} of {count}"))?;
        let what = format!("tensor `{name}`");
        let dimensions = reader.u32(&what)?;
        if !(1..=MOST_DIMENSIONS).contains(&dimensions) {
            let problem = format!("{dimensions} dimensions instead of 1 to 4");
            return Err(reader.damaged(at, &what, problem));
        }
        let mut extents = Vec::new();
        for _ in 0..dimensions {
            extents.push(reader.u64(&what)?);
        }
        let mut kind = reader.u32(&what)?;
        // A draft vocabulary has 64-bit numbers, which are held as pairs of words.
        if kind == 27 {
            extents[0] = extents[0].saturating_mul(2);
            kind = 0;
        }
        let offset = reader.u64(&what)?;
        let format = format_of(kind).map_err(|found| {
            let remedy = format!("use the model in one of these formats: {}", Format::names());
            LibraryError::unsupported(reader.origin, format!("the type of {what}"), found, remedy)
        })?;
        let Some((shape, size)) = size_of(&extents, format) else {
            let problem = format!(
                "shape {extents:?} is impossible in {format}, whose rows must be multiples of {}",
                format.block()
            );
            return Err(reader.damaged(at, &what, problem));
        };
        let entry = TensorEntry { format, shape, file: 0, range: 0..0 };
        claims.push((at, name, entry, offset, size));
    }
    let data = reader.aligned(alignment);
    let mut tensors = BTreeMap::new();
    for (at, name, entry, offset, size) in claims {
        let what = format!("tensor `{name}`");
        let damaged = |problem: String| reader.damaged(at, &what, problem);
        if offset % alignment != 0 {
            return Err(damaged(format!("its offset {offset} is not a multiple of {alignment}")));
        }
        let Some(range) = reader.range(data, offset, size) else {
            return Err(damaged(format!(
                "it should have {size} bytes at offset {offset} of the data, but the data has {}",
                reader.behind(data)
            )));
        };
        if tensors.insert(name.to_owned(), TensorEntry { range, ..entry }).is_some() {
            return Err(damaged("the tensor occurs twice".to_owned()));
        }
    }
    Ok(tensors)
}

/// Shape with the rows first, and bytes; `None` if a dimension is 0, does not fit the format's
/// blocks, or the size overflows.
fn size_of(extents: &[u64], format: Format) -> Option<(Vec<usize>, u64)> {
    let (&row, rest) = extents.split_first()?;
    let block = format.block() as u64;
    if row == 0 || row % block != 0 {
        return None;
    }
    let row_bytes = (row / block).checked_mul(format.block_bytes() as u64)?;
    let rows = rest.iter().try_fold(1u64, |rows, &n| rows.checked_mul(n))?;
    if rows == 0 {
        return None;
    }
    let shape = extents.iter().rev().map(|&n| usize::try_from(n).ok()).collect::<Option<_>>()?;
    Some((shape, rows.checked_mul(row_bytes)?))
}

/// The format with a number, or the name of a type that holds no weights.
fn format_of(number: u32) -> Result<Format, String> {
    Format::from_ggml(number).ok_or_else(|| {
        let name = match number {
            9 => "Q8_1",
            15 => "Q8_K",
            24 => "I8",
            25 => "I16",
            26 => "I32",
            28 => "F64",
            other => return format!("type {other}"),
        };
        name.to_owned()
    })
}
