//! The files of saved KV caches: written, found by the tokens with which a prompt begins, and
//! checked in every byte. It must not depend on who decodes.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use super::folder::{ENDING, is_of, name_of};
use super::snapshot::Snapshot;
use crate::files::{Access, GrowingFile, remove_leftovers};
use crate::library::checksum;

/// The beginning of every file; another layout begins differently.
const MAGIC: &[u8; 8] = b"dovekv1\n";
/// The minimum number of tokens in a file: fewer are read just as quickly.
pub(super) const LEAST: usize = 64;
/// The most bytes of one conversation: the copy that is written must not fill the memory.
const MOST_OF_ONE: u64 = 1_000_000_000;
/// How many bytes are written at once; between two chunks the end of the program is noticed.
const CHUNK: usize = 4 << 20;
/// The most bytes of a file's head: the tokens of a long context and the target's description.
const LONGEST_HEAD: u64 = 64_000_000;

/// The saved caches of one target.
#[derive(Clone, Debug)]
pub struct SnapshotStore {
    folder: PathBuf,
    /// Everything that determines the numbers in its cache.
    of: String,
    /// The most bytes of all files in the folder.
    most: u64,
    /// When a file must have been written, once the program is being closed.
    until: Arc<OnceLock<Instant>>,
}

/// What precedes the rows in a file.
struct Head {
    tokens: Vec<u32>,
    kv: u64,
    features: u64,
    /// The checksum of the rows.
    sum: u64,
}

impl SnapshotStore {
    /// At most `most` bytes in `folder`, for the target that `of` describes.
    pub fn new(folder: PathBuf, of: String, most: u64) -> Self {
        // Files left by killed programs.
        remove_leftovers(&folder);
        Self { folder, of, most, until: Arc::default() }
    }

    /// The most bytes of one conversation's rows.
    pub(super) fn most_of_one(&self) -> usize {
        usize::try_from((self.most / 2).min(MOST_OF_ONE)).unwrap_or(usize::MAX)
    }

