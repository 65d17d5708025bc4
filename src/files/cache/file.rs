//! One file of the cache: a head, any number of parts, and an index of them. Every byte that is
//! used is checked. It must not depend on what the parts are.
//!
//! The head is five little-endian u64 words and their checksum: magic, a word in the byte order of
//! the machine (what is stored may be in it too), and the place, length and checksum of the index,
//! which ends the file. Contents begin at multiples of [`ALIGNMENT`]. The head is written last.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::{CacheIndex, Cached, DiskCache, useless};
use crate::files::write::{take_name, temporary};
use crate::files::{Access, Open, checksum, open_regular};

/// `dovecach` in ASCII; another layout of the head begins differently.
const MAGIC: u64 = u64::from_le_bytes(*b"dovecach");
/// The same bytes give another number on a machine with the other byte order.
const ORDER: u64 = u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8]);
const WORDS: usize = 5;
const HEAD: usize = 8 * (WORDS + 1);
/// A page, which is what systems read and map at once.
const ALIGNMENT: u64 = 4096;
/// Far above the index of any model (about 1 MB for 100 GB).
const LONGEST_INDEX: u64 = 256 << 20;
/// Bytes of a part that are checked at once: few enough to stay in a core's cache.
pub const CHUNK: usize = 256 << 10;

/// Bytes in a cache file.
#[derive(Debug, Serialize, Deserialize)]
pub struct CachedBytes {
    at: u64,
    bytes: u64,
    /// The checksum of each chunk.
    sums: Vec<u64>,
}

impl CachedBytes {
    /// Where it is in a file of `length` bytes; `None` if it is not in it.
    fn range(&self, length: u64) -> Option<Range<usize>> {
        let end = self.at.checked_add(self.bytes).filter(|end| *end <= length)?;
        Some(usize::try_from(self.at).ok()?..usize::try_from(end).ok()?)
    }

    fn is_whole(&self, bytes: &[u8]) -> bool {
        let chunks = bytes.chunks(CHUNK);
        chunks.len() == self.sums.len()
            && chunks.zip(&self.sums).all(|(chunk, sum)| checksum(chunk) == *sum)
    }
}

/// A file that can be read.
#[derive(Debug)]
pub struct CacheFile<T> {
    file: File,
    length: u64,
    /// What it says about its parts.
    pub index: T,
}

impl<T: Cached> CacheFile<T> {
    /// Opens the file at `path` if it was made for `key`. Its parts are checked when they are read.
    /// Why a file cannot be used is only logged, because its contents can be made again.
    pub fn open(path: &Path, key: &str) -> Option<Self> {
        let found = Self::read_index(path, key);
        if let Err(why) = &found
            && why.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(file = %path.display(), %why, "ignoring a cache file");
        }
        found.ok()
    }

    fn read_index(path: &Path, key: &str) -> io::Result<Self> {
        let mut file = open_regular(path, Open::Read)?;
        let length = file.metadata()?.len();
        let mut bytes = [0; HEAD];
        file.read_exact(&mut bytes)?;
        let mut words = [0; WORDS + 1];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [magic, order, at, size, sum, own] = words;
        if magic != MAGIC || own != checksum(&bytes[..8 * WORDS]) {
            return Err(useless("it has another layout, or its head is damaged"));
        }
        if order != ORDER {
            return Err(useless("it was made on another kind of machine"));
        }
        if size > LONGEST_INDEX || at.checked_add(size) != Some(length) {
            return Err(useless("it is truncated"));
        }
        file.seek(SeekFrom::Start(at))?;
        let mut index = Vec::new();
        (&file).take(size).read_to_end(&mut index)?;
        if checksum(&index) != sum {
            return Err(useless("its index is damaged"));
        }
        Ok(Self { length, index: CacheIndex::parse(&index, key)?, file })
    }

    /// The bytes of a part.
    ///
    /// # Errors
    /// They are not as they were written, or do not fit in memory.
    pub fn read(&self, part: &CachedBytes) -> io::Result<Vec<u8>> {
        let range = part.range(self.length).ok_or_else(|| useless("it is truncated"))?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(range.len()).map_err(io::Error::other)?;
        bytes.resize(range.len(), 0);
        read_at(&self.file, part.at, &mut bytes)?;
        if part.is_whole(&bytes) { Ok(bytes) } else { Err(useless("it is damaged")) }
    }

    /// Fills `chunk` with what begins at the byte `at` of a part, a multiple of [`CHUNK`]. Returns
    /// whether it is as it was written. Several threads may call it at once.
    pub fn read_chunk(&self, part: &CachedBytes, at: usize, chunk: &mut [u8]) -> bool {
        let place = part.at.checked_add(at as u64);
        place.is_some_and(|place| read_at(&self.file, place, chunk).is_ok())
            && part.sums.get(at / CHUNK) == Some(&checksum(chunk))
    }

    /// Notes that it was used now.
    pub fn touch(&self) {
        // At worst it is removed sooner.
        let _ = self.file.set_modified(SystemTime::now());
    }
}

