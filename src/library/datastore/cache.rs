//! A sorted text on disk. It must not depend on how it was sorted.
//!
//! The file is a head of eight little-endian u64 words, then the tokens and then their order as
//! little-endian u32. The head holds the key and a checksum of the body, so that a file of another
//! text, or a file truncated by a crash or a full disk, is never used but replaced.

use std::fs;
use std::hash::Hasher;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::files::{Access, atomic_write, remove_leftovers};
use crate::library::Tokenizer;
use crate::library::blob::Blob;
use crate::speculate::suffixes::{self, SortedText, Suffixes};

/// `dovesort` in ASCII.
const MAGIC: u64 = u64::from_le_bytes(*b"dovesort");
/// Changes whenever old files become useless.
const VERSION: u64 = 1;
const WORD: usize = 4;
const HEAD: usize = 8 * 8;
/// Index of the number of tokens in the head.
const TOKENS_AT: usize = 6 * 8;

/// Identifies text and tokenizer of a cache file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    text: u64,
    length: u64,
    tokenizer: u64,
}

impl Key {
    pub(super) fn new(text: &str, tokenizer: &Tokenizer) -> Self {
        let length = text.len() as u64;
        let tokenizer = tokenizer.fingerprint();
        Self { text: hash(text), length, tokenizer }
    }

    pub(super) fn file_name(&self) -> String {
        format!("{:016x}-{:016x}-v{VERSION}.sorted", self.text, self.tokenizer)
    }

    fn head(&self, tokens: u64, body: u64) -> [u64; 8] {
        let depth = suffixes::DEPTH as u64;
        [MAGIC, VERSION, depth, self.text, self.length, self.tokenizer, tokens, body]
    }
}

/// The standard library's hash, which may change with its version; the cache is then replaced.
fn hash(text: &str) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// FNV-1a by words: it is quick, and any torn or emptied part of a file changes it.
fn sum(words: impl Iterator<Item = u32>) -> u64 {
    words.fold(0xCBF2_9CE4_8422_2325, |sum, word| {
        (sum ^ u64::from(word)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// A cache file, mapped.
#[derive(Debug)]
pub(super) struct Kept {
    blob: Blob,
    tokens: usize,
}

impl Kept {
    /// The file, if it exists, is complete and has the key `key`. All of it is read once to check
    /// that.
    pub(super) fn open(path: &Path, key: &Key) -> Option<Self> {
        let blob = Blob::open(path).ok()?;
        let head = blob.get(..HEAD)?;
        let tokens = u64::from_le_bytes(*head[TOKENS_AT..].first_chunk()?);
        let tokens = usize::try_from(tokens).ok()?;
        let length = tokens.checked_mul(2 * WORD)?.checked_add(HEAD)?;
        let whole = blob.len() == length && {
            let (words, _) = blob[HEAD..].as_chunks::<WORD>();
            let body = sum(words.iter().map(|&word| u32::from_le_bytes(word)));
            head == bytes(&key.head(tokens as u64, body))
        };
        if !whole {
            tracing::warn!(file = %path.display(), "the sorted text is damaged or old; sorting \
                again");
        }
        whole.then_some(Self { blob, tokens })
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = self.blob[HEAD + at * WORD..].first_chunk();
        bytes.map_or(0, |&word| u32::from_le_bytes(word))
    }
}

impl Suffixes for Kept {
    fn len(&self) -> usize {
        self.tokens
    }

    fn token(&self, position: usize) -> u32 {
        self.word(position)
    }

    fn position(&self, rank: usize) -> usize {
        self.word(self.tokens + rank) as usize
    }
}

fn bytes(head: &[u64; 8]) -> Vec<u8> {
    head.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Stores `sorted` at `path`. The file appears completely or not at all.
pub(super) fn write(path: &Path, key: &Key, sorted: &SortedText) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(folder)?;
    // A sorted text is large, so temporary files of killed programs are removed.
    remove_leftovers(folder);
    let words = || sorted.tokens.iter().chain(&sorted.order).copied();
    atomic_write(path, Access::Private, |file| {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        file.write_all(&bytes(&key.head(sorted.tokens.len() as u64, sum(words()))))?;
        words().try_for_each(|word| file.write_all(&word.to_le_bytes()))?;
        file.flush()
    })
}