    /// Where they are.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The files of this target.
    fn files(&self) -> Vec<PathBuf> {
        let begin = format!("{:016x}-", checksum(self.of.as_bytes()));
        let ours = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&begin) && name.ends_with(ENDING))
        };
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(ours).collect()
    }

    /// The saved text that has the most in common with `prompt`, if that is clearly more than
    /// `have` tokens.
    pub fn find(&self, prompt: &[u32], have: usize) -> Option<Snapshot> {
        let heads = self.files().into_iter().filter_map(|path| {
            let head = self.open(&path).map_err(|why| useless(&path, &why)).ok()?.1;
            let alike = head.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
            (alike >= have + LEAST).then_some((alike, path))
        });
        let (_, path) = heads.max_by_key(|(alike, _)| *alike)?;
        match self.read(&path) {
            Ok(kept) => {
                // The least recently used files are removed first.
                let touched = File::options().write(true).open(&path);
                let _ = touched.and_then(|file| file.set_modified(SystemTime::now()));
                Some(kept)
            }
            Err(why) => {
                useless(&path, &why);
                // It is ours, and it cannot be used.
                let _ = fs::remove_file(&path);
                None
            }
        }
    }

    /// A file, positioned after its head, and the head.
    fn open(&self, path: &Path) -> Result<(File, Head), String> {
        let broken = |error: io::Error| error.to_string();
        let mut file = File::open(path).map_err(broken)?;
        let size = file.metadata().map_err(broken)?.len();
        let mut magic = [0; 8];
        file.read_exact(&mut magic).map_err(broken)?;
        if magic != *MAGIC {
            return Err("it has another version".to_string());
        }
        let length = word(&mut file).map_err(broken)?;
        if length > LONGEST_HEAD.min(size) {
            return Err("it is damaged".to_string());
        }
        let mut head = vec![0; length as usize];
        file.read_exact(&mut head).map_err(broken)?;
        if word(&mut file).map_err(broken)? != checksum(&head) {
            return Err("it is damaged".to_string());
        }
        let head = Head::parse(&head, &self.of)?;
        let rows = head.features.checked_mul(4).and_then(|bytes| bytes.checked_add(head.kv));
        if rows.and_then(|rows| rows.checked_add(8 + 8 + length + 8)) != Some(size) {
            return Err("it is truncated".to_string());
        }
        Ok((file, head))
    }

    fn read(&self, path: &Path) -> Result<Snapshot, String> {
        let (file, head) = self.open(path)?;
        let broken = |error: io::Error| error.to_string();
        let size = usize::try_from(head.kv + head.features * 4).map_err(|e| e.to_string())?;
        let mut rows = Vec::new();
        rows.try_reserve_exact(size).map_err(|error| error.to_string())?;
        file.take(size as u64).read_to_end(&mut rows).map_err(broken)?;
        if rows.len() != size || checksum(&rows) != head.sum {
            return Err("it is damaged".to_string());
        }
        let features = rows.split_off(head.kv as usize);
        let features = features.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
        Ok(Snapshot { tokens: head.tokens, features: features.collect(), kv: rows })
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
    pub(super) fn write(&self, text: Snapshot, conversation: &str) -> io::Result<()> {
        self.check_time()?;
        let Snapshot { tokens, features, kv: mut rows } = text;
        let kv = rows.len() as u64;
        rows.extend(features.iter().flat_map(|number| number.to_le_bytes()));
        let head = Head { tokens, kv, features: features.len() as u64, sum: checksum(&rows) };
        let (tokens, head) = (&head.tokens, head.bytes(&self.of));
        fs::create_dir_all(&self.folder)?;
        let path = self.folder.join(name_of(&self.of, conversation, checksum(&head)));
        self.make_room(rows.len() as u64 + head.len() as u64, &path);
        // It gets its name last, and its checksums tell whether every byte reached the disk.
        let mut growing = GrowingFile::create(&path, Access::Private)?;
        let file = growing.file();
        file.write_all(MAGIC)?;
        file.write_all(&(head.len() as u64).to_le_bytes())?;
        file.write_all(&head)?;
        file.write_all(&checksum(&head).to_le_bytes())?;
        for chunk in rows.chunks(CHUNK) {
            self.check_time()?;
            file.write_all(chunk)?;
        }
        growing.finish()?;
        for other in self.files().into_iter().filter(|other| *other != path) {
            let begins = || self.open(&other).is_ok_and(|(_, it)| tokens.starts_with(&it.tokens));
            if is_of(&other, conversation) || begins() {
                fs::remove_file(&other)?;
            }
        }
        Ok(())
    }

    /// Removes the least recently used files, of any target, until `bytes` fit next to the others.
    fn make_room(&self, bytes: u64, path: &Path) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let (path, about) = (entry.path(), entry.metadata().ok()?);
                let ours = path.extension().is_some_and(|ending| ending == ENDING);
                ours.then_some((about.modified().ok()?, about.len(), path))
            })
            .filter(|(.., other)| other != path)
            .collect();
        files.sort();
        let mut all: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in files {
            if all + bytes <= self.most {
                return;
            }
            if fs::remove_file(&path).is_ok() {
                all -= size;
            }
        }
    }
}

fn useless(path: &Path, why: &str) {
    tracing::warn!(file = %path.display(), why, "ignoring a saved KV cache");
}

