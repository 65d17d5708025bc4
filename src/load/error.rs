//! Why models cannot be used; `messages` has what the user reads. It must not depend on how models
//! are loaded.
#![allow(missing_docs, reason = "a variant's comment says what its fields are")]

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
    /// The draft head from this file or folder cannot be loaded.
    #[error("{origin}: {source}")]
    Head { origin: String, source: HeadError },
    /// None of several heads fits the target; what is wrong with each.
    #[error("no draft head fits {target}: {refused:?}")]
    NoHead { target: String, refused: Vec<Notice> },
    /// The text from which a draft vocabulary is to be made cannot be used, or is empty.
    #[error("no draft vocabulary from {text}: {error:?}")]
    DraftVocab { text: String, error: Option<String> },
    /// The requested strategy cannot run; those that can.
    #[error("{name} cannot run: {missing:?}")]
    Strategy { name: &'static str, missing: Missing, available: Vec<&'static str> },
    /// The models do not fit next to those in use.
    #[error("no room for {what:?}: {needed} bytes of {free}")]
    NoRoom { what: Needs, needed: u64, free: u64 },
    /// So many of the blocks of the target in use should be on a GPU with other drafts, instead of
    /// so many before.
    #[error("{layers} of {of} blocks should be on {gpu} instead of {before}")]
    Moves { layers: usize, of: usize, gpu: String, before: usize },
    /// The target of this name computes nothing but NaN.
    #[error("{name} computes no numbers")]
    NoNumbers { name: String },
    /// The model of this name does not fit in the machine's memory.
    #[error("no memory for {name}: {needed} bytes of {total}")]
    Memory { name: String, needed: u64, total: u64 },
    /// The model of this name and the shortest context do not fit in the memory that is free.
    #[error("no free memory for {name} with {context} positions: {needed} bytes of {free}")]
    FreeMemory { name: String, context: usize, needed: u64, free: u64 },
}
