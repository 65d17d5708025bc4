//! A folder of cache files: which they are, and which make room for others. It must not depend on
//! what is in a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::CacheWriter;
use crate::files::{private_folder, user_dirs};

/// The folder `name` in the user's cache folder, e.g. `~/.cache/dovetail/kv`; `None` if the system
/// has no such folder.
pub fn cache_folder(name: &str) -> Option<PathBuf> {
    Some(user_dirs()?.cache.join(name))
}

/// The files of one kind in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskCache {
    /// Where they are.
    pub folder: PathBuf,
    /// The extension of every file.
    ending: &'static str,
    /// The most bytes of all files.
    pub limit: u64,
    /// The option that sets the limit.
    option: &'static str,
}

struct CacheEntry {
    used: SystemTime,
    bytes: u64,
    path: PathBuf,
}

impl DiskCache {
    /// The files in `folder` with this extension.
    pub fn new(folder: PathBuf, ending: &'static str) -> Self {
        Self { folder, ending, limit: u64::MAX, option: "" }
    }

    /// The same with at most `limit` bytes, as the user set with `option`.
    pub fn with_limit(self, limit: u64, option: &'static str) -> Self {
        Self { limit, option, ..self }
    }

    /// The path of the file with this name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.{}", self.ending))
    }

    /// Its files, the least recently used first.
    pub fn files(&self) -> Vec<PathBuf> {
        self.entries().into_iter().map(|entry| entry.path).collect()
    }

    fn entries(&self) -> Vec<CacheEntry> {
        let found = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut entries: Vec<CacheEntry> = found
            .filter_map(|entry| {
                let path = entry.path();
                let about = entry.metadata().ok()?;
                let ours = about.is_file() && path.extension().is_some_and(|it| it == self.ending);
                let used = about.modified().ok()?;
                ours.then_some(CacheEntry { used, bytes: about.len(), path })
            })
            .collect();
        entries.sort_by_key(|entry| entry.used);
        entries
    }

    /// Starts the file at `path`, which will have about `bytes`.
    ///
    /// # Errors
    /// The limit does not allow so many, or the system's.
    pub fn create(&self, path: &Path, bytes: u64) -> io::Result<CacheWriter> {
        private_folder(&self.folder)?;
        self.make_room(bytes, path)?;
        CacheWriter::create(self.clone(), path)
    }

    /// Makes room for `bytes` in the file at `path`, whose current contents do not count: removes
    /// the least recently used files until the others fit next to it.
    pub(super) fn make_room(&self, bytes: u64, path: &Path) -> io::Result<()> {
        if bytes > self.limit {
            let gigabytes = |bytes: u64| bytes as f64 / 1e9;
            return Err(io::Error::other(format!(
                "they need {:.1} GB, but `{}` allows {:.1} GB",
                gigabytes(bytes),
                self.option,
                gigabytes(self.limit)
            )));
        }
        let mut others = self.entries();
        others.retain(|entry| entry.path != path);
        let mut sum = bytes + others.iter().map(|entry| entry.bytes).sum::<u64>();
        for entry in others {
            if sum <= self.limit {
                break;
            }
            tracing::info!(file = %entry.path.display(), "deleting a cache file to free space");
            match fs::remove_file(entry.path) {
                // Another process may have removed it.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => sum -= entry.bytes,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_least_recently_used_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(folder.path().join("new/folder"), "part");
        let cache = cache.with_limit(100, "an option");
        let path = |name: &str| cache.path(name);
        fs::create_dir_all(&cache.folder).unwrap();
        for (age, name) in ["c", "a", "b"].into_iter().enumerate() {
            fs::write(path(name), [0; 30]).unwrap();
            let time = SystemTime::now() - Duration::from_secs(3600 * (age as u64 + 1));
            fs::File::options().write(true).open(path(name)).unwrap().set_modified(time).unwrap();
        }
        let other = cache.folder.join("notes.txt");
        fs::write(&other, [0; 1000]).unwrap();
        assert_eq!(cache.files(), ["b", "a", "c"].map(path));
        // (bytes for the file of this name, the files that remain)
        for (bytes, name, remain) in [
            (10, "d", vec!["b", "a", "c"]),
            // The current contents of the file do not count.
            (40, "b", vec!["b", "a", "c"]),
            (11, "d", vec!["a", "c"]),
            (100, "c", vec!["c"]),
            (100, "d", vec![]),
        ] {
            cache.make_room(bytes, &path(name)).unwrap();
            let remain: Vec<PathBuf> = remain.into_iter().map(path).collect();
            assert_eq!(cache.files(), remain, "{bytes} bytes for {name}");
        }
        assert!(other.exists());
        // What exceeds the limit removes nothing.
        fs::write(path("a"), [0; 30]).unwrap();
        let why = cache.create(&path("d"), 2_000_000_000).unwrap_err().to_string();
        assert_eq!(why, "they need 2.0 GB, but `an option` allows 0.0 GB");
        assert_eq!(cache.files(), [path("a")]);
        // Nor is anything stored where no folder can be.
        let inside = DiskCache::new(other.join("below"), "part");
        assert!(inside.create(&inside.path("a"), 1).is_err() && inside.files().is_empty());
    }
}
