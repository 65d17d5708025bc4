//! Files written whole or not at all, and read within limits. Owns the temporary files: how they
//! are named, locked and removed after a crash. Must never know what a file holds.

mod read;
mod write;

pub use read::{read_regular, read_text};
pub use write::{Access, GrowingFile, atomic_write, durable_rename, remove_leftovers};
