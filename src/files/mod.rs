//! Files written completely or not at all, and read within limits. It owns the temporary files: how
//! they are named, locked and removed after a crash. It must not depend on what a file holds.

mod cached_value;
mod fnv;
mod read;
mod user_dirs;
mod write;

pub use cached_value::{Cached, CachedValue, learned_folder};
pub use fnv::{FNV_START, fnv1a, fnv1a_part};
pub use read::{read_regular, read_text};
pub use user_dirs::{UserDirs, download_dir, home_dir, user_dirs};
pub use write::{Access, GrowingFile, atomic_write, durable_rename, remove_leftovers};
