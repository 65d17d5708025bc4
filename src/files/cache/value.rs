//! A small value that was learned or measured, in a file for the next start: written when there is
//! something new. It must not depend on the value.

use std::hash::Hasher;
use std::io::Write;
use std::path::{Path, PathBuf};

use fnv::FnvHasher;

use super::{CacheIndex, Cached};
use crate::files::{Access, atomic_write, private_folder, read_regular};

/// The largest size of such a file.
const MOST_BYTES: u64 = 1 << 16;

/// The file of a value.
#[derive(Clone, Debug)]
pub struct CachedValue<T> {
    path: PathBuf,
    key: String,
    /// What the file contains, as far as we know.
    written: Option<T>,
}

impl<T: Cached + Clone + PartialEq> CachedValue<T> {
    /// The file in `folder` for `key`.
    pub fn new(folder: &Path, key: String) -> Self {
        // What earlier versions learned is found by this name.
        let mut name = FnvHasher::default();
        name.write(key.as_bytes());
        let path = folder.join(format!("{:016x}.json", name.finish()));
        Self { path, key, written: None }
    }

    /// Its contents, if they can be used.
    pub fn read(&mut self) -> Option<T> {
        let text = read_regular(&self.path, MOST_BYTES).ok()?;
        let found = CacheIndex::parse(&text, &self.key);
        if let Err(why) = &found {
            tracing::warn!(file = %self.path.display(), %why, "ignoring a cache file");
        }
        self.written = found.ok();
        self.written.clone()
    }

    /// Stores `new`. If the file cannot be written, this is ignored: no answer depends on it.
    pub fn write(&mut self, new: T) {
        if self.written.as_ref() == Some(&new) || !new.is_sound() {
            return;
        }
        let index = CacheIndex::new(&self.key, new);
        let written = self.path.parent().map_or(Ok(()), private_folder).and_then(|()| {
            let text = serde_json::to_vec(&index)?;
            atomic_write(&self.path, Access::Private, |file| file.write_all(&text))
        });
        if let Err(error) = written {
            tracing::warn!(file = %self.path.display(), "cannot write a cache file: {error}");
        }
        self.written = Some(index.value);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Value {
        tokens: f64,
    }

    impl Cached for Value {
        const VERSION: u32 = 4;

        fn is_sound(&self) -> bool {
            self.tokens > 0.0
        }
    }

    fn learned(tokens: f64) -> Value {
        Value { tokens }
    }

    fn file(folder: &Path, of: &str) -> CachedValue<Value> {
        CachedValue::new(folder, of.to_owned())
    }

    #[test]
    fn what_was_written_is_read_by_the_same_models_alone() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("learned");
        let mut first = file(&inside, "a target");
        assert_eq!(first.read(), None);
        first.write(learned(1.5));
        let again = |of: &str| file(&inside, of).read();
        assert_eq!(again("a target"), Some(learned(1.5)));
        assert_eq!(again("another"), None);
        first.write(learned(2.5));
        assert_eq!(again("a target"), Some(learned(2.5)));
        // A file of other models under this name, because both have the same hash.
        let mut other = file(&inside, "another");
        fs::copy(&first.path, &other.path).unwrap();
        assert_eq!(other.read(), None);
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = file(folder.path(), "a target");
        first.write(learned(5.5));
        let whole = fs::read_to_string(&first.path).unwrap();
        let half = &whole[..whole.len() / 2];
        let older = whole.replace(r#""version":4"#, r#""version":1"#);
        let absurd = whole.replace("5.5", "-5.5");
        assert!(older != whole && absurd != whole);
        let huge = " ".repeat(MOST_BYTES as usize + 1) + &whole;
        for damaged in ["", "null", "\u{0}\u{0}", half, &older, &absurd, &huge] {
            fs::write(&first.path, damaged).unwrap();
            let mut again = file(folder.path(), "a target");
            assert_eq!(again.read(), None, "{damaged:.40}");
            again.write(learned(3.0));
            assert_eq!(again.read(), Some(learned(3.0)));
        }
        // A place that cannot be written to is not a failure.
        let mut nowhere = file(&first.path.join("below"), "a target");
        nowhere.write(learned(1.5));
        assert_eq!(file(&first.path.join("below"), "a target").read(), None);
    }
}