fn word(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

impl Head {
    fn bytes(&self, of: &str) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [of.len() as u64, self.tokens.len() as u64, self.kv, self.features, self.sum]
        {
            out.extend(number.to_le_bytes());
        }
        out.extend(of.as_bytes());
        out.extend(self.tokens.iter().flat_map(|token| token.to_le_bytes()));
        out
    }

    /// Reads what [`Self::bytes`] wrote for the target `of`.
    fn parse(bytes: &[u8], of: &str) -> Result<Self, String> {
        let damaged = || "it is damaged".to_string();
        let mut rest = bytes;
        let mut next = || word(&mut rest).map_err(|_| damaged());
        let (described, count) = (next()?, next()?);
        let (kv, features, sum) = (next()?, next()?, next()?);
        let described = usize::try_from(described).map_err(|_| damaged())?;
        let (described, tokens) = rest.split_at_checked(described).ok_or_else(damaged)?;
        if described != of.as_bytes() {
            return Err("it belongs to another target".to_string());
        }
        let (tokens, left) = tokens.as_chunks::<4>();
        if !left.is_empty() || tokens.len() as u64 != count {
            return Err(damaged());
        }
        let tokens = tokens.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect();
        Ok(Self { tokens, kv, features, sum })
    }
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
        store.write(text(300, 1), "one").unwrap();
        store.write(other.clone(), "two").unwrap();
        assert_eq!(store.files().len(), 2);
        assert_eq!(store.find(&text(400, 0).tokens, 0), Some(text(300, 1)));
        assert_eq!(store.find(&other.tokens, 0), Some(other.clone()));
        assert_eq!(store.find(&text(400, 0).tokens, 290), None, "it would spare next to nothing");
        assert_eq!(store.find(&[9; 400], 0), None);
        // A text that continues replaces its beginning.
        store.write(text(350, 3), "three").unwrap();
        assert_eq!(store.files().len(), 2);
        assert_eq!(store.find(&text(400, 0).tokens, 0), Some(text(350, 3)));
        // So does another text of the same conversation: what was deleted from it is gone.
        store.write(text(100, 4), "two").unwrap();
        assert_eq!(store.files().len(), 2);
        assert_eq!(store.find(&other.tokens, 0), Some(text(350, 3)), "as far as it goes");
    }

    #[test]
    fn files_of_other_targets_and_damaged_ones_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        store.write(text(300, 1), "one").unwrap();
        let path = store.files().remove(0);
        let whole = fs::read(&path).unwrap();
        let prompt = text(400, 0).tokens;
        // Another target's file under a name of ours, because both descriptions have the same
        // checksum.
        let other = SnapshotStore { of: "another target".to_string(), ..store.clone() };
        other.write(text(300, 4), "one").unwrap();
        let theirs = fs::read(other.files().remove(0)).unwrap();
        let mut cases = vec![Vec::new(), b"some other file".to_vec(), theirs];
        cases
            .extend([1, 8, 20, 100, whole.len() / 2, whole.len() - 1].map(|n| whole[..n].to_vec()));
        for at in (0..whole.len()).step_by(97).chain([8, 15, whole.len() - 1]) {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x40;
            cases.push(flipped);
        }
        let mut huge = whole.clone();
        huge[8..16].fill(0xff);
        cases.push(huge);
        cases.push([&whole[..], b"more"].concat());
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
        let store = SnapshotStore { most: 20_000, ..store(folder.path()) };
        let begun = |first: u32| {
            let mut kept = text(200, 1);
            kept.tokens[0] = first;
            kept
        };
        for first in 0..6 {
            store.write(begun(first), &format!("the {first}th")).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(15));
            // The first one remains recently used.
            assert!(store.find(&begun(0).tokens, 0).is_some());
        }
        let size: u64 = store.files().iter().map(|path| path.metadata().unwrap().len()).sum();
        assert!(size <= 20_000, "{size}");
        assert!(store.find(&begun(5).tokens, 0).is_some());
        assert!(store.find(&begun(1).tokens, 0).is_none(), "it was used least recently");
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let nowhere = SnapshotStore::new(file.join("below"), "a target".to_string(), 1000);
        assert!(nowhere.write(text(100, 1), "one").is_err());
        assert_eq!(nowhere.find(&text(100, 1).tokens, 0), None);
    }
    #[test]
    fn a_file_that_comes_too_late_is_given_up_without_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        store.end_by(Instant::now());
        let why = store.write(text(300, 1), "one").unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::TimedOut);
        assert_eq!(fs::read_dir(&store.folder).into_iter().flatten().count(), 0);
        // In the middle of it as well.
        let store = SnapshotStore { until: Arc::default(), ..store };
        let large = Snapshot { kv: vec![7; 200 << 20], ..text(300, 1) };
        let store = SnapshotStore { most: 1 << 40, ..store };
        store.end_by(Instant::now() + std::time::Duration::from_millis(1));
        let why = store.write(large, "one").unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::TimedOut);
        assert_eq!(fs::read_dir(&store.folder).into_iter().flatten().count(), 0);
    }
}
