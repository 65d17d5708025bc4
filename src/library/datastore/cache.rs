//! A sorted text on disk, mapped: the tokens and then their order, as little-endian u32. It must
//! not depend on how it was sorted.

use std::io;
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files::{CHUNK, CacheFile, Cached, CachedBytes, DiskCache, checksum};
use crate::library::Tokenizer;
use crate::library::blob::Blob;
use crate::speculate::suffixes::{self, SortedText, Suffixes};

const WORD: usize = 4;

/// The sorted texts in `folder`.
pub(super) fn text_cache(folder: &Path) -> DiskCache {
    DiskCache::new(folder.to_owned(), "sorted")
}

/// Identifies text and tokenizer of a cache file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    text: u64,
    length: usize,
    tokenizer: u64,
}

impl Key {
    pub(super) fn new(text: &str, tokenizer: &Tokenizer) -> Self {
        let text_sum = checksum(text.as_bytes());
        Self { text: text_sum, length: text.len(), tokenizer: tokenizer.fingerprint() }
    }

    pub(super) fn file_name(&self) -> String {
        format!("{:016x}-{:016x}", self.text, self.tokenizer)
    }

    fn describe(&self) -> String {
        let Self { text, length, tokenizer } = self;
        format!("{text:016x}, {length} bytes; {tokenizer:016x}; depth {}", suffixes::DEPTH)
    }
}

#[derive(Serialize, Deserialize)]
struct SortedParts {
    tokens: CachedBytes,
    order: CachedBytes,
}

impl Cached for SortedParts {
    const VERSION: u32 = 2;
}

/// A cache file, mapped.
#[derive(Debug)]
pub(super) struct MappedText {
    blob: Blob,
    tokens: Range<usize>,
    order: Range<usize>,
}

impl MappedText {
    /// The file, if it exists, is complete and has the key `key`. All of it is read once to check
    /// that.
    pub(super) fn open(path: &Path, key: &Key) -> Option<Self> {
        let stored = CacheFile::<SortedParts>::open(path, &key.describe())?.index;
        let blob = Blob::open(path).ok()?;
        let tokens = stored.tokens.range_in(&blob);
        let order = stored.order.range_in(&blob);
        let (Some(tokens), Some(order)) = (tokens, order) else {
            tracing::warn!(file = %path.display(), "the sorted text is damaged; sorting again");
            return None;
        };
        (tokens.len() == order.len()).then_some(Self { blob, tokens, order })
    }

    fn word(&self, part: &Range<usize>, at: usize) -> u32 {
        let bytes = self.blob[part.start + at * WORD..part.end].first_chunk();
        bytes.map_or(0, |&word| u32::from_le_bytes(word))
    }
}

impl Suffixes for MappedText {
    fn len(&self) -> usize {
        self.tokens.len() / WORD
    }

    fn token(&self, position: usize) -> u32 {
        self.word(&self.tokens, position)
    }

    fn position(&self, rank: usize) -> usize {
        self.word(&self.order, rank) as usize
    }
}

/// Stores `sorted` at `path`.
pub(super) fn write(
    cache: &DiskCache,
    path: &Path,
    key: &Key,
    sorted: &SortedText,
) -> io::Result<()> {
    let SortedText { tokens, order } = sorted;
    let mut file = cache.create(path, (WORD * (tokens.len() + order.len())) as u64)?;
    let tokens = file.put(chunks(tokens))?;
    let order = file.put(chunks(order))?;
    file.finish(&key.describe(), SortedParts { tokens, order })
}

fn chunks(words: &[u32]) -> impl Iterator<Item = io::Result<Vec<u8>>> {
    let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    words.chunks(CHUNK / WORD).map(move |words| Ok(bytes(words)))
}
