//! The files of a model by name: a folder on disk, or the bundled pair's part of the binary. It
//! must not depend on their formats.

use std::path::PathBuf;

use serde_json::Value;

use super::LibraryError;
use super::blob::Blob;

/// Location of the files.
#[derive(Clone, Debug)]
pub(super) enum Folder {
    /// On disk.
    Disk(PathBuf),
    /// In the binary: a name for messages, then file names and contents.
    Built(&'static str, &'static [(&'static str, &'static [u8])]),
}

impl Folder {
    /// Its name for messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Disk(path) => path.display().to_string(),
            Self::Built(name, _) => (*name).to_owned(),
        }
    }

    /// Bytes of the files in the binary.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Disk(_) => 0,
            Self::Built(_, files) => files.iter().map(|(_, bytes)| bytes.len() as u64).sum(),
        }
    }

    /// A file, if it exists.
    pub(super) fn blob(&self, file: &str) -> Result<Option<Blob>, LibraryError> {
        match self {
            Self::Disk(folder) => {
                let path = folder.join(file);
                if path.exists() { Blob::open(&path).map(Some) } else { Ok(None) }
            }
            Self::Built(name, files) => {
                let found = files.iter().find(|(other, _)| *other == file);
                Ok(found.map(|(_, bytes)| Blob::built(format!("{name}/{file}"), bytes)))
            }
        }
    }

    /// A file that is required; `remedy` says where to get it.
    pub(super) fn need(&self, file: &str, remedy: &str) -> Result<Blob, LibraryError> {
        self.blob(file)?.ok_or_else(|| LibraryError::missing(self.name(), file, remedy))
    }

    /// A JSON file, if it exists.
    pub(super) fn json(&self, file: &str) -> Result<Option<Value>, LibraryError> {
        self.blob(file)?.map(|blob| json(&blob)).transpose()
    }
}

/// The JSON in a file.
pub(super) fn json(blob: &Blob) -> Result<Value, LibraryError> {
    serde_json::from_slice(blob).map_err(|error| LibraryError::damaged(blob.name(), "JSON", error))
}
