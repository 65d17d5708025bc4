//! Errors of opening a model: each names the file, the value and what to do. It must not depend on
//! how models are run.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use super::HubError;
use crate::chat::TemplateError;
use crate::model::ConfigError;
use crate::model::head::Misfit;

/// What comes of opening a model.
pub(super) type Result<T, E = LibraryError> = std::result::Result<T, E>;

/// Why a model could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The file system failed.
    #[error("cannot read {}: {source}; {}", path.display(), io_remedy(source))]
    Io {
        /// File or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Draft head and target do not fit together.
    #[error("{origin}: {source}")]
    Misfit {
        /// The head's file or folder.
        origin: String,
        /// What differs.
        source: Misfit,
    },
    /// The chat template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The hub.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// A language model where a draft head is wanted.
    #[error("`{given}` is a language model, not a draft head; name it with --draft-model instead")]
    NotAHead {
        /// The file, the folder or the hub id.
        given: String,
    },
    /// The beginning of several names.
    #[error("`{given}` matches several models: {names}; type more of the name")]
    Ambiguous {
        /// What was given.
        given: String,
        /// The models.
        names: String,
    },
    /// A name that is neither on the disk nor among the models on this machine.
    #[error(
        "no model named \"{given}\" (not a file, a folder or an installed model){near}; \
         `dovetail models` lists the installed models; for one of the hub, use \
         owner/name[@revision][:file.gguf or :Q4_K_M]"
    )]
    Unknown {
        /// What was given.
        given: String,
        /// Similar names with an introduction; empty if there are none.
        near: String,
    },
    /// A `--target` or `--draft` value that does not name a model.
    #[error("cannot use `{given}` as a model: {reason}")]
    Spec {
        /// What was given.
        given: String,
        /// What is wrong, and which values would be right.
        reason: String,
    },
    /// A file or folder of another kind.
    #[error("{origin} is not a language model but {what}; {remedy}")]
    NotAModel {
        /// The file or folder.
        origin: String,
        /// What it is.
        what: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// A file that cannot be used: which, what is wrong with it, and what to do.
    #[error("{0}")]
    Unusable(String),
}

impl LibraryError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    /// A model with these numbers cannot be run.
    pub(super) fn config(origin: &str) -> impl FnOnce(ConfigError) -> Self {
        move |source| Self::Unusable(format!("{origin}: {source}"))
    }

    /// The file `origin` is truncated or inconsistent at `place`.
    pub(super) fn damaged(origin: &str, place: impl Display, problem: impl Display) -> Self {
        Self::Unusable(format!(
            "{origin}: {place}: {problem}; the file is damaged or incomplete; download it again"
        ))
    }

    /// The folder or repository `origin` has no `file`.
    pub(super) fn missing(origin: impl Display, file: impl Display, remedy: &str) -> Self {
        Self::Unusable(format!("{origin}: {file} is missing; {remedy}"))
    }

    /// In the valid file `origin`, `what` has the value `found`.
    pub(super) fn unsupported(
        origin: impl Display,
        what: impl Display,
        found: impl Display,
        remedy: impl Display,
    ) -> Self {
        Self::Unusable(format!("{origin}: {what} is {found}, which is not supported; {remedy}"))
    }

    /// The file `origin` is not a tokenizer.
    pub(super) fn tokenizer(origin: &str, reason: impl Display) -> Self {
        let problem = format!("{origin}: not a usable tokenizer: {reason}");
        Self::Unusable(format!("{problem}; download the file again"))
    }

    /// The tokenizer in the file `origin` is of an unsupported kind.
    pub(super) fn tokenizer_kind(
        origin: &str,
        what: &str,
        found: impl Display,
        supported: &str,
    ) -> Self {
        Self::Unusable(format!(
            "{origin}: the tokenizer's {what} is `{found}`, which is not supported; use a model \
             with one of these: {supported}"
        ))
    }

    /// A text could not be encoded.
    pub(super) fn encoding(reason: impl Display) -> Self {
        Self::Unusable(format!("cannot split the text into tokens: {reason}"))
    }
}

fn io_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "allow reading it",
        io::ErrorKind::OutOfMemory => "close other programs to free memory",
        io::ErrorKind::InvalidData => "convert it to UTF-8",
        io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory => "choose a regular file",
        io::ErrorKind::FileTooLarge => "use a part of it",
        _ => "check the disk, then download the file again",
    }
}
