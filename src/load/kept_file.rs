//! What was learned or measured about a model on this machine, stored in a small file for the next
//! start: read when the models are loaded, written when there is something new. A file that is
//! damaged, belongs to other models or has an older version is ignored. It must not depend on the
//! contents.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::files::{Access, FNV_START, atomic_write, fnv1a, read_text, user_dirs};
use crate::plan::{DeviceTimes, Learned};

/// The largest size of such a file.
const MOST_BYTES: u64 = 1 << 16;

/// What can be stored.
pub(crate) trait Kept: Serialize + DeserializeOwned + Clone + PartialEq {
    /// Changes whenever old files would become misleading.
    const VERSION: u32;
    /// Whether the values are possible: a file may contain anything.
    fn is_sound(&self) -> bool;
}

impl Kept for Learned {
    const VERSION: u32 = 4;

    fn is_sound(&self) -> bool {
        Self::is_sound(self)
    }
}

impl Kept for DeviceTimes {
    const VERSION: u32 = 1;

    fn is_sound(&self) -> bool {
        Self::is_sound(self)
    }
}

/// The file of one set of models.
#[derive(Clone, Debug)]
pub(crate) struct KeptFile<T> {
    path: PathBuf,
    /// Describes what the file is valid for.
    of: String,
    /// What the file contains, as far as we know.
    written: Option<T>,
}

#[derive(Serialize, Deserialize)]
struct Content<T> {
    version: u32,
    of: String,
    kept: T,
}

impl<T: Kept> KeptFile<T> {
    /// The file in `folder` for what `of` describes: machine and models.
    pub(crate) fn new(folder: &Path, of: String) -> Self {
        let path = folder.join(format!("{:016x}.json", fnv1a(FNV_START, of.bytes())));
        Self { path, of, written: None }
    }

    /// Its contents, if they can be used.
    pub(crate) fn read(&mut self) -> Option<T> {
        let text = read_text(&self.path, MOST_BYTES).ok()?;
        let found: Option<Content<T>> = serde_json::from_str(&text).ok();
        let ours = found.filter(|content| {
            content.version == T::VERSION && content.of == self.of && content.kept.is_sound()
        });
        if ours.is_none() {
            tracing::warn!(file = %self.path.display(), "ignoring an unusable cache file");
        }
        self.written = ours.map(|content| content.kept);
        self.written.clone()
    }

    /// Stores `new`. If the file cannot be written, this is ignored: no answer depends on it.
    pub(crate) fn write(&mut self, new: T) {
        if self.written.as_ref() == Some(&new) || !new.is_sound() {
            return;
        }
        let content = Content { version: T::VERSION, of: self.of.clone(), kept: new };
        let written = self.path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            let text = serde_json::to_string(&content)?;
            atomic_write(&self.path, Access::Private, |file| file.write_all(text.as_bytes()))
        });
        if let Err(error) = written {
            tracing::warn!(file = %self.path.display(), "cannot write a cache file: {error}");
        }
        self.written = Some(content.kept);
    }
}

/// The folder for such files, e.g. `~/.cache/dovetail/learned`; `None` without a home folder.
pub fn learned_folder() -> Option<PathBuf> {
    let dirs = user_dirs()?;
    Some(dirs.cache_dir().join("learned"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(tokens: f64) -> Learned {
        let text = format!(
            r#"{{"context":{{"tokens":{tokens},"plain_rounds":1.0,"seen":9.0}},"credit":1.0,
            "arms":[{{"kind":"head",
            "round":{{"tokens":2.0,"plain_rounds":5.5,"seen":9.0}},"read":0.01,"since":3}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_was_written_is_read_by_the_same_models_alone() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("learned");
        let mut file = KeptFile::<Learned>::new(&inside, "a target".to_owned());
        assert_eq!(file.read(), None);
        file.write(learned(1.5));
        let again = |of: &str| KeptFile::<Learned>::new(&inside, of.to_owned()).read();
        assert_eq!(again("a target"), Some(learned(1.5)));
        assert_eq!(again("another"), None);
        file.write(learned(2.5));
        assert_eq!(again("a target"), Some(learned(2.5)));
        // A file of other models under this name, because both have the same hash.
        let mut other = KeptFile::<Learned>::new(&inside, "another".to_owned());
        fs::copy(&file.path, &other.path).unwrap();
        assert_eq!(other.read(), None);
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = KeptFile::<Learned>::new(folder.path(), "a target".to_owned());
        file.write(learned(1.5));
        let whole = fs::read_to_string(&file.path).unwrap();
        let half = &whole[..whole.len() / 2];
        let older = whole.replace(&format!(r#""version":{}"#, Learned::VERSION), r#""version":1"#);
        let absurd = whole.replace("5.5", "-5.5");
        let huge = " ".repeat(MOST_BYTES as usize + 1) + &whole;
        for damaged in ["", "null", "\u{0}\u{0}", half, &older, &absurd, &huge] {
            fs::write(&file.path, damaged).unwrap();
            let mut again = KeptFile::<Learned>::new(folder.path(), "a target".to_owned());
            assert_eq!(again.read(), None, "{damaged:.40}");
            again.write(learned(3.0));
            assert_eq!(again.read(), Some(learned(3.0)));
        }
        // A place that cannot be written to is not a failure.
        let mut nowhere = KeptFile::<Learned>::new(&file.path.join("below"), "a target".to_owned());
        nowhere.write(learned(1.5));
        assert_eq!(
            KeptFile::<Learned>::new(&file.path.join("below"), "a target".to_owned()).read(),
            None
        );
    }
}
