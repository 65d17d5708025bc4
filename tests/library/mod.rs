//! Models are opened as users name them: by folder, file, hub id, or from the binary.

mod architectures;
mod bundled;
mod checkpoints;
mod folder;
mod formats;
mod gguf;
mod hostile;
mod hub;
mod real_model;
mod shared;

use crate::support::library::{open_head, open_target};