/// A file that is being written. It is not synced, because it shows by itself whether it is
/// complete.
#[derive(Debug)]
pub struct CacheWriter {
    cache: DiskCache,
    path: PathBuf,
    file: NamedTempFile,
    at: u64,
}

impl CacheWriter {
    /// Starts the file that will be at `path`.
    pub(super) fn create(cache: DiskCache, path: &Path) -> io::Result<Self> {
        let file = temporary(path, Access::Private)?;
        Ok(Self { cache, path: path.to_owned(), file, at: ALIGNMENT })
    }

    /// A file that accepts no bytes.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn on_full_disk(cache: DiskCache, path: &Path) -> io::Result<Self> {
        let (_, name) = temporary(path, Access::Private)?.into_parts();
        let full = File::options().write(true).open("/dev/full")?;
        let file = NamedTempFile::from_parts(full, name);
        Ok(Self { cache, path: path.to_owned(), file, at: ALIGNMENT })
    }

    /// Writes a part, given in chunks of [`CHUNK`] bytes or, at the end, fewer.
    ///
    /// # Errors
    /// That of a chunk, and the system's.
    pub fn put(
        &mut self,
        chunks: impl IntoIterator<Item = io::Result<impl AsRef<[u8]>>>,
    ) -> io::Result<CachedBytes> {
        let mut part = CachedBytes { at: self.at, bytes: 0, sums: Vec::new() };
        let file = self.file.as_file_mut();
        file.seek(SeekFrom::Start(self.at))?;
        for chunk in chunks {
            let chunk = chunk?;
            let bytes = chunk.as_ref();
            file.write_all(bytes)?;
            part.bytes += bytes.len() as u64;
            part.sums.push(checksum(bytes));
        }
        self.at = (self.at + part.bytes).next_multiple_of(ALIGNMENT);
        Ok(part)
    }

    /// Writes index and head for `key`, makes room for the file as it has become, and gives it its
    /// name.
    ///
    /// # Errors
    /// The limit does not allow so many bytes, or the system's.
    pub fn finish<T: Cached>(mut self, key: &str, index: T) -> io::Result<()> {
        let index = serde_json::to_vec(&CacheIndex::new(key, index))?;
        self.cache.make_room(self.at + index.len() as u64, &self.path)?;
        let words = [MAGIC, ORDER, self.at, index.len() as u64, checksum(&index)];
        let mut head: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        head.extend(checksum(&head).to_le_bytes());
        let file = self.file.as_file_mut();
        file.seek(SeekFrom::Start(self.at))?;
        file.write_all(&index)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&head)?;
        take_name(self.file, &self.path)
    }
}

/// Fills `to` from `place` on; several threads may call it at once.
#[cfg(unix)]
fn read_at(file: &File, place: u64, to: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, to, place)
}

