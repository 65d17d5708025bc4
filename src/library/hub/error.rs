//! Errors of downloads: each says what to do. It must not depend on HTTP clients.

use std::io;
use std::path::{Path, PathBuf};

use super::HubId;

/// Who serves the files, which determines what the user can change about it.
#[derive(Clone, Copy, Debug)]
pub enum FileServer {
    /// The hub, or its mirror.
    Hub,
    /// The server of files that are known in advance.
    Pinned,
}

impl FileServer {
    /// What sets its address.
    fn address(self) -> &'static str {
        match self {
            Self::Hub => "HF_ENDPOINT",
            Self::Pinned => "--mirror",
        }
    }

    /// What sets the folder of its files.
    fn folder(self) -> &'static str {
        match self {
            Self::Hub => "HF_HOME",
            Self::Pinned => "XDG_CACHE_HOME",
        }
    }
}

/// Why a file or a model could not be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// There is no repository with this name, or it is hidden from us.
    #[error(
        "{repo}: the repository does not exist, or is private; check its owner and name{}",
        hidden(*token)
    )]
    Repository {
        /// The repository.
        repo: HubId,
        /// Whether a token was sent.
        token: bool,
    },
    /// The repository has no such revision.
    #[error("{repo}: the repository does not have this revision; leave it out for the latest")]
    Revision {
        /// The repository with the revision.
        repo: HubId,
    },
    /// Its owner requires consent first.
    #[error(
        "{repo}: this model needs your consent to its terms; accept them on {page}, {}",
        if *token {
            "using the account of your HF_TOKEN (and allow the token to read gated repositories)"
        } else {
            "then set HF_TOKEN to a token of that account (from huggingface.co/settings/tokens)"
        }
    )]
    Gated {
        /// The repository.
        repo: HubId,
        /// Where to accept.
        page: String,
        /// Whether a token was sent.
        token: bool,
    },
    /// The hub does not accept the token.
    #[error(
        "{repo}: the hub rejects your token ({message}); create a new one on \
         huggingface.co/settings/tokens and set HF_TOKEN to it, or unset HF_TOKEN"
    )]
    Token {
        /// The repository.
        repo: HubId,
        /// What the hub says.
        message: String,
    },
    /// The repository does not contain the requested files.
    #[error("{repo}: {reason}")]
    Files {
        /// The repository.
        repo: HubId,
        /// What is missing, and what could be requested.
        reason: String,
    },
    /// An answer other than a file.
    #[error("{subject}: the server responded {status} ({message}); {}", later(*status, *server))]
    Status {
        /// The repository or the address.
        subject: String,
        /// HTTP status.
        status: u16,
        /// What the server says.
        message: String,
        /// Which server.
        server: FileServer,
    },
    /// Something other than the server answers.
    #[error(
        "{url}: this response is not the file: {reason}; check {} and any proxy",
        server.address()
    )]
    Protocol {
        /// What was requested.
        url: String,
        /// What is wrong with the answer.
        reason: String,
        /// Which server.
        server: FileServer,
    },
    /// No connection.
    #[error("cannot reach {endpoint}: {reason}; check the network, or use a model on this machine")]
    Unreachable {
        /// The hub.
        endpoint: String,
        /// What failed.
        reason: String,
    },
    /// The connection broke repeatedly.
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
    /// The content differs from the hub's.
    #[error(
        "{url}: its {hash} is {found} instead of {expected}; it is another file, or the download \
         was damaged, and it has been deleted. Start again; if it fails again, check {} and any \
         proxy",
        server.address()
    )]
    Changed {
        /// What was requested.
        url: String,
        /// Which hash.
        hash: &'static str,
        /// The hash that the hub states.
        expected: String,
        /// The hash of what was received.
        found: String,
        /// Which server.
        server: FileServer,
    },
    /// We are offline, and it is not in the cache.
    #[error(
        "{repo}: it is not in the cache ({}), and HF_HUB_OFFLINE forbids downloads; unset \
         HF_HUB_OFFLINE to download it",
        cache.display()
    )]
    Offline {
        /// The repository.
        repo: HubId,
        /// The cache.
        cache: PathBuf,
    },
    /// The cache cannot be written.
    #[error(
        "cannot write {}: {source}; free some space there, or set {} to another disk",
        path.display(),
        server.folder()
    )]
    Disk {
        /// File or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
        /// Whose files it holds.
        server: FileServer,
    },
    /// There is no place for the cache.
    #[error("no home folder for downloaded models; set HF_HOME to a folder that you can write to")]
    NoCache,
}

fn hidden(token: bool) -> &'static str {
    if token {
        ", and that the account of your HF_TOKEN has access"
    } else {
        "; if it is private, set HF_TOKEN to a token that can read it"
    }
}

fn later(status: u16, server: FileServer) -> String {
    match status {
        429 => "too many requests from this address; wait a few minutes".to_owned(),
        500.. => "it has a problem; try again later".to_owned(),
        _ => format!("check {} and any proxy", server.address()),
    }
}

impl HubError {
    pub(super) fn disk(server: FileServer, path: &Path, source: io::Error) -> Self {
        Self::Disk { path: path.to_owned(), source, server }
    }
}

/// Why a request failed, before it is known for what it was made.
#[derive(Debug)]
pub(super) enum RequestFailure {
    /// The server answered with an error status.
    Refused(Refusal),
    /// No answer, or a broken one: the next attempt may work.
    Broken(String),
    /// The answer does not come from the server.
    Strange(String),
    /// Something that does not depend on the request.
    Final(HubError),
}

impl From<HubError> for RequestFailure {
    fn from(error: HubError) -> Self {
        Self::Final(error)
    }
}

/// What the hub says in addition to the status.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    /// `X-Error-Code`.
    pub(super) code: String,
    /// `X-Error-Message`.
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn explain(self, repo: &HubId, endpoint: &str, token: bool) -> HubError {
        let repo = repo.clone();
        let page = format!("{endpoint}/{}", repo.repo);
        match (self.status, self.code.as_str()) {
            (_, "GatedRepo") => HubError::Gated { repo, page, token },
            (_, "RevisionNotFound") => HubError::Revision { repo },
            (_, "RepoNotFound") => HubError::Repository { repo, token },
            (_, "EntryNotFound") => HubError::Files { repo, reason: self.message },
            // Without a token the hub does not say what it hides.
            (401, _) if !token => HubError::Repository { repo, token },
            (401, _) => HubError::Token { repo, message: self.message },
            (403, _) => HubError::Gated { repo, page, token },
            (404, _) => HubError::Repository { repo, token },
            (status, _) => {
                let subject = repo.to_string();
                let message = self.message;
                HubError::Status { subject, status, message, server: FileServer::Hub }
            }
        }
    }
}
