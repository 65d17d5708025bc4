//! Errors of loading: each names the remedy. Must never know how models are loaded.

use crate::library::LibraryError;
use crate::model;
use crate::model::head::HeadError;

/// Why the models cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file, or target and head that do not belong together.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The target.
    #[error(transparent)]
    Target(#[from] model::LoadError),
    /// The draft head.
    #[error("{origin}: {source}")]
    Head {
        /// Its file or folder.
        origin: String,
        /// What is wrong with it.
        source: HeadError,
    },
    /// None of several heads goes with the target.
    #[error("none of the draft heads fits {target}: {refused} Choose another with --draft")]
    NoHead {
        /// The target.
        target: String,
        /// What is wrong with each, in sentences.
        refused: String,
    },
    /// The text that a draft vocabulary is to be made of.
    #[error(
        "`draft_vocab` is \"{value}\": {reason}; use a text file (--draft-vocab text:FILE), a \
         number of tokens, auto or all"
    )]
    DraftVocab {
        /// What was asked for.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The strategy asked for cannot run.
    #[error("the strategy `{name}` needs {missing}; available strategies: {available}")]
    Strategy {
        /// The strategy.
        name: &'static str,
        /// What it lacks, with the remedy.
        missing: String,
        /// Strategies that can run.
        available: String,
    },
    /// The models do not fit beside those in use.
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
    /// The target in use should run elsewhere with other drafts.
    #[error(
        "with this draft, {layers} of the target's {of} blocks should run on {gpu} instead of \
         {before}"
    )]
    Moves {
        /// Blocks that belong on the GPU.
        layers: usize,
        /// Blocks that the target has.
        of: usize,
        /// The GPU.
        gpu: String,
        /// Blocks that are there.
        before: usize,
    },
    /// The target is larger than the machine.
    #[error(
        "{name} needs {} MiB of memory, but this machine has {} MiB; use a smaller model or one \
         with fewer bits per weight",
        needed >> 20,
        total >> 20
    )]
    Memory {
        /// The target.
        name: String,
        /// Bytes it needs.
        needed: u64,
        /// Bytes there are.
        total: u64,
    },
}