/// Fills `to` from `place` on; several threads may call it at once.
#[cfg(windows)]
fn read_at(file: &File, mut place: u64, mut to: &mut [u8]) -> io::Result<()> {
    while !to.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, to, place)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => (place, to) = (place + n as u64, &mut to[n..]),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::files::remove_leftovers;

    #[derive(Debug, Serialize, Deserialize)]
    struct Contents {
        name: String,
        parts: Vec<CachedBytes>,
    }

    impl Cached for Contents {
        const VERSION: u32 = 3;

        fn is_sound(&self) -> bool {
            !self.name.is_empty()
        }
    }

    /// No bytes, less than a chunk, whole chunks, and more.
    const SIZES: [usize; 4] = [0, 5000, 2 * CHUNK, CHUNK + 1];

    fn bytes(size: usize) -> Vec<u8> {
        (0..size).map(|at| (at * 7 % 251) as u8).collect()
    }

    fn create(path: &Path) -> CacheWriter {
        DiskCache::new(path.parent().unwrap().to_owned(), "part").create(path, 0).unwrap()
    }

    fn write(path: &Path, key: &str, name: &str) {
        let mut file = create(path);
        let parts = SIZES.map(|size| file.put(bytes(size).chunks(CHUNK).map(Ok)).unwrap());
        file.finish(key, Contents { name: name.to_owned(), parts: parts.into() }).unwrap();
    }

    /// The parts of the file at `path`, if all of it can be used.
    fn read(path: &Path, key: &str) -> Option<Vec<Vec<u8>>> {
        let file = CacheFile::<Contents>::open(path, key)?;
        let read = |part: &CachedBytes| {
            let bytes = file.read(part).ok();
            let mut last = vec![0; (part.bytes as usize).min(CHUNK)];
            let is_whole = file.read_chunk(part, 0, &mut last);
            assert!(is_whole || bytes.is_none() || last.is_empty());
            bytes
        };
        file.index.parts.iter().map(read).collect()
    }

    #[test]
    fn every_part_is_what_was_written_and_only_for_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert_eq!(read(&path, "a key"), None);
        write(&path, "a key", "a name");
        assert_eq!(read(&path, "a key"), Some(SIZES.map(bytes).to_vec()));
        assert_eq!(read(&path, "another key"), None);
        write(&path, "a key", "");
        assert_eq!(read(&path, "a key"), None, "an impossible index");
        // An index of an earlier version of the contents.
        let mut file = create(&path);
        let part = file.put([Ok([1; 8])]).unwrap();
        #[derive(Serialize, Deserialize)]
        struct Older(CachedBytes);
        impl Cached for Older {
            const VERSION: u32 = 2;
        }
        file.finish("a key", Older(part)).unwrap();
        assert!(CacheFile::<Older>::open(&path, "a key").is_some());
        assert_eq!(read(&path, "a key"), None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_byte_is_never_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, "a key", "a name");
        let whole = fs::read(&path).unwrap();
        let parts = CacheFile::<Contents>::open(&path, "a key").unwrap().index.parts;
        let index = u64::from_le_bytes(*whole[16..].first_chunk().unwrap()) as usize;
        let mut used = vec![0..HEAD, index..whole.len()];
        used.extend(parts.iter().filter_map(|part| part.range(whole.len() as u64)));
        let mut cases: Vec<Vec<u8>> = Vec::new();
        for range in used {
            // Both ends and a few places between them.
            let ends = [range.start, range.end.saturating_sub(1)];
            for at in range.clone().step_by(1 + range.len() / 9).chain(ends) {
                if range.contains(&at) {
                    let mut flipped = whole.clone();
                    flipped[at] ^= 0x40;
                    cases.push(flipped);
                }
            }
        }
        assert!(cases.len() > 40);
        let lengths = [0, 1, 8, HEAD - 1, HEAD, 4096, whole.len() / 2, whole.len() - 1];
        cases.extend(lengths.map(|length| whole[..length].to_vec()));
        cases.push([&whole[..], b"more"].concat());
        cases.push(b"something else".repeat(1000));
        // A head that is as it was written, of a machine with the other byte order, and of a file
        // that never ends.
        for (word, value) in [(1, ORDER.swap_bytes()), (2, u64::MAX), (3, u64::MAX)] {
            let mut other = whole.clone();
            other[8 * word..8 * word + 8].copy_from_slice(&value.to_le_bytes());
            let own = checksum(&other[..8 * WORDS]);
            other[8 * WORDS..HEAD].copy_from_slice(&own.to_le_bytes());
            cases.push(other);
        }
        for (case, damaged) in cases.iter().enumerate() {
            fs::write(&path, damaged).unwrap();
            assert_eq!(read(&path, "a key"), None, "case {case}");
        }
        fs::write(&path, whole).unwrap();
        assert_eq!(read(&path, "a key"), Some(SIZES.map(bytes).to_vec()));
    }

    #[test]
    fn what_is_not_finished_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut file = create(&path);
        file.put([Ok([1; 100])]).unwrap();
        assert!(!path.exists() && remove_leftovers(folder.path()) == 0);
        let chunks = [Ok([1; 4]), Err(io::ErrorKind::TimedOut.into())];
        assert_eq!(file.put(chunks).unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
