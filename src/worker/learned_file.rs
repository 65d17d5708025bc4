//! What `auto` has learned, kept in a small file for each model on this machine: read when the
//! models are loaded, written after each answer. A file that is damaged, of other models or of an
//! older version is as good as none. Must never know what was learned.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::{Access, FNV_START, atomic_write, fnv1a, read_text, user_dirs};
use crate::plan::Learned;

/// Changes with everything that makes old files misleading.
const VERSION: u32 = 2;
/// No such file is larger.
const MOST_BYTES: u64 = 1 << 16;

/// The file of one set of models.
#[derive(Clone, Debug)]
pub(super) struct LearnedFile {
    path: PathBuf,
    /// Everything that what was learned holds for.
    of: String,
    /// What the file holds, as far as we know.
    written: Option<Learned>,
}

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    of: String,
    learned: Learned,
}

impl LearnedFile {
    /// The file in `folder` for what `of` describes: machine, target and drafters.
    pub(super) fn new(folder: &Path, of: String) -> Self {
        let path = folder.join(format!("{:016x}.json", fnv1a(FNV_START, of.bytes())));
        Self { path, of, written: None }
    }

    /// What it holds, if that is of use.
    pub(super) fn read(&mut self) -> Option<Learned> {
        let text = read_text(&self.path, MOST_BYTES).ok()?;
        let found: Option<Content> = serde_json::from_str(&text).ok();
        let ours = found.filter(|content| {
            content.version == VERSION && content.of == self.of && content.learned.is_sound()
        });
        if ours.is_none() {
            tracing::warn!(file = %self.path.display(), "what was learned is not usable: left");
        }
        self.written = ours.map(|content| content.learned);
        self.written.clone()
    }

    /// Keeps `learned`. A file that cannot be written is left: no answer depends on it.
    pub(super) fn write(&mut self, learned: Learned) {
        if self.written.as_ref() == Some(&learned) || !learned.is_sound() {
            return;
        }
        let content = Content { version: VERSION, of: self.of.clone(), learned };
        let written = self.path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            let text = serde_json::to_string(&content)?;
            atomic_write(&self.path, Access::Private, |file| file.write_all(text.as_bytes()))
        });
        if let Err(error) = written {
            tracing::warn!(file = %self.path.display(), "what was learned is not kept: {error}");
        }
        self.written = Some(content.learned);
    }
}

/// The folder of such files, e.g. `~/.cache/dovetail/learned`; none without a home.
pub fn learned_folder() -> Option<PathBuf> {
    let dirs = user_dirs()?;
    Some(dirs.cache_dir().join("learned"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Learned;

    fn learned(tokens: f64) -> Learned {
        let text = format!(
            r#"{{"context":{{"tokens":{tokens},"plain_rounds":1.0}},"arms":[{{"kind":"head",
            "round":{{"tokens":2.0,"plain_rounds":5.5}},"read":0.01}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_was_written_is_read_by_the_same_models_alone() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("learned");
        let mut file = LearnedFile::new(&inside, "a target".to_owned());
        assert_eq!(file.read(), None);
        file.write(learned(1.5));
        let again = |of: &str| LearnedFile::new(&inside, of.to_owned()).read();
        assert_eq!(again("a target"), Some(learned(1.5)));
        assert_eq!(again("another"), None);
        file.write(learned(2.5));
        assert_eq!(again("a target"), Some(learned(2.5)));
        // A file of other models under this name: two that have one hash.
        let mut other = LearnedFile::new(&inside, "another".to_owned());
        fs::copy(&file.path, &other.path).unwrap();
        assert_eq!(other.read(), None);
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = LearnedFile::new(folder.path(), "a target".to_owned());
        file.write(learned(1.5));
        let whole = fs::read_to_string(&file.path).unwrap();
        let half = &whole[..whole.len() / 2];
        let older = whole.replace(&format!(r#""version":{VERSION}"#), r#""version":1"#);
        let absurd = whole.replace("5.5", "-5.5");
        let huge = " ".repeat(MOST_BYTES as usize + 1) + &whole;
        for damaged in ["", "null", "\u{0}\u{0}", half, &older, &absurd, &huge] {
            fs::write(&file.path, damaged).unwrap();
            let mut again = LearnedFile::new(folder.path(), "a target".to_owned());
            assert_eq!(again.read(), None, "{damaged:.40}");
            again.write(learned(3.0));
            assert_eq!(again.read(), Some(learned(3.0)));
        }
        // A place that cannot be written to is no failure.
        let mut nowhere = LearnedFile::new(&file.path.join("below"), "a target".to_owned());
        nowhere.write(learned(1.5));
        assert_eq!(LearnedFile::new(&file.path.join("below"), "a target".to_owned()).read(), None);
    }
}
