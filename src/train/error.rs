//! Why a training cannot begin or continue. It must not depend on a stage.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use crate::decode::DecodeError;
use crate::library::LibraryError;
use crate::model::head::HeadError;
use crate::model::{LoadError, TargetError};

/// What comes of a part of a training.
pub(super) type Result<T, E = TrainError> = std::result::Result<T, E>;

/// Why a training cannot begin or continue.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// An option is outside of its sensible range: its name as on the command line, its value, and
    /// which values would be right.
    #[error("`--{0}` is {1}, but must be {2}")]
    Option(&'static str, String, &'static str),
    /// The folder for the head contains other things.
    #[error("{} is not an empty folder; name a new one with --out", .0.display())]
    Occupied(PathBuf),
    /// The folder for a new head contains a training.
    #[error(
        "{} already contains a training; continue it with --resume, or name a new folder with \
         --out",
        .0.display()
    )]
    Unfinished(PathBuf),
    /// There is no training to resume in the folder.
    #[error("{} contains no training to continue; start one without --resume", .0.display())]
    Nothing(PathBuf),
    /// The recipe is not that of the training.
    #[error("{0}")]
    Recipe(String),
    /// The target is not that of the training.
    #[error("{0}")]
    Changed(String),
    /// An example cannot be used: its number and the reason.
    #[error("training example {0} cannot be used: {1}")]
    Example(usize, String),
    /// The file of chats cannot be read.
    #[error("cannot read the chats in {path}: {1}", path = .0.display())]
    Chats(PathBuf, #[source] io::Error),
    /// Data, a file, device or loss do not permit to continue.
    #[error("{0}")]
    Failed(String),
    /// It was stopped.
    #[error("stopped")]
    Stopped,
    /// The target's files cannot be used.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The target cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A pass of the target failed.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Head and target do not fit together, or the weights are not those of a head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// An answer failed.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The device failed or is full.
    #[error(
        "the training device failed: {0}; a smaller --batch-tokens or --window needs less memory"
    )]
    Device(#[from] candle_core::Error),
}

impl TrainError {
    /// A file that cannot be read, written or used; `remedy` is what the user can do, after a
    /// semicolon.
    pub(super) fn file(action: &str, path: &Path, reason: impl Display, remedy: &str) -> Self {
        Self::Failed(format!("cannot {action} {}: {reason}{remedy}", path.display()))
    }

    /// The system refused to write, most often because the disk is full.
    pub(super) fn write(path: &Path, error: io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let remedy = match error.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => {
                "; free some disk space and continue with --resume"
            }
            _ => "; correct that and continue with --resume",
        };
        Self::file("write", path, error, remedy)
    }

    pub(super) fn read(path: &Path, error: io::Error) -> Self {
        Self::file("read", path, error, "")
    }

    /// The content differs from what was written, or belongs to another training.
    pub(super) fn damaged(path: &Path, reason: impl Display) -> Self {
        Self::file("use", path, reason, "; delete it and continue with --resume")
    }
}
