//! Verifies downloads by the content's hash, which the hub states in the file's `ETag`. It must not
//! depend on how the bytes were downloaded.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use sha1::Sha1;
use sha2::digest::Digest as _;
use sha2::{Sha256, digest};

use crate::files::{Open, open_regular};

/// How many bytes are read at a time.
const CHUNK: usize = 1 << 20;

/// The expected hash of a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    /// For a file in large file storage: the content's SHA-256 in hex.
    Sha256(String),
    /// For a file in the git repository itself: the SHA-1 of its git blob in hex.
    GitBlob(String),
}

impl Hash {
    /// Reads an `ETag`, whose length identifies the kind of hash; `None` if it is not a hash.
    pub(super) fn from_etag(etag: &str) -> Option<Self> {
        let etag = etag.trim_start_matches("W/").trim_matches('"').to_ascii_lowercase();
        if !etag.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        match etag.len() {
            64 => Some(Self::Sha256(etag)),
            40 => Some(Self::GitBlob(etag)),
            _ => None,
        }
    }

    /// Its display name.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "SHA-256",
            Self::GitBlob(_) => "git blob SHA-1",
        }
    }

    /// In lower-case hex.
    pub(super) fn hex(&self) -> &str {
        match self {
            Self::Sha256(hex) | Self::GitBlob(hex) => hex,
        }
    }

    /// The hash of the same kind for the content of `file`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn of(&self, file: &Path) -> io::Result<Self> {
        let file = open_regular(file, Open::Read)?;
        Ok(match self {
            Self::Sha256(_) => Self::Sha256(read(file, Sha256::new())?),
            Self::GitBlob(_) => {
                let length = file.metadata()?.len();
                Self::GitBlob(read(file, Sha1::new_with_prefix(format!("blob {length}\0")))?)
            }
        })
    }
}

fn read(file: File, mut hasher: impl digest::Digest + io::Write) -> io::Result<String> {
    io::copy(&mut BufReader::with_capacity(CHUNK, file), &mut hasher)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of `hello\n`.
    const SHA256: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
    /// The output of `git hash-object` for a file with `hello\n`.
    const GIT: &str = "ce013625030ba8dba906f756967f9e9ca394464a";

    #[test]
    fn an_etag_is_told_apart_by_its_length() {
        assert_eq!(Hash::from_etag(SHA256), Some(Hash::Sha256(SHA256.to_owned())));
        assert_eq!(
            Hash::from_etag(&format!("W/\"{}\"", GIT.to_uppercase())),
            Some(Hash::GitBlob(GIT.to_owned()))
        );
        for none in ["", "\"abc-12\"", &SHA256[1..], &SHA256.replace('5', "x")] {
            assert_eq!(Hash::from_etag(none), None, "{none}");
        }
    }

    #[test]
    fn hashes_are_those_of_sha256sum_and_git() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hello");
        std::fs::write(&file, "hello\n").unwrap();
        for etag in [SHA256, GIT] {
            let hash = Hash::from_etag(etag).unwrap();
            assert_eq!(hash.of(&file).unwrap(), hash);
        }
        std::fs::write(&file, "hallo\n").unwrap();
        let hash = Hash::from_etag(SHA256).unwrap();
        assert_ne!(hash.of(&file).unwrap(), hash);
    }
}
