//! Deleted conversations: kept for a week in a separate folder, from which they can be restored. It
//! must not depend on what they contain.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use super::SessionStore;
use crate::chat::{SessionError, clock};
use crate::files::{paths_in, private_folder};

/// For how many seconds a deleted conversation is kept.
const KEPT: u64 = 7 * 86_400;

impl SessionStore {
    fn deleted(&self) -> PathBuf {
        self.folder.join("deleted")
    }

    /// Deletes the session of this name; [`Self::restore`] can bring it back for a week.
    ///
    /// # Errors
    /// [`SessionError`]; the session is then still in its place.
    pub fn delete(&self, name: &str) -> Result<(), SessionError> {
        let path = self.path(name)?;
        let folder = self.deleted();
        let to = folder.join(format!("{}-{name}.json", clock::now()));
        private_folder(&folder)
            .and_then(|()| fs::rename(&path, to))
            .map_err(|source| SessionError::Read { path, source })
    }

    /// Restores the most recently deleted session of this name.
    ///
    /// # Errors
    /// [`SessionError`] if there is none, or if its place is taken.
    pub fn restore(&self, name: &str) -> Result<(), SessionError> {
        let path = self.path(name)?;
        let failed = |source| SessionError::Read { path: path.clone(), source };
        let mut found = self.deleted_files().map_err(failed)?;
        found.retain(|(_, id, _)| id == name);
        let Some((.., file)) = found.into_iter().max_by_key(|(time, ..)| *time) else {
            return Err(SessionError::Name(name.to_owned()));
        };
        if path.exists() {
            return Err(failed(io::Error::from(ErrorKind::AlreadyExists)));
        }
        fs::rename(file, &path).map_err(failed)
    }

    /// Restores the session that was deleted last, in this run or an earlier one; `false` if none
    /// was.
    ///
    /// # Errors
    /// As [`Self::restore`].
    pub fn restore_last(&self) -> Result<bool, SessionError> {
        let found = self.deleted_files();
        let found = found.map_err(|source| SessionError::Read { path: self.deleted(), source })?;
        let last = found.into_iter().max_by_key(|(time, ..)| *time);
        last.map_or(Ok(false), |(_, name, _)| self.restore(&name).map(|()| true))
    }

    /// Removes what was deleted more than a week ago.
    pub(super) fn clean_deleted(&self) {
        let now = clock::now();
        for (time, _, file) in self.deleted_files().unwrap_or_default() {
            if now.saturating_sub(time) > KEPT
                && let Err(error) = fs::remove_file(&file)
            {
                tracing::warn!("cannot remove {}: {error}", file.display());
            }
        }
    }

    /// Deleted files: time of deletion, name of the session, path.
    fn deleted_files(&self) -> io::Result<Vec<(u64, String, PathBuf)>> {
        let mut files = Vec::new();
        for path in paths_in(&self.deleted())? {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if let Some((time, id)) = name.split_once('-')
                && let Ok(time) = time.parse()
            {
                files.push((time, id.to_owned(), path));
            }
        }
        Ok(files)
    }
}
