//! Errors of saving and loading conversations: each names the file and what to do. It must not
//! depend on how files are written.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// Why a conversation could not be saved or read.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Writing failed; what was saved before is unchanged.
    #[error(
        "cannot save the conversation to {}: {source}; {}",
        path.display(),
        save_remedy(source)
    )]
    Save {
        /// File that was to be written.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Reading failed.
    #[error("cannot read {}: {source}; {}", path.display(), read_remedy(source))]
    Read {
        /// File or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is not a session.
    #[error(
        "{} is not a saved conversation: {reason}; repair the file or move it away (it was not \
        changed)",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        reason: String,
    },
    /// The name does not belong to a session.
    #[error(
        "no saved conversation has the name `{0}` or a title that starts with it; /load lists them"
    )]
    Name(String),
    /// There is no home folder to put sessions in.
    #[error("no data folder; set HOME or XDG_DATA_HOME to a folder that you can write to")]
    NoFolder,
}

impl SessionError {
    /// What happened, without advice about what to do while the conversation is on the screen.
    pub fn reason(&self) -> String {
        match self {
            Self::Save { path, source } => {
                format!("cannot save the conversation to {}: {source}", path.display())
            }
            other => other.to_string(),
        }
    }
}

fn save_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "free some space on that disk, then save again; the conversation is still on the screen"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "allow writing to the folder, or set XDG_DATA_HOME to another folder"
        }
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            "a file is in the place of the folder; move it away"
        }
        ErrorKind::InvalidInput => "start a new conversation with /new",
        _ => "check the disk and the folder, then try again",
    }
}

fn read_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => "/load lists the saved conversations",
        ErrorKind::PermissionDenied => "allow reading it",
        ErrorKind::InvalidInput | ErrorKind::IsADirectory | ErrorKind::FileTooLarge => {
            "it is not a saved conversation; move it away"
        }
        _ => "check the disk and the folder, then try again",
    }
}
