//! The folder of a training: the head on top, and what is needed to resume in `work/`. It checks
//! whether the folder may be written to, and whether the disk has room.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::state::TrainState;
use crate::files::{private_folder, read_regular, read_text};
use crate::printable::bytes;
use crate::train::files::whole;
use crate::train::{Result, TrainError};

const WORK: &str = "work";
const STATE: &str = "run.json";
const BEST: &str = "best";
/// The files of a head; the last one makes it complete.
const HEAD_FILES: [&str; 2] = ["model.safetensors", "config.json"];

/// The run directory of a training.
#[derive(Clone, Debug)]
pub struct RunDir {
    /// Where the head goes.
    pub(super) out: PathBuf,
}

impl RunDir {
    /// A new training's folder, which must not exist yet or must be empty.
    ///
    /// # Errors
    /// [`TrainError::Unfinished`] and [`TrainError::Occupied`] if something is in it.
    pub fn begin(out: &Path) -> Result<Self> {
        let dir = Self { out: out.to_owned() };
        if dir.file(STATE).exists() {
            return Err(TrainError::Unfinished(dir.out));
        }
        let ours = match fs::read_dir(out) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if !ours {
            return Err(TrainError::Occupied(dir.out));
        }
        let work = dir.work();
        private_folder(&work).map_err(|source| TrainError::write(&work, source))?;
        Ok(dir)
    }

    /// The folder of a training to resume, and its state.
    ///
    /// # Errors
    /// [`TrainError::Nothing`] if there is none, [`TrainError::Failed`] if its state cannot be
    /// read.
    pub fn resume(out: &Path) -> Result<(Self, TrainState)> {
        let dir = Self { out: out.to_owned() };
        let path = dir.file(STATE);
        if !path.exists() {
            return Err(TrainError::Nothing(dir.out));
        }
        let text = read_text(&path, u64::MAX).map_err(|source| TrainError::read(&path, source))?;
        let state = serde_json::from_str(&text).map_err(|error| unusable(&path, error))?;
        Ok((dir, state))
    }

    /// Where the work files are.
    pub fn work(&self) -> PathBuf {
        self.out.join(WORK)
    }

    /// Where the best head so far is.
    pub fn best(&self) -> PathBuf {
        self.file(BEST)
    }

    /// Makes the best head so far the result.
    ///
    /// # Errors
    /// [`TrainError::Failed`].
    pub(crate) fn take_best(&self) -> Result<()> {
        for name in HEAD_FILES {
            let from = self.best().join(name);
            let to = self.out.join(name);
            let bytes =
                read_regular(&from, u64::MAX).map_err(|source| TrainError::read(&from, source))?;
            whole(&to, |file| file.write_all(&bytes))?;
        }
        Ok(())
    }

    /// A file in the work folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    /// Writes the state.
    ///
    /// # Errors
    /// [`TrainError::Failed`]; the previous state stays.
    pub fn save(&self, state: &TrainState) -> Result<()> {
        let path = self.file(STATE);
        let text = serde_json::to_vec_pretty(state).map_err(|error| unusable(&path, error))?;
        whole(&path, |file| file.write_all(&text))
    }

    /// Refuses what does not fit on the disk.
    ///
    /// # Errors
    /// [`TrainError::Failed`] with both figures.
    pub fn need(&self, bytes: u64) -> Result<()> {
        self.fits(bytes, free(&self.work()))
    }

    fn fits(&self, needed: u64, free: Option<u64>) -> Result<()> {
        match free {
            Some(free) if free < needed => Err(TrainError::Failed(format!(
                "{} needs {} of disk space, but only {} is free; use fewer chats (--limit), a \
                 shorter --window or an --out on a larger disk, or free some space and continue \
                 with --resume",
                self.out.display(),
                bytes(needed),
                bytes(free)
            ))),
            _ => Ok(()),
        }
    }

    /// Removes the work folder of a finished training.
    ///
    /// # Errors
    /// [`TrainError::Failed`].
    pub fn clear(&self) -> Result<()> {
        let work = self.work();
        fs::remove_dir_all(&work).map_err(|source| TrainError::write(&work, source))
    }
}

fn unusable(path: &Path, error: serde_json::Error) -> TrainError {
    TrainError::file("use", path, error, "; start over with another --out")
}

/// Bytes available to us on the disk of `folder`; `None` if the system does not say.
fn free(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let disk = rustix::fs::statvfs(folder).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_new_or_an_empty_folder_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a/head");
        let dir = RunDir::begin(&out).unwrap();
        assert!(dir.work().is_dir());
        assert!(matches!(RunDir::resume(&out), Err(TrainError::Nothing(_))));
        // It was interrupted before the first state was written, so the folder is not empty.
        assert!(matches!(RunDir::begin(&out), Err(TrainError::Occupied(_))));
        dir.clear().unwrap();
        RunDir::begin(&out).unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(matches!(RunDir::begin(&file), Err(TrainError::Occupied(_))));
    }

    #[test]
    fn a_damaged_state_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::begin(folder.path()).unwrap();
        fs::write(dir.file(STATE), "{\"recipe\":").unwrap();
        let error = RunDir::resume(folder.path()).unwrap_err().to_string();
        assert!(error.contains("run.json") && error.contains("EOF"), "{error}");
        assert!(matches!(RunDir::begin(folder.path()), Err(TrainError::Unfinished(_))));
    }

    #[test]
    fn a_disk_without_room_is_refused_beforehand() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::begin(folder.path()).unwrap();
        assert!(free(folder.path()).is_none_or(|free| free > 0));
        dir.fits(100, Some(100)).unwrap();
        dir.fits(100, None).unwrap();
        let error = dir.fits(5_000_000_000, Some(1_200_000_000)).unwrap_err().to_string();
        assert!(error.contains("5.0 GB") && error.contains("1.2 GB"), "{error}");
        assert!(error.contains("--limit"), "{error}");
    }
}
