//! Files written completely or not at all, and read within limits, and the cache on disk. It owns
//! the temporary files: how they are named, locked and removed after a crash. It must not depend on
//! what a file holds.

mod cache;
mod hash;
mod open;
mod read;
mod user_dirs;
mod write;

pub use cache::{
    CHUNK, CacheFile, CacheWriter, Cached, CachedBytes, CachedValue, DiskCache, cache_folder,
};
pub use hash::{checksum, hash_part};
pub use open::{Open, open_regular};
pub use read::{paths_in, read_regular, read_text};
pub use user_dirs::{UserDirs, download_dir, home_dir, user_dirs};
pub use write::{Access, atomic_write, durable_rename, private_folder, remove_leftovers};
