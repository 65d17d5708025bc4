//! What a `--target` or `--draft` value names. It must never read more of it than its first bytes.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::other_file::OtherFile;
use super::{HubId, LibraryError, Result};
use crate::files::{Open, home_dir, open_regular};

/// A place where a model is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// The pair in the binary.
    Bundled,
    /// A folder of Hugging Face files.
    Folder(PathBuf),
    /// A GGUF file with any name.
    Gguf(PathBuf),
    /// A repository on the hub, or one model of it.
    Hub(HubId),
}

impl Spec {
    /// Reads a value: `bundled`, a folder, a GGUF file, or `owner/name[@revision][:file or
    /// quantisation]` on the hub. What exists on the disk takes precedence over what might be on
    /// the hub.
    ///
    /// # Errors
    /// [`LibraryError::Spec`] or [`LibraryError::Unknown`] if it can be none of these.
    pub fn parse(given: &str) -> Result<Self> {
        if given == "bundled" {
            return Ok(Self::Bundled);
        }
        let path = expand(given);
        let is_gguf = path.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("gguf"));
        if path.is_dir() {
            Ok(Self::Folder(path))
        } else if is_gguf && (path.exists() || !given.contains(':')) {
            Ok(Self::Gguf(path))
        } else if path.is_file() {
            let bytes = beginning(&path);
            if let Some(other) = OtherFile::of_bytes(&path, &bytes) {
                return Err(other.error(given));
            }
            // Stores name files by their hashes.
            if bytes.starts_with(b"GGUF") {
                return Ok(Self::Gguf(path));
            }
            let reason = "it is not a folder or a .gguf file; for safetensors, use their folder";
            Err(LibraryError::Spec { given: given.to_owned(), reason: reason.to_owned() })
        } else if path.exists() {
            let reason = "it is neither a folder nor a regular file";
            Err(LibraryError::Spec { given: given.to_owned(), reason: reason.to_owned() })
        } else if let Some(id) = HubId::parse(given) {
            Ok(Self::Hub(id))
        } else {
            Err(LibraryError::Unknown { given: given.to_owned(), near: String::new() })
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bundled => f.write_str("bundled"),
            Self::Folder(path) | Self::Gguf(path) => path.display().fmt(f),
            Self::Hub(id) => id.fmt(f),
        }
    }
}

/// The first bytes of a file; none if it cannot be read.
fn beginning(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let opened = open_regular(path, Open::Read);
    let read = opened.and_then(|file| file.take(1024).read_to_end(&mut bytes));
    if read.is_ok() { bytes } else { Vec::new() }
}

/// Expands `~/` as the shell does, because a settings file is not read by a shell.
pub(super) fn expand(given: &str) -> PathBuf {
    match (given.strip_prefix("~/"), home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => Path::new(given).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("m.GGUF"), "").unwrap();
        std::fs::write(path("m.safetensors"), "").unwrap();
        let parse = |path: &Path| Spec::parse(path.to_str().unwrap());
        assert_eq!(Spec::parse("bundled").unwrap(), Spec::Bundled);
        assert_eq!(parse(folder.path()).unwrap(), Spec::Folder(folder.path().to_owned()));
        assert_eq!(parse(&path("m.GGUF")).unwrap(), Spec::Gguf(path("m.GGUF")));
        assert_eq!(Spec::parse("no/such.gguf").unwrap(), Spec::Gguf("no/such.gguf".into()));
        std::fs::write(path("sha256-00"), "GGUF and so on").unwrap();
        assert_eq!(parse(&path("sha256-00")).unwrap(), Spec::Gguf(path("sha256-00")));
        let error = parse(&path("m.safetensors")).unwrap_err().to_string();
        assert!(error.contains("an empty file"), "{error}");
        std::fs::write(path("m.safetensors"), b"\x20\0\0\0\0\0\0\0{").unwrap();
        let error = parse(&path("m.safetensors")).unwrap_err().to_string();
        assert!(error.contains("name the folder in which it is"), "{error}");
        for id in ["owner/name", "owner/name@main:model.gguf"] {
            assert!(matches!(Spec::parse(id), Ok(Spec::Hub(_))), "{id}");
            assert_eq!(Spec::parse(id).unwrap().to_string(), id);
        }
        for wrong in ["nothing", "/no/such/folder", ""] {
            let error = Spec::parse(wrong).unwrap_err().to_string();
            assert!(error.starts_with(&format!("no model named \"{wrong}\"")), "{error}");
        }
    }
}
