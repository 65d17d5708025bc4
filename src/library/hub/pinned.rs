//! Single files whose address, length and SHA-256 are known in advance, stored in a folder under
//! their hashes. It must not depend on what they hold.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::Hub;
use super::check::Hash;
use super::http::{About, Client};
use super::progress::{DownloadMeter, DownloadProgress};
use super::transfer::{Missing, TransferFailure, transfer};

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
    /// How long a server may be silent before the connection counts as broken.
    pub patience: Duration,
    /// How long to wait before the first retry; each further one waits twice as long.
    pub pause: Duration,
    /// How long one request waits in all for a server that says that it is busy.
    pub busy: Duration,
}

/// Why a file could not be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum PinnedError {
    /// The server answers with something other than the file.
    #[error("{url}: the server responded {status} ({message}); {}", missing_or_later(*status))]
    Refused {
        /// What was requested.
        url: String,
        /// HTTP status.
        status: u16,
        /// What the server says.
        message: String,
    },
    /// The answer cannot be the file.
    #[error("{url}: this is not the file: {reason}; check any proxy and --mirror")]
    Strange {
        /// What was requested.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The connection broke repeatedly, or there was none.
    #[error(
        "{url}: the connection broke at {done} of {total} bytes: {reason}; check the network and \
         start again to continue from there"
    )]
    Cut {
        /// What was requested.
        url: String,
        /// Bytes on the disk.
        done: u64,
        /// Bytes of the file.
        total: u64,
        /// What failed.
        reason: String,
    },
    /// Different content was received.
    #[error(
        "{url}: its SHA-256 is {found} instead of {expected}; it is another file, or the download \
         was damaged, and it has been deleted; check any proxy and --mirror"
    )]
    Changed {
        /// What was requested.
        url: String,
        /// The expected hash.
        expected: String,
        /// The hash of what was received.
        found: String,
    },
    /// The disk failed.
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
    /// The files in `folder`, downloaded with the time limits of the hub's downloads.
    pub fn at(folder: PathBuf) -> Self {
        Self {
            folder,
            patience: Duration::from_secs(30),
            pause: Duration::from_millis(500),
            busy: Duration::from_secs(60),
        }
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
    /// [`PinnedError`] with what to do.
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

    /// A server that receives nothing of the user's: tokens are only for the hub.
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
