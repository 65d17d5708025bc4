//! The files of snapshots: written, found by the tokens with which a prompt begins, and checked in
//! every byte. It must not depend on how a snapshot is used.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::folder::{is_of, name_of, part, snapshot_cache};
use super::snapshot::Snapshot;
use crate::files::{CHUNK, CacheFile, Cached, CachedBytes, DiskCache, checksum};

/// The minimum number of tokens in a file: fewer are read just as quickly.
pub(super) const LEAST: usize = 64;
/// The most bytes of one conversation: the copy that is written must not fill the memory.
const MOST_OF_ONE: u64 = 1_000_000_000;

/// The snapshots of one target.
#[derive(Clone, Debug)]
pub struct SnapshotStore {
    cache: DiskCache,
    /// Everything that determines the numbers in its KV cache.
    target: String,
    /// When a file must have been written, once the program is being closed.
    until: Arc<OnceLock<Instant>>,
}

/// What a file holds, each as little-endian bytes.
#[derive(Serialize, Deserialize)]
struct SnapshotParts {
    tokens: CachedBytes,
    kv: CachedBytes,
    features: CachedBytes,
}

impl Cached for SnapshotParts {
    const VERSION: u32 = 3;
}

/// A file of this target.
struct OpenSnapshot {
    path: PathBuf,
    file: CacheFile<SnapshotParts>,
    tokens: Vec<u32>,
}

impl SnapshotStore {
    /// At most `limit` bytes in `folder`, for the target that `target` describes.
    pub fn new(folder: PathBuf, target: String, limit: u64) -> Self {
        let cache = snapshot_cache(folder).with_limit(limit, "kv_disk");
        Self { cache, target, until: Arc::default() }
    }

    /// The most bytes of one conversation's rows.
    pub(super) fn most_of_one(&self) -> usize {
        usize::try_from((self.cache.limit / 2).min(MOST_OF_ONE)).unwrap_or(usize::MAX)
    }

    /// Where they are.
    pub(super) fn folder(&self) -> &Path {
        &self.cache.folder
    }

    /// The files of this target.
    fn files(&self) -> Vec<PathBuf> {
        let target = part(&self.target);
        let mut files = self.cache.files();
        files.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&target))
        });
        files
    }

    /// The file at `path` and its tokens, if it was written for this target.
    fn open(&self, path: PathBuf) -> Option<OpenSnapshot> {
        let file = CacheFile::<SnapshotParts>::open(&path, &self.target)?;
        let tokens = file.read(&file.index.tokens).map_err(|why| damaged(&path, &why)).ok()?;
        Some(OpenSnapshot { tokens: numbers(&tokens, u32::from_le_bytes), path, file })
    }

    /// The saved text that has the most in common with `prompt`, if that is clearly more than
    /// `have` tokens.
    pub fn find(&self, prompt: &[u32], have: usize) -> Option<Snapshot> {
        let found = self.files().into_iter().filter_map(|path| {
            let found = self.open(path)?;
            let alike = found.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
            (alike >= have + LEAST).then_some((alike, found))
        });
        let (_, OpenSnapshot { path, file, tokens }) = found.max_by_key(|(alike, _)| *alike)?;
        let features = file.read(&file.index.features);
        match features.and_then(|features| Ok((file.read(&file.index.kv)?, features))) {
            Ok((kv, features)) => {
                file.touch();
                Some(Snapshot { tokens, kv, features: numbers(&features, f32::from_le_bytes) })
            }
            Err(why) => {
                damaged(&path, &why);
                // It is ours, and it cannot be used.
                let _ = fs::remove_file(&path);
                None
            }
        }
    }

    /// A file that has not been written by then is given up.
    pub(super) fn end_by(&self, until: Instant) {
        let _ = self.until.set(until);
    }

    fn check_time(&self) -> io::Result<()> {
        match self.until.get() {
            Some(until) if Instant::now() >= *until => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "the program is exiting"))
            }
            _ => Ok(()),
        }
    }

    /// Saves `text` of the saved conversation with this name, replacing what was saved of the
    /// conversation and of the text's beginnings, and makes room for it.
    pub(super) fn write(&self, text: &Snapshot, conversation: &str) -> io::Result<()> {
        self.check_time()?;
        let tokens: Vec<u8> = text.tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        let features: Vec<u8> = text.features.iter().flat_map(|x| x.to_le_bytes()).collect();
        let path = self.cache.path(&name_of(&self.target, conversation, checksum(&tokens)));
        let bytes = tokens.len() + text.kv.len() + features.len();
        let mut file = self.cache.create(&path, bytes as u64)?;
        // Between two chunks the end of the program is noticed.
        let mut put = |bytes: &[u8]| {
            file.put(bytes.chunks(CHUNK).map(|chunk| self.check_time().map(|()| chunk)))
        };
        let tokens = put(&tokens)?;
        let kv = put(&text.kv)?;
        let features = put(&features)?;
        file.finish(&self.target, SnapshotParts { tokens, kv, features })?;
        for other in self.files().into_iter().filter(|other| *other != path) {
            let begins =
                || self.open(other.clone()).is_some_and(|it| text.tokens.starts_with(&it.tokens));
            if is_of(&other, conversation) || begins() {
                fs::remove_file(&other)?;
            }
        }
        Ok(())
    }
}

