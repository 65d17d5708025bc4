//! Errors of loading; each says what to do. It must not depend on how models are loaded.

use crate::library::LibraryError;
use crate::model;
use crate::model::head::HeadError;

/// Why the models cannot be used.
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
    #[error("none of the draft heads fits {target}: {refused} Choose another with --draft")]
    NoHead {
        /// The target.
        target: String,
        /// What is wrong with each, in sentences.
        refused: String,
    },
    /// The text from which a draft vocabulary is to be made cannot be used.
    #[error(
        "`draft_vocab` is \"{value}\": {reason}; use a text file (--draft-vocab text:FILE), a \
         number of tokens, auto or all"
    )]
    DraftVocab {
        /// The requested value.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The requested strategy cannot run.
    #[error("the strategy `{name}` needs {missing}; available strategies: {available}")]
    Strategy {
        /// The strategy.
        name: &'static str,
        /// What is missing, and what to do.
        missing: String,
        /// Strategies that can run.
        available: String,
    },
    /// The models do not fit next to those in use.
    #[error(
        "{name} needs {} MiB of memory in addition to the models in use, but only {} MiB are free",
        needed >> 20,
        free >> 20
    )]
    NoRoom {
        /// What is to be loaded.
        name: String,
        /// Bytes it needs.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The target in use should run on another device with other drafts.
    #[error(
        "with this draft, {layers} of the target's {of} blocks should run on {gpu} instead of \
         {before}"
    )]
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
    #[error(
        "{name} needs {} MiB of memory, but this machine has {} MiB; use a smaller model or one \
         with fewer bits per weight",
        needed >> 20,
        total >> 20
    )]
    Memory {
        /// The target.
        name: String,
        /// How many bytes it needs.
        needed: u64,
        /// How many bytes there are.
        total: u64,
    },
}
