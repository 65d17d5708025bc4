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

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::files::{CHUNK, CacheFile, CacheWriter, Cached, CachedBytes, DiskCache, checksum};
use crate::kernels::{Format, LAYOUT_VERSION, Matrix, Pool};
use crate::model::{Config, PackedStore, WeightSource};

/// The packed weights in `folder`, at most `limit` bytes.
pub fn packed_cache(folder: PathBuf, limit: u64) -> DiskCache {
    DiskCache::new(folder, "packed").with_limit(limit, "pack_cache")
}

/// The matrices of a model, by name.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Matrices(HashMap<String, StoredMatrix>);

#[derive(Debug, Serialize, Deserialize)]
struct StoredMatrix {
    format: String,
    shape: [usize; 2],
    bytes: CachedBytes,
}

impl Cached for Matrices {
    /// The layout of the bytes is the kernels' own.
    const VERSION: u32 = (1 << 16) + LAYOUT_VERSION;
}

// A matrix is read in parts that are checked by themselves.
const _: () = assert!(Matrix::PART == CHUNK);

/// A source whose packed weights are stored.
pub struct PackedWeights<'a> {
    source: &'a dyn WeightSource,
    cache: &'a DiskCache,
    path: PathBuf,
    /// Says what they were packed from.
    key: String,
    state: RefCell<State>,
}

enum State {
    /// They are read.
    Reading(Box<CacheFile<Matrices>>),
    /// They are written.
    Writing(CacheWriter, Matrices),
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
        cache: &'a DiskCache,
    ) -> Option<Self> {
        // The configuration determines the order in which rows are packed.
        let key = format!("{}{config:?}", source.identity()?);
        let path = cache.path(&format!("{:016x}", checksum(key.as_bytes())));
        let state = match CacheFile::open(&path, &key) {
            Some(file) => State::Reading(Box::new(file)),
            None => match cache.create(&path, bytes) {
                Ok(writer) => State::Writing(writer, Matrices::default()),
                Err(error) => State::Off(Some(not_stored(cache, &error))),
            },
        };
        Some(Self { source, cache, path, key, state: RefCell::new(state) })
    }

    /// Whether they are read from the disk.
    pub fn reads(&self) -> bool {
        matches!(*self.state.borrow(), State::Reading(_))
    }

    /// Whether they are being stored for the next start.
    pub fn keeps(&self) -> bool {
        matches!(*self.state.borrow(), State::Writing(..))
    }

    /// Must be called once all weights have been packed or read. Returns why they could not be
    /// stored, if so.
    pub fn finish(self) -> Option<String> {
        match self.state.into_inner() {
            State::Reading(file) => {
                file.touch();
                None
            }
            State::Writing(writer, matrices) => {
                let stored = writer.finish(&self.key, matrices);
                stored.err().map(|error| not_stored(self.cache, &error))
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

fn not_stored(cache: &DiskCache, error: &io::Error) -> String {
    format!(
        "Cannot store the packed weights in {}: {error}. The next start packs them again; free \
         some space there, or turn `pack_cache` off.",
        cache.folder.display()
    )
}

impl WeightSource for PackedWeights<'_> {
    fn inner(&self) -> Option<&dyn WeightSource> {
        Some(self.source)
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
        let state = self.state.borrow();
        let State::Reading(file) = &*state else { return None };
        let stored = file.index.0.get(name);
        let stored = stored.filter(|it| it.format == format.name() && it.shape == shape);
        let found = stored.and_then(|stored| {
            let read = |at, part: &mut [u8]| file.read_chunk(&stored.bytes, at, part);
            let repacked = self.source.repacks();
            Matrix::from_packed(format, shape[0], shape[1], repacked, pool, read)
        });
        drop(state);
        if found.is_none() {
            self.give_up(name, "it is damaged or missing");
        }
        found
    }

    fn put(&self, name: &str, matrix: &Matrix) {
        let mut state = self.state.borrow_mut();
        let State::Writing(writer, matrices) = &mut *state else { return };
        match writer.put(matrix.packed().chunks(CHUNK).map(Ok)) {
            Ok(bytes) => {
                let format = matrix.format().name().to_owned();
                let shape = [matrix.outputs(), matrix.inputs()];
                matrices.0.insert(name.to_owned(), StoredMatrix { format, shape, bytes });
            }
            Err(error) => *state = State::Off(Some(not_stored(self.cache, &error))),
        }
    }

    fn refuse(&self, name: &str) {
        self.give_up(name, "the model's file packs to different weights");
    }
}

#[cfg(test)]
mod tests;