fn damaged(path: &Path, why: &io::Error) {
    tracing::warn!(file = %path.display(), %why, "ignoring a snapshot");
}

fn numbers<T>(bytes: &[u8], number: fn([u8; 4]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|&bytes| number(bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(count: usize, rows: u8) -> Snapshot {
        let tokens = (0..count as u32).map(|at| at * 7 % 1000).collect();
        Snapshot { tokens, kv: vec![rows; 5000], features: vec![0.5, -1.0, f32::MIN_POSITIVE] }
    }

    fn store(folder: &Path) -> SnapshotStore {
        SnapshotStore::new(folder.join("kv"), "a target".to_string(), 1_000_000)
    }

    #[test]
    fn the_longest_common_beginning_is_found_and_is_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let mut other = text(300, 2);
        other.tokens[200] = 5;
        store.write(&text(300, 1), "one").unwrap();
        store.write(&other, "two").unwrap();
        assert_eq!(store.files().len(), 2);
        assert_eq!(store.find(&text(400, 0).tokens, 0), Some(text(300, 1)));
        assert_eq!(store.find(&other.tokens, 0), Some(other.clone()));
        assert_eq!(store.find(&text(400, 0).tokens, 290), None, "it would spare next to nothing");
        assert_eq!(store.find(&[9; 400], 0), None);
        // A text that continues replaces its beginning.
        store.write(&text(350, 3), "three").unwrap();
        assert_eq!(store.files().len(), 2);
        assert_eq!(store.find(&text(400, 0).tokens, 0), Some(text(350, 3)));
        // So does another text of the same conversation: what was deleted from it is gone.
        store.write(&text(100, 4), "two").unwrap();
        assert_eq!(store.files().len(), 2);
        assert_eq!(store.find(&other.tokens, 0), Some(text(350, 3)), "as far as it goes");
    }

    #[test]
    fn files_of_other_targets_and_damaged_ones_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        store.write(&text(300, 1), "one").unwrap();
        let path = store.files().remove(0);
        let whole = fs::read(&path).unwrap();
        let prompt = text(400, 0).tokens;
        // Another target's file under a name of ours, because both descriptions have the same
        // checksum.
        let other = SnapshotStore { target: "another target".to_string(), ..store.clone() };
        other.write(&text(300, 4), "one").unwrap();
        let theirs = fs::read(other.files().remove(0)).unwrap();
        let mut cases = vec![Vec::new(), theirs, whole[..whole.len() / 2].to_vec()];
        // The first tokens, rows and features each begin a page.
        for page in 1..=4 {
            let mut flipped = whole.clone();
            flipped[page * 4096 + 5] ^= 0x40;
            cases.push(flipped);
        }
        for damaged in cases {
            fs::write(&path, &damaged).unwrap();
            assert_eq!(store.find(&prompt, 0), None, "{} bytes", damaged.len());
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(store.find(&prompt, 0), Some(text(300, 1)));
    }

    #[test]
    fn the_least_recently_used_make_room_and_a_bad_place_is_no_failure() {
        let folder = tempfile::tempdir().unwrap();
        let store = SnapshotStore::new(folder.path().join("kv"), "a target".to_string(), 70_000);
        let begun = |first: u32| {
            let mut text = text(200, 1);
            text.tokens[0] = first;
            text
        };
        for first in 0..6 {
            store.write(&begun(first), &format!("the {first}th")).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(15));
            // The first one remains recently used.
            assert!(store.find(&begun(0).tokens, 0).is_some());
        }
        let size: u64 = store.files().iter().map(|path| path.metadata().unwrap().len()).sum();
        assert!(size <= 70_000, "{size}");
        assert!(store.find(&begun(5).tokens, 0).is_some());
        assert!(store.find(&begun(1).tokens, 0).is_none(), "it was used least recently");
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let nowhere = SnapshotStore::new(file.join("below"), "a target".to_string(), 1000);
        assert!(nowhere.write(&text(100, 1), "one").is_err());
        assert_eq!(nowhere.find(&text(100, 1).tokens, 0), None);
    }

    #[test]
    fn a_file_that_comes_too_late_is_given_up_without_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        store.end_by(Instant::now());
        let why = store.write(&text(300, 1), "one").unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::TimedOut);
        assert_eq!(fs::read_dir(store.folder()).into_iter().flatten().count(), 0);
        // In the middle of it as well.
        let large = Snapshot { kv: vec![7; 200 << 20], ..text(300, 1) };
        let folder = folder.path().join("kv");
        let store = SnapshotStore::new(folder, "a target".to_string(), 1 << 40);
        store.end_by(Instant::now() + std::time::Duration::from_millis(1));
        let why = store.write(&large, "one").unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::TimedOut);
        assert_eq!(fs::read_dir(store.folder()).into_iter().flatten().count(), 0);
    }
}
