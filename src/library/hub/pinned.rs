//! Single files whose address, length and SHA-256 are known beforehand, kept in a folder under
//! their hashes. Must never know what they hold.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::Hub;
use super::check::Hash;
use super::http::{About, Client};
use super::progress::{DownloadMeter, DownloadProgress};
use super::transfer::{Missing, TransferFailure, transfer};

/// A file as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedFile {
    /// For people.
    pub name: String,
    /// Where it can be had.
    pub url: String,
    /// Of its content, in lower-case hex.
    pub sha256: String,
    /// Bytes.
    pub size: u64,
}

/// A folder of such files.
#[derive(Clone, Debug)]
pub struct PinnedFiles {
    /// Where they lie.
    pub folder: PathBuf,
    /// How long a server may keep silent before the connection counts as broken.
    pub patience: Duration,
    /// How long to wait before the first new try; each further one waits twice as long.
    pub pause: Duration,
    /// How long one request waits in all for a server that says it is busy.
    pub busy: Duration,
}

/// Why a file could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum PinnedError {
    /// The server answers with something else than the file.
    #[error("{url}: the server responded {status} ({message}); {}", missing_or_later(*status))]
    Refused {
        /// What was asked.
        url: String,
        /// HTTP status.
        status: u16,
        /// What the server says.
        message: String,
    },
    /// The answer cannot be the file.
    #[error("{url}: this is not the file: {reason}; check any proxy and --mirror")]
    Strange {
        /// What was asked.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The connection broke again and again, or there was none.
    #[error(
        "{url}: the connection broke at {done} of {total} bytes: {reason}; check the network and \
         start again to continue from there"
    )]
    Cut {
        /// What was asked.
        url: String,
        /// Bytes on the disk.
        done: u64,
        /// Bytes of the file.
        total: u64,
        /// What failed.
        reason: String,
    },
    /// Other content came.
    #[error(
        "{url}: its SHA-256 is {found} instead of {expected}; it is another file, or the download \
         was damaged, and it has been deleted; check any proxy and --mirror"
    )]
    Changed {
        /// What was asked.
        url: String,
        /// What was to come.
        expected: String,
        /// What came.
        found: String,
    },
    /// The disk.
    #[error("cannot write {}: {source}", path.display())]
    Disk {
        /// File or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

fn missing_or_later(status: u16) -> &'static str {
    match status {
        429 => "too many requests from this address; wait a few minutes",
        500.. => "try again later",
        _ => "check any proxy and --mirror",
    }
}

impl PinnedFiles {
    /// Those in `folder`, fetched with the patience that the hub's downloads have.
    pub fn at(folder: PathBuf) -> Self {
        Self {
            folder,
            patience: Duration::from_secs(30),
            pause: Duration::from_millis(500),
            busy: Duration::from_secs(60),
        }
    }

    /// Where a file lies once it is here.
    pub fn place(&self, file: &PinnedFile) -> PathBuf {
        self.folder.join(&file.sha256)
    }

    /// Whether it seems to be here: its content is checked when it is read.
    pub fn has(&self, file: &PinnedFile) -> bool {
        fs::metadata(self.place(file))
            .is_ok_and(|about| about.is_file() && about.len() == file.size)
    }

    /// Whether what lies in its place is the file, by its hash.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn is_sound(&self, file: &PinnedFile) -> io::Result<bool> {
        let expected = Hash::Sha256(file.sha256.clone());
        Ok(expected.of(&self.place(file))? == expected)
    }

    /// Fetches a file unless it is here, and gives its place; what an earlier try brought is kept,
    /// other content than the promised is not.
    ///
    /// # Errors
    /// [`PinnedError`] with the remedy.
    pub fn fetch(
        &self,
        file: &PinnedFile,
        report: &mut dyn FnMut(&DownloadProgress),
    ) -> Result<PathBuf, PinnedError> {
        let place = self.place(file);
        let hash = Hash::Sha256(file.sha256.clone());
        let about = About { hash, size: file.size };
        let missing = Missing { name: file.name.clone(), url: file.url.clone(), about };
        let hub = self.server();
        let mut meter = DownloadMeter::new(file.size);
        let moved = transfer(&Client::new(&hub), &hub, &missing, &place, &mut meter, report);
        moved.map(|()| place).map_err(|failure| explain(file, failure))
    }

    /// A server that is told nothing of the user's: tokens are the hub's alone.
    fn server(&self) -> Hub {
        let &Self { patience, pause, busy, .. } = self;
        let cache = self.folder.clone();
        Hub { endpoint: String::new(), cache, token: None, offline: false, patience, pause, busy }
    }
}

fn explain(file: &PinnedFile, failure: TransferFailure) -> PinnedError {
    let url = file.url.clone();
    match failure {
        TransferFailure::Refused(refusal) => {
            PinnedError::Refused { url, status: refusal.status, message: refusal.message }
        }
        TransferFailure::Strange(reason) => PinnedError::Strange { url, reason },
        TransferFailure::Cut { done, reason } => {
            PinnedError::Cut { url, done, total: file.size, reason }
        }
        TransferFailure::Changed { found } => {
            PinnedError::Changed { url, expected: file.sha256.clone(), found }
        }
        TransferFailure::Disk { path, source } => PinnedError::Disk { path, source },
    }
}
