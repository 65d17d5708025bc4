//! The one cache on disk: files that this program can make again at any time, so that a wrong one
//! costs time and changes no answer. Each file is made for a key, which says everything that its
//! contents depend on, and for a version of its contents. A file with another key or version, or
//! with a damaged byte, is ignored and replaced. Files belong to their owner alone, appear complete
//! or not at all, and the least recently used make room for new ones.
//!
//! [`CachedValue`] is a small value, [`CacheFile`] holds any number of bytes. It must not depend on
//! what is stored.

mod file;
mod folder;
mod value;

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use file::{CHUNK, CacheFile, CacheWriter, CachedBytes};
pub use folder::{DiskCache, cache_folder};
pub use value::CachedValue;

/// What a cache file says about its contents.
pub trait Cached: Serialize + DeserializeOwned {
    /// Changes whenever old files would become useless or misleading.
    const VERSION: u32;

    /// Whether the values are possible: a file may contain anything.
    fn is_sound(&self) -> bool {
        true
    }
}

/// The part of each file that is JSON.
#[derive(Serialize, Deserialize)]
struct CacheIndex<T> {
    version: u32,
    #[serde(rename = "of")]
    key: String,
    #[serde(rename = "kept")]
    value: T,
}

impl<T: Cached> CacheIndex<T> {
    fn new(key: &str, value: T) -> Self {
        Self { version: T::VERSION, key: key.to_owned(), value }
    }

    /// Reads what was stored for `key`.
    fn parse(json: &[u8], key: &str) -> io::Result<T> {
        let found: Self = serde_json::from_slice(json)?;
        if found.version != T::VERSION {
            return Err(useless("it has another version"));
        }
        if found.key != key {
            return Err(useless("it belongs to something else, or that has changed since then"));
        }
        if found.value.is_sound() {
            Ok(found.value)
        } else {
            Err(useless("its values are impossible"))
        }
    }
}

fn useless(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
