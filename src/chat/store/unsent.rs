//! The message that was being written when the program was closed before any question: no
//! conversation exists yet that could hold it. It must not depend on what it contains.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use super::{LONGEST, SessionStore};
use crate::files::{Access, atomic_write, private_folder, read_text};

/// Between the messages of several windows.
const BETWEEN: &str = "\n\n";

impl SessionStore {
    fn unsent_file(&self) -> PathBuf {
        self.folder.join("unsent.txt")
    }

    /// The unsent message, if there is one.
    pub fn unsent(&self) -> Option<String> {
        let text = read_text(&self.unsent_file(), LONGEST).ok()?;
        (!text.trim().is_empty()).then_some(text)
    }

    /// Stores `text`, or nothing, instead of `found`, which [`Self::unsent`] returned. What another
    /// program has stored there in the meantime stays, before it.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_unsent(&self, found: Option<&str>, text: Option<&str>) -> io::Result<()> {
        if found.is_none() && text.is_none() {
            return Ok(());
        }
        private_folder(&self.folder)?;
        // Held until the file is written; without the lock, another program's text may be
        // overlooked.
        let _lock = self.lock();
        let theirs = self.unsent().and_then(|there| {
            let Some(found) = found else { return Some(there) };
            // Other windows keep theirs in the same file, before or after ours.
            let before = there.strip_suffix(found).map(|rest| rest.strip_suffix(BETWEEN));
            let after = there.strip_prefix(found).map(|rest| rest.strip_prefix(BETWEEN));
            match before.flatten().or(after.flatten()) {
                Some(rest) => Some(rest.to_owned()),
                None => (there != found).then_some(there),
            }
        });
        let all: Vec<&str> = theirs.as_deref().into_iter().chain(text).collect();
        let path = self.unsent_file();
        if all.is_empty() {
            return fs::remove_file(path).or_else(|error| match error.kind() {
                ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            });
        }
        atomic_write(&path, Access::Private, |file| file.write_all(all.join(BETWEEN).as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_is_there_until_it_is_taken_and_no_window_loses_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = SessionStore::at(folder.path().join("sessions"));
        assert_eq!(store.unsent(), None);
        store.keep_unsent(None, None).unwrap();
        assert!(!store.folder().exists(), "nothing is made for nothing");
        store.keep_unsent(None, Some("one\n  two")).unwrap();
        assert_eq!(store.unsent().as_deref(), Some("one\n  two"));
        // A window that has not seen it leaves it there, and one that writes adds to it.
        store.keep_unsent(None, None).unwrap();
        store.keep_unsent(None, Some("three")).unwrap();
        assert_eq!(store.unsent().as_deref(), Some("one\n  two\n\nthree"));
        assert!(store.list().unwrap().sessions.is_empty() && store.is_untouched());
        // The window that took it has continued or sent it.
        let found = store.unsent();
        store.keep_unsent(found.as_deref(), Some("one, changed")).unwrap();
        assert_eq!(store.unsent().as_deref(), Some("one, changed"));
        store.keep_unsent(Some("one, changed"), None).unwrap();
        assert_eq!(store.unsent(), None);
    }

    #[test]
    fn two_windows_that_write_at_once_keep_one_text_each() {
        let folder = tempfile::tempdir().unwrap();
        let store = SessionStore::at(folder.path());
        let [mut one, mut two] = [None, None];
        for text in ["a", "ab", "abc"] {
            store.keep_unsent(one.as_deref(), Some(text)).unwrap();
            one = Some(text.to_owned());
            let text = text.to_uppercase();
            store.keep_unsent(two.as_deref(), Some(&text)).unwrap();
            two = Some(text);
        }
        assert_eq!(store.unsent().as_deref(), Some("abc\n\nABC"));
        store.keep_unsent(one.as_deref(), None).unwrap();
        assert_eq!(store.unsent(), two);
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let store = SessionStore::at(folder.path());
        store.keep_unsent(None, Some("a secret")).unwrap();
        store.remember(SessionStore::ANSWERED, "").unwrap();
        for path in [store.unsent_file(), store.folder().join(SessionStore::ANSWERED)] {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
    }
}
