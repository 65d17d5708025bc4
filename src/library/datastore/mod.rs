//! The text from which retrieval drafts: read, split into tokens, sorted, and stored sorted in the
//! user's cache folder. It must not depend on what is drafted from it.

mod cache;
mod read;

use std::path::{Path, PathBuf};

use super::{LibraryError, Tokenizer};
use crate::files::cache_folder;
use crate::speculate::suffixes::{self, SortedText, Suffixes};
use cache::MappedText;

/// Texts with fewer bytes are not stored: sorting them takes a tenth of a second.
const WORTH_KEEPING: usize = 1 << 18;

/// A text that is ready for lookups, mapped from the cache or in memory.
pub struct Datastore {
    store: Box<dyn Suffixes>,
    name: String,
    notice: Option<String>,
}

/// The tokens of the text file at `path`.
///
/// # Errors
/// [`LibraryError`] if it cannot be read or split.
pub fn text_tokens(path: &Path, tokenizer: &Tokenizer) -> Result<Vec<u32>, LibraryError> {
    Ok(read::tokens(&read::text(path)?, tokenizer, &mut |_| {})?)
}

impl Datastore {
    /// The text in the file `path`, split by `tokenizer`. Unless it is short, it is sorted once and
    /// stored in `folder` ([`Self::cache_folder`]), for this text and this tokenizer; a damaged
    /// cache file is replaced. `report` receives the stage and its progress, 0 to 1.
    ///
    /// # Errors
    /// [`LibraryError`] if the file cannot be read or is not a text. A cache that cannot be written
    /// is not an error: see [`Self::take_notice`].
    pub fn open(
        path: &Path,
        tokenizer: &Tokenizer,
        folder: Option<&Path>,
        report: &mut dyn FnMut(&str, f32),
    ) -> Result<Self, LibraryError> {
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
    ) -> Result<Self, LibraryError> {
        let key = cache::Key::new(&text, tokenizer);
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let cache = folder.map(cache::text_cache);
        let file = cache.as_ref().map(|cache| (cache, cache.path(&key.file_name())));
        if let Some(mapped) = file.as_ref().and_then(|(_, file)| MappedText::open(file, &key)) {
            return Ok(Self { store: Box::new(mapped), name, notice: None });
        }
        let tokens = read::tokens(&text, tokenizer, &mut |done| {
            report(&format!("splitting {name} into tokens"), done);
        })?;
        drop(text);
        if tokens.len() > u32::MAX as usize {
            return Err(LibraryError::Unsupported {
                origin: path.display().to_string(),
                what: "the length of the text".to_owned(),
                found: format!("{} tokens", tokens.len()),
                remedy: format!("use a part of at most {} tokens", u32::MAX),
            });
        }
        let order = suffixes::sort(&tokens, |done| report(&format!("sorting {name}"), done));
        let sorted = SortedText { tokens, order };
        let mut notice = None;
        if let Some((cache, file)) = file {
            match cache::write(cache, &file, &key, &sorted) {
                Ok(()) => {
                    if let Some(mapped) = MappedText::open(&file, &key) {
                        return Ok(Self { store: Box::new(mapped), name, notice });
                    }
                }
                Err(error) => {
                    notice = Some(format!(
                        "cannot write {}: {error}; {name} is kept in memory and must be sorted \
                         again at the next start",
                        file.display()
                    ));
                }
            }
        }
        Ok(Self { store: Box::new(sorted), name, notice })
    }

    /// The folder of the cache, e.g. `~/.cache/dovetail/retrieval`; `None` without a home folder.
    pub fn cache_folder() -> Option<PathBuf> {
        cache_folder("retrieval")
    }

    /// The file's name, for the screen.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A notice for the user, returned only once.
    pub fn take_notice(&mut self) -> Option<String> {
        self.notice.take()
    }

    /// The sorted text.
    pub fn into_suffixes(self) -> Box<dyn Suffixes> {
        self.store
    }
}

#[cfg(test)]
mod tests;
