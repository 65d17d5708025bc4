//! Reads little-endian fields one after the other and never past the end: every length is checked
//! against the existing bytes before it is used. It must not depend on metadata.

use std::ops::Range;

use crate::library::{LibraryError, Result};

/// A position in a file.
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    /// Offset of the next byte.
    pub(super) at: usize,
    /// The file's name.
    pub(super) origin: &'a str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], origin: &'a str) -> Self {
        Self { bytes, at: 0, origin }
    }

    /// An error about the field `what`, which begins at offset `at`.
    pub(super) fn damaged(&self, at: usize, what: &str, problem: String) -> LibraryError {
        LibraryError::damaged(self.origin, format!("{what} at offset {at}"), problem)
    }

    /// The next `count` items of `size` bytes.
    pub(super) fn take(&mut self, count: u64, size: u64, what: &str) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let length = count.checked_mul(size).and_then(|length| usize::try_from(length).ok());
        let Some(taken) = length.and_then(|length| rest.get(..length)) else {
            let claim = if size == 1 {
                format!("it should have {count} bytes")
            } else {
                format!("it should have {count} items of {size} bytes")
            };
            return Err(self.damaged(
                self.at,
                what,
                format!("{claim}, but only {} follow", rest.len()),
            ));
        };
        self.at += taken.len();
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let at = self.at;
        let taken = self.take(N as u64, 1, what)?;
        taken.try_into().map_err(|_| self.damaged(at, what, "too short".to_owned()))
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A length and that many bytes.
    pub(super) fn string(&mut self, what: &str) -> Result<&'a [u8]> {
        let length = self.u64(what)?;
        self.take(length, 1, what)
    }

    /// A string that names something: valid UTF-8.
    pub(super) fn name(&mut self, what: &str) -> Result<&'a str> {
        let at = self.at;
        let bytes = self.string(what)?;
        std::str::from_utf8(bytes).map_err(|error| self.damaged(at, what, error.to_string()))
    }

    /// The next offset that is a multiple of `alignment`; it may be past the end.
    pub(super) fn aligned(&self, alignment: u64) -> u64 {
        (self.at as u64).next_multiple_of(alignment)
    }

    /// Bytes from offset `start` to the end.
    pub(super) fn behind(&self, start: u64) -> u64 {
        (self.bytes.len() as u64).saturating_sub(start)
    }

    /// `size` bytes at `start + offset`, if the file has them.
    pub(super) fn range(&self, start: u64, offset: u64, size: u64) -> Option<Range<usize>> {
        let from = start.checked_add(offset)?;
        let to = from.checked_add(size)?;
        if to > self.bytes.len() as u64 {
            return None;
        }
        Some(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
    }
}
