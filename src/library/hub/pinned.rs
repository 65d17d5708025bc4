//! Single files whose address, length and SHA-256 are known in advance, stored in a folder under
//! their hashes. It must not depend on what they hold.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::HubError;
use super::check::Hash;
use super::error::FileServer;
use super::http::Client;
use super::patience::Patience;
use super::progress::{DownloadMeter, Downloading};
use super::transfer::Missing;

/// The expected file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedFile {
    /// Its display name.
    pub name: String,
    /// Where it can be downloaded.
    pub url: String,
    /// The SHA-256 of its content, in lower-case hex.
    pub sha256: String,
    /// Bytes.
    pub size: u64,
}

/// A folder of such files.
#[derive(Clone, Debug)]
pub struct PinnedFiles {
    /// Where they are stored.
    pub folder: PathBuf,
    /// How long their server may take.
    pub patience: Patience,
}

impl PinnedFiles {
    /// The files in `folder`, downloaded with the time limits of the hub's downloads.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder, patience: Patience::default() }
    }

    /// Where a file is stored after it has been downloaded.
    pub fn place(&self, file: &PinnedFile) -> PathBuf {
        self.folder.join(&file.sha256)
    }

    /// Whether it seems to be here: its content is checked when it is read.
    pub fn has(&self, file: &PinnedFile) -> bool {
        fs::metadata(self.place(file))
            .is_ok_and(|about| about.is_file() && about.len() == file.size)
    }

    /// Whether what is stored in its place is the file, judged by its hash.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn is_sound(&self, file: &PinnedFile) -> io::Result<bool> {
        let expected = Hash::Sha256(file.sha256.clone());
        Ok(expected.of(&self.place(file))? == expected)
    }

    /// Downloads a file unless it is here, and returns its place. What an earlier attempt
    /// downloaded is kept; content that differs from the expected one is not.
    ///
    /// # Errors
    /// [`HubError`] with what to do.
    pub fn fetch(&self, file: &PinnedFile, report: Downloading<'_>) -> Result<PathBuf, HubError> {
        let place = self.place(file);
        let PinnedFile { name, url, sha256, size } = file.clone();
        let client = Client::new(FileServer::Pinned, self.patience);
        let mut meter = DownloadMeter::new(size, report);
        let missing = Missing { name, url, hash: Hash::Sha256(sha256), size };
        missing.transfer(&client, &place, &mut meter)?;
        Ok(place)
    }
}
