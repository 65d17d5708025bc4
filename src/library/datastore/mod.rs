//! The text from which retrieval drafts: read, split into tokens, sorted, and stored sorted in the
//! user's cache folder. It must not depend on what is drafted from it.

mod read;

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{LibraryError, Result, Tokenizer};
use crate::files::{CHUNK, CacheFile, Cached, CachedBytes, DiskCache, checksum};
use crate::speculate::suffixes::{self, SortedText};

/// Texts with fewer bytes are not stored: sorting them takes a tenth of a second.
const WORTH_KEEPING: usize = 1 << 18;

/// A text that is ready for lookups.
pub struct Datastore {
    /// The sorted text.
    pub text: SortedText,
    /// The file's name, for the screen.
    pub name: String,
    /// A notice for the user.
    pub notice: Option<String>,
}

/// A sorted text in a cache file: its tokens and their order, as little-endian u32.
#[derive(Serialize, Deserialize)]
struct SortedParts {
    tokens: CachedBytes,
    order: CachedBytes,
}

impl Cached for SortedParts {
    const VERSION: u32 = 2;
}

/// The tokens of the text file at `path`.
///
/// # Errors
/// [`LibraryError`] if it cannot be read or split.
pub fn text_tokens(path: &Path, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
    read::tokens(&read::text(path)?, tokenizer, &mut |_| {})
}

impl Datastore {
    /// The text in the file `path`, split by `tokenizer`. Unless it is short, it is sorted once and
    /// stored in `folder`, for this text and this tokenizer; a damaged cache file is replaced.
    /// `report` receives the stage and its progress, 0 to 1.
    ///
    /// # Errors
    /// [`LibraryError`] if the file cannot be read or is not a text. A cache that cannot be written
    /// is not an error: see [`Self::notice`].
    pub fn open(
        path: &Path,
        tokenizer: &Tokenizer,
        folder: Option<&Path>,
        report: &mut dyn FnMut(&str, f32),
    ) -> Result<Self> {
        let text = read::text(path)?;
        let folder = folder.filter(|_| text.len() >= WORTH_KEEPING);
        Self::sorted(path, text, tokenizer, folder, report)
    }

    fn sorted(
        path: &Path,
        text: String,
        tokenizer: &Tokenizer,
        folder: Option<&Path>,
        report: &mut dyn FnMut(&str, f32),
    ) -> Result<Self> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let text_sum = checksum(text.as_bytes());
        let tokenizer_sum = tokenizer.fingerprint();
        let length = text.len();
        let depth = suffixes::DEPTH;
        let key = format!("{text_sum:016x}, {length} bytes; {tokenizer_sum:016x}; depth {depth}");
        let cache = folder.map(|folder| DiskCache::new(folder.to_owned(), "sorted"));
        let file = cache
            .as_ref()
            .map(|cache| (cache, cache.path(&format!("{text_sum:016x}-{tokenizer_sum:016x}"))));
        if let Some(text) = file.as_ref().and_then(|(_, file)| stored(file, &key)) {
            return Ok(Self { text, name, notice: None });
        }
        let tokens = read::tokens(&text, tokenizer, &mut |done| {
            report(&format!("splitting {name} into tokens"), done);
        })?;
        drop(text);
        if tokens.len() > u32::MAX as usize {
            let found = format!("{} tokens", tokens.len());
            let remedy = format!("use a part of at most {} tokens", u32::MAX);
            let what = "the length of the text";
            return Err(LibraryError::unsupported(path.display(), what, found, remedy));
        }
        let order = suffixes::sort(&tokens, |done| report(&format!("sorting {name}"), done));
        let text = SortedText { tokens, order };
        let failed = file.and_then(|(cache, file)| {
            let error = store(cache, &file, &key, &text).err()?;
            Some(format!(
                "cannot write {}: {error}; {name} is kept in memory and must be sorted again at \
                 the next start",
                file.display()
            ))
        });
        Ok(Self { text, name, notice: failed })
    }
}

/// The text in the cache file at `path`, if it was stored for `key` and is undamaged.
fn stored(path: &Path, key: &str) -> Option<SortedText> {
    let file = CacheFile::<SortedParts>::open(path, key)?;
    let words = |part| -> io::Result<Vec<u32>> {
        let bytes = file.read(part)?;
        Ok(bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect())
    };
    let SortedParts { tokens, order } = &file.index;
    let text = words(tokens).and_then(|tokens| Ok(SortedText { tokens, order: words(order)? }));
    if let Err(why) = &text {
        tracing::warn!(file = %path.display(), %why, "sorting a text again");
    }
    text.ok().filter(|text| text.tokens.len() == text.order.len())
}

fn store(cache: &DiskCache, path: &Path, key: &str, text: &SortedText) -> io::Result<()> {
    let mut file = cache.create(path, 4 * (text.tokens.len() + text.order.len()) as u64)?;
    let chunks = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut put = |words: &[u32]| {
        file.put(words.chunks(CHUNK / 4).map(|words| Ok::<Vec<u8>, _>(chunks(words))))
    };
    let parts = SortedParts { tokens: put(&text.tokens)?, order: put(&text.order)? };
    file.finish(key, parts)
}

#[cfg(test)]
mod tests;
