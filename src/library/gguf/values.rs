//! Metadata values. Arrays stay in the file until they are requested: a vocabulary is read only
//! once, and a wrong length costs nothing.

use std::ops::Range;

use super::reader::Reader;
use crate::library::Result;

/// The types of values by their numbers in the format, with the bytes of an item; strings and
/// arrays have no fixed size.
const KINDS: [(&str, u64); 13] = [
    ("U8", 1),
    ("I8", 1),
    ("U16", 2),
    ("I16", 2),
    ("U32", 4),
    ("I32", 4),
    ("F32", 4),
    ("Bool", 1),
    ("String", 0),
    ("Array", 0),
    ("U64", 8),
    ("I64", 8),
    ("F64", 8),
];
const STRING: usize = 8;
const ARRAY: usize = 9;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    String(String),
    /// Items of one kind, in these bytes of the file.
    Array(usize, u64, Range<usize>),
}

impl Value {
    /// Reads a value, its kind first.
    pub(super) fn read(reader: &mut Reader<'_>, key: &str) -> Result<Self> {
        match kind(reader, key)? {
            STRING => Ok(Self::String(lossy(reader.string(key)?))),
            ARRAY => Self::read_array(reader, key),
            kind => Ok(Self::scalar(kind, reader.take(1, KINDS[kind].1, key)?)),
        }
    }

    fn read_array(reader: &mut Reader<'_>, key: &str) -> Result<Self> {
        let at = reader.at;
        let kind = kind(reader, key)?;
        let count = reader.u64(key)?;
        let start = reader.at;
        match kind {
            STRING => {
                for _ in 0..count {
                    reader.string(key)?;
                }
            }
            ARRAY => {
                let problem = "arrays of arrays are not allowed in a model".to_owned();
                return Err(reader.damaged(at, key, problem));
            }
            _ => {
                reader.take(count, KINDS[kind].1, key)?;
            }
        }
        Ok(Self::Array(kind, count, start..reader.at))
    }

    /// A value of fixed size from its bytes.
    fn scalar(kind: usize, bytes: &[u8]) -> Self {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let raw = u64::from_le_bytes(word);
        match KINDS[kind].0 {
            "I8" => Self::Signed(i64::from(raw as u8 as i8)),
            "I16" => Self::Signed(i64::from(raw as u16 as i16)),
            "I32" => Self::Signed(i64::from(raw as u32 as i32)),
            "I64" => Self::Signed(raw as i64),
            "F32" => Self::Float(f64::from(f32::from_bits(raw as u32))),
            "F64" => Self::Float(f64::from_bits(raw)),
            "Bool" => Self::Bool(raw != 0),
            _ => Self::Unsigned(raw),
        }
    }

    /// The items of an array of fixed-size values in `file`; `None` for any other value.
    pub(super) fn items(&self, file: &[u8]) -> Option<Vec<Self>> {
        let Self::Array(kind, count, range) = self else { return None };
        if *count == 0 {
            return Some(Vec::new());
        }
        let size = KINDS[*kind].1 as usize;
        let items = (size > 0).then_some(file.get(range.clone())?)?.chunks(size);
        Some(items.map(|item| Self::scalar(*kind, item)).collect())
    }

    /// How many items an array of strings in `file` has, and those of them at `at`; `None` for any
    /// other value.
    pub(super) fn strings(&self, file: &[u8], at: Range<u64>) -> Option<(u64, Vec<String>)> {
        let (count, range) = match self {
            // Writers that do not know what an empty list would contain give it any kind.
            Self::Array(_, 0, _) => return Some((0, Vec::new())),
            Self::Array(STRING, count, range) => (*count, range),
            _ => return None,
        };
        let mut reader = Reader::new(file.get(range.clone())?, "");
        let mut found = Vec::new();
        for number in 0..at.end.min(count) {
            let item = reader.string("").ok()?;
            if number >= at.start {
                found.push(lossy(item));
            }
        }
        Some((count, found))
    }

    /// An integer, however it is stored.
    pub(super) fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Unsigned(value) => Some(value),
            Self::Signed(value) => u64::try_from(value).ok(),
            _ => None,
        }
    }

    /// A number.
    pub(super) fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::Float(value) => Some(value),
            Self::Unsigned(value) => Some(value as f64),
            Self::Signed(value) => Some(value as f64),
            _ => None,
        }
    }

    /// The same value in JSON, or a text if JSON has none.
    pub(super) fn json(&self) -> serde_json::Value {
        match self {
            Self::Unsigned(value) => (*value).into(),
            Self::Signed(value) => (*value).into(),
            Self::Float(value) if value.is_finite() => (*value).into(),
            Self::Bool(value) => (*value).into(),
            Self::String(value) => value.as_str().into(),
            Self::Float(_) | Self::Array(..) => self.describe().into(),
        }
    }

    /// For messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Unsigned(value) => value.to_string(),
            Self::Signed(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Bool(value) => value.to_string(),
            Self::String(value) => format!("`{}`", value.chars().take(60).collect::<String>()),
            Self::Array(kind, count, _) => format!("an array of {count} {}", KINDS[*kind].0),
        }
    }
}

/// The index of a type in [`KINDS`].
fn kind(reader: &mut Reader<'_>, key: &str) -> Result<usize> {
    let at = reader.at;
    let number = reader.u32(key)?;
    let kind = Some(number as usize).filter(|&kind| kind < KINDS.len());
    kind.ok_or_else(|| reader.damaged(at, key, format!("value type {number} does not exist")))
}

/// Published vocabularies hold byte strings that are not UTF-8.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
