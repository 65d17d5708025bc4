//! Errors of downloads: each says what to do. It must not depend on HTTP clients.

use std::fmt::Display;
use std::io;
use std::path::Path;

use super::HubId;

/// Why a file or a model could not be downloaded, in a sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The server cannot be reached, or has a problem: a model that is already here can be used
    /// without it.
    #[error("{0}")]
    NoAnswer(String),
    /// The content differs from the server's.
    #[error("{0}")]
    Changed(String),
    /// Another reason.
    #[error("{0}")]
    Other(String),
}

/// Why a request failed.
#[derive(Debug)]
pub(super) enum RequestFailure {
    /// No answer, or a broken one: the next attempt may work.
    Broken(String),
    /// No further attempt would help.
    Final(HubError),
}

impl From<HubError> for RequestFailure {
    fn from(error: HubError) -> Self {
        Self::Final(error)
    }
}

/// Who serves the files, which determines what the user can change about it.
#[derive(Clone, Debug)]
pub(super) enum FileServer {
    /// The hub or its mirror at `endpoint`, asked for files of `repo`.
    Hub { repo: HubId, endpoint: String, token: Option<String> },
    /// The server of files that are known in advance.
    Pinned,
}

impl FileServer {
    /// What sets its address.
    fn address(&self) -> &'static str {
        match self {
            Self::Hub { .. } => "HF_ENDPOINT",
            Self::Pinned => "--mirror",
        }
    }

    /// It answered with an error status; `code` and `message` are what the hub says in addition.
    pub(super) fn refused(&self, url: &str, status: u16, code: &str, message: &str) -> HubError {
        let problem = |subject: &dyn Display| {
            let remedy = match status {
                429 => "too many requests from this address; wait a few minutes".to_owned(),
                500.. => "it has a problem; try again later".to_owned(),
                _ => format!("check {} and any proxy", self.address()),
            };
            let said = format!("{subject}: the server responded {status} ({message}); {remedy}");
            HubError::NoAnswer(said)
        };
        let Self::Hub { repo, endpoint, token } = self else { return problem(&url) };
        let has_token = token.is_some();
        let hidden = match has_token {
            true => ", and that the account of your HF_TOKEN has access",
            false => "; if it is private, set HF_TOKEN to a token that can read it",
        };
        let missing = format!(
            "{repo}: the repository does not exist, or is private; check its owner and name{hidden}"
        );
        HubError::Other(match (status, code) {
            (_, "RevisionNotFound") => format!(
                "{repo}: the repository does not have this revision; leave it out for the latest"
            ),
            (_, "EntryNotFound") => format!("{repo}: {message}"),
            (_, "RepoNotFound") => missing,
            (_, "GatedRepo") | (403, _) => {
                let how = match has_token {
                    true => {
                        "using the account of your HF_TOKEN (and allow the token to read gated \
                         repositories)"
                    }
                    false => {
                        "then set HF_TOKEN to a token of that account (from \
                         huggingface.co/settings/tokens)"
                    }
                };
                format!(
                    "{repo}: this model needs your consent to its terms; accept them on \
                     {endpoint}/{}, {how}",
                    repo.repo
                )
            }
            (401, _) if has_token => format!(
                "{repo}: the hub rejects your token ({message}); create a new one on \
                 huggingface.co/settings/tokens and set HF_TOKEN to it, or unset HF_TOKEN"
            ),
            // Without a token the hub does not say what it hides.
            (401 | 404, _) => missing,
            _ => return problem(repo),
        })
    }

    /// Something other than the server answers.
    pub(super) fn strange(&self, url: &str, reason: impl Display) -> HubError {
        let address = self.address();
        HubError::Other(format!(
            "{url}: this response is not the file: {reason}; check {address} and any proxy"
        ))
    }

    /// There is no connection.
    pub(super) fn unreachable(&self, url: &str, reason: &str) -> HubError {
        let place = match self {
            Self::Hub { endpoint, .. } => endpoint,
            Self::Pinned => url,
        };
        HubError::NoAnswer(format!(
            "cannot reach {place}: {reason}; check the network, or use a model on this machine"
        ))
    }

    /// The content at `url`, which has been deleted, is not the file with the hash `expected`.
    pub(super) fn changed(&self, url: &str, kind: &str, expected: &str, found: &str) -> HubError {
        HubError::Changed(format!(
            "{url}: its {kind} is {found} instead of {expected}; it is another file, or the \
             download was damaged, and it has been deleted. Start again; if it fails again, check \
             {} and any proxy",
            self.address()
        ))
    }

    /// The file or folder at `path` cannot be written.
    pub(super) fn disk(&self, path: &Path, source: &io::Error) -> HubError {
        let variable = match self {
            Self::Hub { .. } => "HF_HOME",
            Self::Pinned => "XDG_CACHE_HOME",
        };
        let remedy = match source.kind() {
            io::ErrorKind::InvalidInput => "remove it".to_owned(),
            _ => format!("free some space there, or set {variable} to another disk"),
        };
        HubError::Other(format!("cannot write {}: {source}; {remedy}", path.display()))
    }
}
