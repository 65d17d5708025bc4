//! Why models cannot be used; `messages` has what the user reads. It must not depend on how models
//! are loaded.

use super::reason::{Missing, Needs, Notice};
use crate::library::LibraryError;
use crate::model;
use crate::model::head::HeadError;

/// Why the models cannot be used. Sizes are bytes.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file cannot be used, or target and head do not belong together.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The target cannot be loaded.
    #[error(transparent)]
    Target(#[from] model::LoadError),
    /// The draft head cannot be loaded.
    #[error("{origin}: {source}")]
    Head {
        /// Its file or folder.
        origin: String,
        /// What is wrong with it.
        source: HeadError,
    },
    /// None of several heads fits the target.
    #[error("no draft head fits {target}: {refused:?}")]
    NoHead {
        /// The target.
        target: String,
        /// What is wrong with each.
        refused: Vec<Notice>,
    },
    /// The text from which a draft vocabulary is to be made cannot be used.
    #[error("no draft vocabulary from {text}: {error:?}")]
    DraftVocab {
        /// Its path.
        text: String,
        /// What is wrong with it; `None` if it is empty.
        error: Option<String>,
    },
    /// The requested strategy cannot run.
    #[error("{name} cannot run: {missing:?}")]
    Strategy {
        /// The strategy.
        name: &'static str,
        /// What it needs.
        missing: Missing,
        /// Strategies that can run.
        available: Vec<&'static str>,
    },
    /// The models do not fit next to those in use.
    #[error("no room for {what:?}: {needed} bytes of {free}")]
    NoRoom {
        /// What is to be loaded.
        what: Needs,
        /// What it needs.
        needed: u64,
        /// What is free.
        free: u64,
    },
    /// The target in use should run on another device with other drafts.
    #[error("{layers} of {of} blocks should be on {gpu} instead of {before}")]
    Moves {
        /// How many blocks belong on the GPU.
        layers: usize,
        /// How many blocks the target has.
        of: usize,
        /// The GPU.
        gpu: String,
        /// How many blocks are there.
        before: usize,
    },
    /// The target does not fit in the machine's memory.
    #[error("no memory for {name}: {needed} bytes of {total}")]
    Memory {
        /// The target.
        name: String,
        /// What it needs.
        needed: u64,
        /// What there is.
        total: u64,
    },
}
