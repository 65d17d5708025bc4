//! Models are opened as users name them: by folder, file, hub id, or from the binary.

mod architectures;
mod checkpoints;
mod converted;
mod eagle3;
mod folder;
mod formats;
mod gguf;
mod gpt_oss;
mod hostile;
mod hostile_gguf;
mod hub;
mod packed;
mod real_model;
mod recurrent;
mod scales;
mod shared;
mod stores;

use crate::support::library::{open_head, open_target};
