//! Metadata values. Arrays stay in the file until they are requested: a vocabulary is read only
//! once, and a wrong length costs nothing.

use std::ops::Range;

use super::reader::Reader;
use crate::library::LibraryError;

/// The types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

/// Every kind by its number in the format, with the bytes per item; strings and arrays have no
/// fixed size.
const KINDS: [(ValueKind, Option<u64>); 13] = [
    (ValueKind::U8, Some(1)),
    (ValueKind::I8, Some(1)),
    (ValueKind::U16, Some(2)),
    (ValueKind::I16, Some(2)),
    (ValueKind::U32, Some(4)),
    (ValueKind::I32, Some(4)),
    (ValueKind::F32, Some(4)),
    (ValueKind::Bool, Some(1)),
    (ValueKind::String, None),
    (ValueKind::Array, None),
    (ValueKind::U64, Some(8)),
    (ValueKind::I64, Some(8)),
    (ValueKind::F64, Some(8)),
];

impl ValueKind {
    fn size(self) -> Option<u64> {
        KINDS[self as usize].1
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    String(String),
    /// Items of one kind, in these bytes of the file.
    Array(ValueKind, u64, Range<usize>),
}

impl Value {
    /// Reads a value, its kind first.
    pub(super) fn read(reader: &mut Reader<'_>, key: &str) -> Result<Self, LibraryError> {
        match kind(reader, key)? {
            ValueKind::String => Ok(Self::String(lossy(reader.string(key)?))),
            ValueKind::Array => Self::read_array(reader, key),
            fixed => {
                let bytes = reader.take(1, fixed.size().unwrap_or_default(), key)?;
                Ok(Self::scalar(fixed, bytes))
            }
        }
    }

    fn read_array(reader: &mut Reader<'_>, key: &str) -> Result<Self, LibraryError> {
        let at = reader.at();
        let kind = kind(reader, key)?;
        let count = reader.u64(key)?;
        let start = reader.at();
        match kind.size() {
            Some(size) => {
                reader.take(count, size, key)?;
            }
            None if kind == ValueKind::String => {
                for _ in 0..count {
                    reader.string(key)?;
                }
            }
            None => {
                let problem = "arrays of arrays are not allowed in a model".to_owned();
                return Err(reader.damaged(at, key, problem));
            }
        }
        Ok(Self::Array(kind, count, start..reader.at()))
    }

    /// A value of fixed size from its bytes.
    fn scalar(kind: ValueKind, bytes: &[u8]) -> Self {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let raw = u64::from_le_bytes(word);
        match kind {
            ValueKind::I8 => Self::Signed(i64::from(raw as u8 as i8)),
            ValueKind::I16 => Self::Signed(i64::from(raw as u16 as i16)),
            ValueKind::I32 => Self::Signed(i64::from(raw as u32 as i32)),
            ValueKind::I64 => Self::Signed(raw as i64),
            ValueKind::F32 => Self::Float(f64::from(f32::from_bits(raw as u32))),
            ValueKind::F64 => Self::Float(f64::from_bits(raw)),
            ValueKind::Bool => Self::Bool(raw != 0),
            _ => Self::Unsigned(raw),
        }
    }

    /// The items of an array of fixed-size values in `file`; `None` for any other value.
    pub(super) fn items(&self, file: &[u8]) -> Option<Vec<Self>> {
        let Self::Array(kind, count, range) = self else { return None };
        if *count == 0 {
            return Some(Vec::new());
        }
        let size = usize::try_from(kind.size()?).ok()?;
        Some(file.get(range.clone())?.chunks(size).map(|item| Self::scalar(*kind, item)).collect())
    }

    /// How many items an array of strings in `file` has, and those of them at `at`; `None` for any
    /// other value.
    pub(super) fn strings(&self, file: &[u8], at: Range<u64>) -> Option<(u64, Vec<String>)> {
        let (count, range) = match self {
            // Writers that do not know what an empty list would contain give it any kind.
            Self::Array(_, 0, _) => return Some((0, Vec::new())),
            Self::Array(ValueKind::String, count, range) => (*count, range),
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

    /// For messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Unsigned(value) => value.to_string(),
            Self::Signed(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Bool(value) => value.to_string(),
            Self::String(value) => format!("`{}`", value.chars().take(60).collect::<String>()),
            Self::Array(kind, count, _) => format!("an array of {count} {kind:?}"),
        }
    }
}

fn kind(reader: &mut Reader<'_>, key: &str) -> Result<ValueKind, LibraryError> {
    let at = reader.at();
    let number = reader.u32(key)?;
    let kind = KINDS.get(number as usize).map(|&(kind, _)| kind);
    kind.ok_or_else(|| reader.damaged(at, key, format!("value type {number} does not exist")))
}

/// Published vocabularies hold byte strings that are not UTF-8.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
