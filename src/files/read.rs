//! Reads whole files that a user named, which may be a pipe, a device or far too large. It must not
//! depend on what a file holds.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::{Open, open_regular};

/// The contents of a regular file of at most `limit` bytes. It never waits for a pipe or a device.
///
/// # Errors
/// Those of [`open_regular`], and [`ErrorKind::FileTooLarge`] above the limit.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path, Open::Read)?;
    let length = file.metadata()?.len();
    let within = |length: u64| {
        let problem = || format!("it has {}, and the limit is {}", size(length), size(limit));
        if length > limit {
            Err(io::Error::new(ErrorKind::FileTooLarge, problem()))
        } else {
            Ok(())
        }
    };
    within(length)?;
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    // It may grow while it is being read.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    within(bytes.len() as u64)?;
    Ok(bytes)
}

/// The text of a regular file of at most `limit` bytes.
///
/// # Errors
/// Those of [`read_regular`], and [`ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read_regular(path, limit)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(ErrorKind::InvalidData, format!("it is not UTF-8 text (byte {at})"))
    })
}

/// What is in a folder, sorted; a folder that does not exist counts as empty.
///
/// # Errors
/// The system's.
pub fn paths_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    paths.sort();
    Ok(paths)
}

fn size(bytes: u64) -> String {
    const MB: u64 = 1_000_000;
    if bytes < MB { format!("{bytes} bytes") } else { format!("{} MB", bytes / MB) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "seven b").unwrap();
        assert_eq!(read_regular(&path, 7).unwrap(), b"seven b");
        let error = read_regular(&path, 6).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "it has 7 bytes, and the limit is 6 bytes");
        assert_eq!(
            read_regular(&folder.path().join("b"), 9).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }

    #[test]
    fn a_sparse_giant_is_refused_before_it_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 40).unwrap();
        let error = read_regular(file.path(), 64_000_000).unwrap_err().to_string();
        assert_eq!(error, "it has 1099511 MB, and the limit is 64 MB");
    }

    #[test]
    fn text_must_be_utf_8() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), b"abc\xFFdef").unwrap();
        let error = read_text(file.path(), 100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.to_string().contains("byte 3"), "{error}");
    }
}
