//! Packed weights stored on the disk between starts: packing a model takes seconds, and reading
//! what was packed takes less. If anything is wrong with a stored file, the weights are packed as
//! usual and the file is written again: it decides how long a start takes, and never what the model
//! says.
//!
//! A start checks that the file was packed from the same source (path, size, time of change and
//! header of each of its files, and the model's configuration) by this version of the layout; the
//! checksum of every part of every matrix, as it is read; and that the first, middle and last rows
//! of every matrix equal what packing the source gives now.
//!
//! Matrices are read into separate memory instead of being used where the system maps them: a pass
//! over large pages is faster, and a file that disappears while it is in use does no harm.

mod file;
mod folder;

use std::cell::RefCell;
use std::path::PathBuf;

use super::checksum::checksum;
use crate::kernels::{Format, Matrix, Pool};
use crate::model::{Config, PackedStore, RawTensor, WeightSource};
use file::{PackedFile, PackedWriter};

/// Where packed weights are stored, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedCache {
    folder: PathBuf,
    most: u64,
}

impl PackedCache {
    /// At most `most` bytes in `folder`.
    pub fn at(folder: PathBuf, most: u64) -> Self {
        Self { folder, most }
    }

    /// At most `most` bytes in the user's cache folder; `None` if the system has no such folder.
    pub fn in_cache_folder(most: u64) -> Option<Self> {
        let dirs = crate::files::user_dirs()?;
        Some(Self::at(dirs.cache_dir().join("packed"), most))
    }
}

/// A source whose packed weights are stored.
pub struct PackedWeights<'a> {
    source: &'a dyn WeightSource,
    cache: &'a PackedCache,
    path: PathBuf,
    state: RefCell<State>,
}

enum State {
    /// They are read.
    Reading(Box<PackedFile>),
    /// They are written.
    Writing(PackedWriter),
    /// Neither, with a reason that the user should know, if there is one.
    Off(Option<String>),
}

impl<'a> PackedWeights<'a> {
    /// Stores what `source` packs to for a model of `config`, about `bytes`, in `cache`, or reads
    /// what was stored there. `None` if the source is not a file.
    pub fn new(
        source: &'a dyn WeightSource,
        config: &Config,
        bytes: u64,
        cache: &'a PackedCache,
    ) -> Option<Self> {
        // The configuration determines the order in which rows are packed.
        let key = format!("{}{config:?}", source.identity()?);
        let name = format!("{:016x}.{}", checksum(key.as_bytes()), folder::ENDING);
        let path = cache.folder.join(name);
        let state = match PackedFile::open(&path, &key) {
            Ok(file) => State::Reading(Box::new(file)),
            Err(useless) => {
                if path.exists() {
                    tracing::warn!(file = %path.display(), %useless, "packing the weights again");
                }
                let begun = folder::make_room(cache, bytes, &path)
                    .and_then(|()| PackedWriter::create(&path, &key));
                match begun {
                    Ok(writer) => State::Writing(writer),
                    Err(error) => State::Off(Some(not_kept(cache, &error))),
                }
            }
        };
        Some(Self { source, cache, path, state: RefCell::new(state) })
    }

    /// Whether they are read from the disk.
    pub fn reads(&self) -> bool {
        matches!(*self.state.borrow(), State::Reading(_))
    }

    /// Whether they are being stored for the next start.
    pub fn keeps(&self) -> bool {
        matches!(*self.state.borrow(), State::Writing(_))
    }

    /// Must be called once all weights have been packed or read. Returns why they could not be
    /// stored, if so.
    pub fn finish(self) -> Option<String> {
        match self.state.into_inner() {
            State::Reading(file) => {
                file.touch();
                None
            }
            State::Writing(writer) => {
                let kept = folder::make_room(self.cache, writer.bytes(), &self.path)
                    .and_then(|()| writer.finish());
                kept.err().map(|error| not_kept(self.cache, &error))
            }
            State::Off(reason) => reason,
        }
    }

    /// What was stored cannot be used; the next start writes it again.
    fn give_up(&self, name: &str, why: &str) {
        tracing::warn!(file = %self.path.display(), name, why, "deleting packed weights");
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(file = %self.path.display(), %error, "cannot delete them");
        }
        *self.state.borrow_mut() = State::Off(None);
    }
}

fn not_kept(cache: &PackedCache, error: &std::io::Error) -> String {
    format!(
        "Cannot store the packed weights in {}: {error}. The next start packs them again; free \
         some space there, or turn `pack_cache` off.",
        cache.folder.display()
    )
}

impl WeightSource for PackedWeights<'_> {
    fn describe(&self) -> String {
        self.source.describe()
    }

    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        self.source.tensor(name)
    }

    fn scale(&self, name: &str) -> f32 {
        self.source.scale(name)
    }

    fn release(&self, name: &str) {
        self.source.release(name);
    }

    fn packed(&self) -> Option<&dyn PackedStore> {
        Some(self)
    }

    fn identity(&self) -> Option<String> {
        self.source.identity()
    }
}

impl PackedStore for PackedWeights<'_> {
    fn get(&self, name: &str, format: Format, shape: [usize; 2], pool: &Pool) -> Option<Matrix> {
        let found = match &*self.state.borrow() {
            State::Reading(file) => file.matrix(name, format, shape, pool),
            State::Writing(_) | State::Off(_) => return None,
        };
        if found.is_none() {
            self.give_up(name, "it is damaged or missing");
        }
        found
    }

    fn put(&self, name: &str, matrix: &Matrix) {
        let mut state = self.state.borrow_mut();
        if let State::Writing(writer) = &mut *state
            && let Err(error) = writer.put(name, matrix)
        {
            *state = State::Off(Some(not_kept(self.cache, &error)));
        }
    }

    fn refuse(&self, name: &str) {
        self.give_up(name, "the model's file packs to different weights");
    }
}

#[cfg(test)]
mod tests;
