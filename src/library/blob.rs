//! The bytes of a file: mapped from disk, or part of the binary. It must not depend on what they
//! mean.

use std::ops::{Deref, Range};
use std::path::{Path, absolute};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use memmap2::Mmap;

use super::{LibraryError, Result};
use crate::files::{Open, checksum, open_regular};

/// A file's bytes, at any alignment, with its name for errors.
#[derive(Clone, Debug)]
pub(crate) struct Blob {
    name: String,
    data: Data,
}

#[derive(Clone, Debug)]
enum Data {
    /// The map, and when the file was last changed, if the system says so.
    Mapped(Arc<Mmap>, Option<SystemTime>),
    Built(&'static [u8]),
}

impl Blob {
    /// Maps a file. Nothing of it is read yet.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |source| LibraryError::io(path, source);
        let file = open_regular(path, Open::Read).map_err(failed)?;
        // SAFETY: the map is only read. If another program shortens the file meanwhile, reading
        // stops the process (SIGBUS), as with every mapped model. Copying 4 GB to prevent that
        // would make the start seconds longer, which the map is meant to avoid.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        let modified = file.metadata().and_then(|metadata| metadata.modified()).ok();
        Ok(Self { name: path.display().to_string(), data: Data::Mapped(Arc::new(map), modified) })
    }

    /// What identifies the file without reading all of it: path, size, time of change, and a
    /// checksum of its first `header` bytes. `None` if that is not known.
    pub(crate) fn identity(&self, header: usize) -> Option<String> {
        let Data::Mapped(map, Some(modified)) = &self.data else { return None };
        let path = absolute(&self.name).ok()?;
        let modified = modified.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        let header = checksum(map.get(..header)?);
        Some(format!("{} {} {modified} {header:016x}\n", path.display(), map.len()))
    }

    /// Bytes that are part of the binary.
    pub(crate) fn built(name: String, bytes: &'static [u8]) -> Self {
        Self { name, data: Data::Built(bytes) }
    }

    /// The file's name for errors.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Releases the memory of `range`; reading it again reads the file again.
    pub(crate) fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Data::Mapped(map, _) = &self.data {
            // SAFETY: the map is private, read-only and backed by the file, so dropped pages come
            // back with the same bytes.
            #[allow(unsafe_code)]
            let advised = unsafe {
                map.unchecked_advise_range(
                    memmap2::UncheckedAdvice::DontNeed,
                    range.start,
                    range.len(),
                )
            };
            // Only memory is affected: the pages stay if the system does not follow the advice.
            if let Err(error) = advised {
                tracing::debug!(file = self.name, %error, "could not release pages");
            }
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}

/// What identifies the files of a model; `tensors` is where the tensors of each file begin, by the
/// number of the file.
pub(crate) fn identity_of(
    files: &[Blob],
    tensors: impl Iterator<Item = (usize, usize)>,
) -> Option<String> {
    let mut headers: Vec<usize> = files.iter().map(|file| file.len()).collect();
    for (file, start) in tensors {
        headers[file] = headers[file].min(start);
    }
    files.iter().zip(headers).map(|(file, header)| file.identity(header)).collect()
}

/// Part of a file, which stays mapped as long as this exists.
pub(crate) struct BlobPart(pub(crate) Blob, pub(crate) Range<usize>);

impl AsRef<[u8]> for BlobPart {
    fn as_ref(&self) -> &[u8] {
        &self.0[self.1.clone()]
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.data {
            Data::Mapped(map, _) => map,
            Data::Built(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_bytes_can_be_read_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(file.path(), &bytes).unwrap();
        let blob = Blob::open(file.path()).unwrap();
        assert_eq!(&blob[..], bytes);
        blob.release(5_000..70_000);
        assert_eq!(&blob[..], bytes);
    }

    #[test]
    fn folders_and_missing_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Blob::open(folder.path()), Err(LibraryError::Io { .. })));
        let text = Blob::open(&folder.path().join("no.gguf")).unwrap_err().to_string();
        assert!(text.contains("no.gguf") && text.contains("check the path"), "{text}");
    }

    #[test]
    fn an_empty_file_is_no_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Blob::open(file.path()).unwrap().is_empty());
    }
}
