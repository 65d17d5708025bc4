//! The file of one model's packed weights: a head, the matrices, and an index of them with
//! checksums of every part. It must not depend on which file belongs to what, or on how matrices
//! are packed.
//!
//! The head is six little-endian u64 words and their checksum: magic, version of this file and of
//! the packed layout, a word in the byte order of the machine (the layout is in it too), and the
//! place, length and checksum of the index. Matrices begin at multiples of [`ALIGNMENT`]. The head
//! is written last.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files::{Access, GrowingFile};
use crate::kernels::{Format, LAYOUT_VERSION, Matrix, Pool};
use crate::library::checksum::checksum;

/// `dovepack` in ASCII.
const MAGIC: u64 = u64::from_le_bytes(*b"dovepack");
/// The version of this file without the layout of the matrices; together with that layout's version
/// it makes files of other versions useless.
const VERSION: u64 = 1;
const WORDS: usize = 6;
const HEAD: usize = 8 * (WORDS + 1);
/// A page, which is what systems read at once.
const ALIGNMENT: u64 = 4096;
/// Far above the index of any model (about 1 MB for 100 GB).
const LONGEST_INDEX: u64 = 256 << 20;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    /// What the weights were packed from.
    source: String,
    matrices: HashMap<String, Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    format: String,
    shape: [usize; 2],
    /// Where the matrix begins.
    at: u64,
    /// The checksum of each part of [`Matrix::PART`] bytes.
    parts: Vec<u64>,
}

/// A file that can be read.
#[derive(Debug)]
pub(super) struct PackedFile {
    file: File,
    index: Index,
}

/// Why a file cannot be used. None of these is an error for a user.
#[derive(Debug, thiserror::Error)]
pub(super) enum Useless {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    #[error("it has another version")]
    Version,
    #[error("it was packed from another file, or the file has changed since then")]
    Foreign,
}

impl PackedFile {
    /// Opens the file at `path` if it was packed from `source`. Its matrices are checked when they
    /// are read.
    pub(super) fn open(path: &Path, source: &str) -> Result<Self, Useless> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut bytes = [0; HEAD];
        file.read_exact(&mut bytes)?;
        let mut words = [0; WORDS + 1];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [magic, version, order, at, size, sum, own] = words;
        if magic != MAGIC || own != checksum(&bytes[..8 * WORDS]) {
            return Err(Useless::Damaged("its header"));
        }
        if (version, order) != (version_word(), order_word()) {
            return Err(Useless::Version);
        }
        if size > LONGEST_INDEX || at.checked_add(size).is_none_or(|end| end > length) {
            return Err(Useless::Damaged("it is truncated"));
        }
        file.seek(SeekFrom::Start(at))?;
        let mut index = Vec::new();
        BufReader::new(&file).take(size).read_to_end(&mut index)?;
        if checksum(&index) != sum {
            return Err(Useless::Damaged("its index"));
        }
        let index: Index =
            serde_json::from_slice(&index).map_err(|_| Useless::Damaged("its index"))?;
        if index.source != source {
            return Err(Useless::Foreign);
        }
        Ok(Self { file, index })
    }

    /// The matrix `name`, if it exists, has this format and shape, and is undamaged.
    pub(super) fn matrix(
        &self,
        name: &str,
        format: Format,
        shape: [usize; 2],
        pool: &Pool,
    ) -> Option<Matrix> {
        let entry = self.index.matrices.get(name)?;
        if entry.format != format.name() || entry.shape != shape {
            return None;
        }
        Matrix::from_packed(format, shape[0], shape[1], pool, |at, part| {
            let place = entry.at.checked_add(at as u64);
            let expected = entry.parts.get(at / Matrix::PART);
            place.is_some_and(|place| read_at(&self.file, place, part).is_ok())
                && expected == Some(&checksum(part))
        })
    }

    /// Notes that it was used now.
    pub(super) fn touch(&self) {
        // At worst it is removed sooner.
        let _ = self.file.set_modified(std::time::SystemTime::now());
    }
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct PackedWriter {
    file: GrowingFile,
    at: u64,
    index: Index,
}

impl PackedWriter {
    /// Starts the file that will be at `path`, for weights packed from `source`.
    pub(super) fn create(path: &Path, source: &str) -> io::Result<Self> {
        let file = GrowingFile::create(path, Access::Private)?;
        let index = Index { source: source.to_owned(), ..Index::default() };
        Ok(Self { file, at: ALIGNMENT, index })
    }

    /// A file that accepts no bytes.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn on_full_disk(path: &Path) -> io::Result<Self> {
        let file = GrowingFile::on_full_disk(path)?;
        Ok(Self { file, at: ALIGNMENT, index: Index::default() })
    }

    /// Writes a matrix.
    pub(super) fn put(&mut self, name: &str, matrix: &Matrix) -> io::Result<()> {
        let bytes = matrix.packed();
        let at = self.at;
        self.file.file().seek(SeekFrom::Start(at))?;
        self.file.file().write_all(bytes)?;
        self.at = (at + bytes.len() as u64).next_multiple_of(ALIGNMENT);
        let entry = Entry {
            format: matrix.format().name().to_owned(),
            shape: [matrix.outputs(), matrix.inputs()],
            at,
            parts: bytes.chunks(Matrix::PART).map(checksum).collect(),
        };
        self.index.matrices.insert(name.to_owned(), entry);
        Ok(())
    }

    /// Bytes so far.
    pub(super) fn bytes(&self) -> u64 {
        self.at
    }

    /// Writes index and head, and gives the file its name.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let index = serde_json::to_vec(&self.index)?;
        let sum = checksum(&index);
        let words = [MAGIC, version_word(), order_word(), self.at, index.len() as u64, sum];
        let mut head: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        head.extend(checksum(&head).to_le_bytes());
        let file = self.file.file();
        file.seek(SeekFrom::Start(self.at))?;
        file.write_all(&index)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&head)?;
        self.file.finish()
    }
}

fn version_word() -> u64 {
    VERSION << 32 | u64::from(LAYOUT_VERSION)
}

/// The same bytes give another number on a machine with the other byte order.
fn order_word() -> u64 {
    u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8])
}

/// Fills `to` from `place` on; several threads may call it at once.
#[cfg(unix)]
fn read_at(file: &File, place: u64, to: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, to, place)
}

/// Fills `to` from `place` on; several threads may call it at once.
#[cfg(windows)]
fn read_at(file: &File, mut place: u64, mut to: &mut [u8]) -> io::Result<()> {
    while !to.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, to, place)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => (place, to) = (place + n as u64, &mut to[n..]),
        }
    }
    Ok(())
}
