//! Errors of opening a model: each names the file, the value and what to do. It must not depend on
//! how models are run.

use std::io;
use std::path::{Path, PathBuf};

use super::{HubError, TokenizerError};
use crate::chat::TemplateError;
use crate::model::ConfigError;
use crate::model::head::Misfit;

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
    /// A file that belongs to a model is missing.
    #[error("{origin}: {file} is missing; {remedy}")]
    Missing {
        /// Folder or repository.
        origin: String,
        /// The file.
        file: String,
        /// Where to get it.
        remedy: &'static str,
    },
    /// A file is truncated or inconsistent.
    #[error("{origin}: {place}: {problem}; the file is damaged or incomplete; download it again")]
    Damaged {
        /// The file.
        origin: String,
        /// Field and offset.
        place: String,
        /// The value and what is wrong with it.
        problem: String,
    },
    /// A valid file of a kind that is not supported.
    #[error("{origin}: {what} is {found}, which is not supported; {remedy}")]
    Unsupported {
        /// The file.
        origin: String,
        /// Field or tensor.
        what: String,
        /// Its value.
        found: String,
        /// What to use instead.
        remedy: String,
    },
    /// A model with these numbers cannot be run.
    #[error("{origin}: {source}")]
    Config {
        /// The file.
        origin: String,
        /// Field, value and reason.
        source: ConfigError,
    },
    /// Tokenizer and weights belong to different models.
    #[error(
        "{origin}: the tokenizer has {tokenizer} tokens, but the model has only {model}; download \
         both from the same repository"
    )]
    Vocabulary {
        /// Folder or file.
        origin: String,
        /// Tokens of the tokenizer.
        tokenizer: usize,
        /// Rows of the embedding.
        model: usize,
    },
    /// A small model whose vocabulary shares nothing with the target's.
    #[error(
        "{small} cannot draft for {target}: their vocabularies have no tokens in common; use a \
         small model of the target's family"
    )]
    NothingShared {
        /// The target.
        target: String,
        /// The small model.
        small: String,
    },
    /// Draft head and target do not fit together.
    #[error("{origin}: {source}")]
    Misfit {
        /// The head's file or folder.
        origin: String,
        /// What differs.
        source: Misfit,
    },
    /// The tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
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
}

impl LibraryError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    pub(super) fn config(origin: &str) -> impl FnOnce(ConfigError) -> Self {
        |source| Self::Config { origin: origin.to_owned(), source }
    }

    pub(super) fn damaged(
        origin: &str,
        place: impl Into<String>,
        problem: impl Into<String>,
    ) -> Self {
        Self::Damaged { origin: origin.to_owned(), place: place.into(), problem: problem.into() }
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
