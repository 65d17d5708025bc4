//! The files of a model by name: a folder on disk, or the bundled pair's part of the binary. It
//! must not depend on their formats.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::blob::Blob;
use super::{LibraryError, Result};

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
    pub(super) fn blob(&self, file: &str) -> Result<Option<Blob>> {
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

    /// Whether it has a file.
    pub(super) fn has(&self, file: &str) -> bool {
        match self {
            Self::Disk(folder) => folder.join(file).exists(),
            Self::Built(_, files) => files.iter().any(|(other, _)| *other == file),
        }
    }

    /// A GGUF file in it.
    pub(super) fn gguf(&self) -> Option<PathBuf> {
        let Self::Disk(folder) = self else { return None };
        let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        files.filter(|path| path.extension().is_some_and(|end| end == "gguf")).min()
    }

    /// A file that is required; `remedy` says where to get it.
    pub(super) fn need(&self, file: &str, remedy: &str) -> Result<Blob> {
        self.blob(file)?.ok_or_else(|| LibraryError::missing(self.name(), file, remedy))
    }

    /// A JSON file, if it exists.
    pub(super) fn json(&self, file: &str) -> Result<Option<Value>> {
        self.blob(file)?.map(|blob| json(&blob)).transpose()
    }
}

/// The JSON in a file.
pub(super) fn json(blob: &Blob) -> Result<Value> {
    let read = serde_json::from_slice(blob).or_else(|error| match std::str::from_utf8(blob) {
        Ok(text) => serde_json::from_str(&without_infinities(text)),
        Err(_) => Err(error),
    });
    read.map_err(|error| LibraryError::damaged(blob.name(), "JSON", error))
}

/// How Python writes numbers that are none, and what stands for them.
const NO_NUMBERS: [(&str, &str); 3] =
    [("-Infinity", "null     "), ("Infinity", "null    "), ("NaN", "null")];

/// Text in which the numbers that Python writes and JSON does not have are null.
fn without_infinities(text: &str) -> String {
    let mut quoted = false;
    let parts = text.split_inclusive('"').map(|part| {
        let is_text = quoted;
        let escapes = part.trim_end_matches('"').bytes().rev().take_while(|&b| b == b'\\').count();
        quoted = quoted != (!is_text || escapes.is_multiple_of(2));
        if is_text {
            part.to_owned()
        } else {
            NO_NUMBERS.iter().fold(part.to_owned(), |part, (from, to)| part.replace(from, to))
        }
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinite_numbers_are_absent_and_texts_stay() {
        let text = br#"{"limit": [0.0, -Infinity], "a\"b": "to \\", "c": NaN, "d": "Infinity"}"#;
        let read = json(&Blob::built("config.json".to_owned(), text)).unwrap();
        let expected = serde_json::json!({"limit": [0.0, null], "a\"b": "to \\", "c": null,
            "d": "Infinity"});
        assert_eq!(read, expected);
        let damaged = json(&Blob::built("config.json".to_owned(), br#"{"a": +Infinity}"#));
        assert!(damaged.unwrap_err().to_string().contains("config.json"));
    }
}
