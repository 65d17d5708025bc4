//! Errors of downloads: each says what to do. It must not depend on HTTP clients.

use std::io;
use std::path::PathBuf;

use super::HubId;

/// Why a model could not be downloaded.
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
    #[error("{repo}: the hub responded {status} ({message}); {}", later(*status))]
    Status {
        /// The repository.
        repo: HubId,
        /// HTTP status.
        status: u16,
        /// What the hub says.
        message: String,
    },
    /// Something other than the hub answers.
    #[error("{url}: this response is not from the hub: {reason}; check HF_ENDPOINT and any proxy")]
    Protocol {
        /// What was requested.
        url: String,
        /// What is wrong with the answer.
        reason: String,
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
        "{file}: the connection broke at {done} of {total} bytes: {reason}; start again to \
         continue from there"
    )]
    Cut {
        /// The file.
        file: String,
        /// Bytes on the disk.
        done: u64,
        /// Bytes of the file.
        total: u64,
        /// What failed.
        reason: String,
    },
    /// The content differs from the hub's.
    #[error(
        "{file}: its {hash} is {found} instead of {expected}; the download was damaged and has \
         been deleted. Start again; if it fails again, check any proxy and HF_ENDPOINT"
    )]
    Changed {
        /// The file.
        file: String,
        /// Which hash.
        hash: &'static str,
        /// The hash that the hub states.
        expected: String,
        /// The hash of what was received.
        found: String,
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
        "cannot write {}: {source}; free some space there, or set HF_HOME to another disk",
        path.display()
    )]
    Disk {
        /// File or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
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

fn later(status: u16) -> &'static str {
    match status {
        429 => "too many requests from this address; wait a few minutes",
        500.. => "the hub has a problem; try again later",
        _ => "check the repository's name",
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
            (status, _) => HubError::Status { repo, status, message: self.message },
        }
    }
}
