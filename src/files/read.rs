//! Reads whole files that a user named, which may be a pipe, a device or far too large. It must not
//! depend on what a file holds.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The contents of a regular file of at most `limit` bytes. It never waits for a pipe or a device.
///
/// # Errors
/// The system's, with [`ErrorKind::IsADirectory`] for a folder, [`ErrorKind::InvalidInput`] for
/// anything else that is not a regular file, and [`ErrorKind::FileTooLarge`] above the limit.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Checked before it is opened, because opening a pipe waits for its writer and opening a device
    // may have effects.
    regular(fs::metadata(path)?.file_type())?;
    let file = open(path)?;
    let metadata = file.metadata()?;
    // Another file may have replaced it in the meantime.
    regular(metadata.file_type())?;
    let within = |length: u64| {
        let problem = || format!("it has {}, and the limit is {}", size(length), size(limit));
        if length > limit {
            Err(io::Error::new(ErrorKind::FileTooLarge, problem()))
        } else {
            Ok(())
        }
    };
    within(metadata.len())?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
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

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    // A pipe that has replaced the file since the check must not block.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    options.open(path)
}

fn regular(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        return Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder, not a file"));
    }
    let problem = format!("it is {}, not a regular file", special(kind));
    Err(io::Error::new(ErrorKind::InvalidInput, problem))
}

#[cfg(unix)]
fn special(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn special(_: FileType) -> &'static str {
    "something else"
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

    #[cfg(unix)]
    #[test]
    fn pipes_devices_and_folders_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for (path, what) in [
            (pipe.as_path(), "a pipe"),
            (Path::new("/dev/zero"), "a device"),
            (&link, "a device"),
            (folder.path(), "a folder"),
        ] {
            let error = read_regular(path, 100).unwrap_err().to_string();
            assert!(error.contains(what), "{}: {error}", path.display());
        }
    }
}
