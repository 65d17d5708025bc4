//! Files of n-gram tables: written by `dovetail ngrams`, read for the model that they were made
//! for. It must not depend on how a table is made or what drafts from it.
//!
//! A file is a line of JSON ([`NgramHeader`]), then the table's parts, little endian: `[slots]`
//! checks of 4 bytes, `[slots, 4]` tokens of 2 or 4 bytes, `[slots, 4]` costs of 1 byte.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::blob::Blob;
use super::{LibraryError, Result, TargetFiles, bundled};
use crate::files::{Access, atomic_write, paths_in, user_dirs};
use crate::speculate::ngrams::{KEPT, NgramTable};

/// The beginning of the first line.
const KIND: &str = "dovetail n-grams 1";
/// Far longer than the line of any header.
const LONGEST_HEADER: usize = 4096;
/// Vocabularies up to this size have tokens of two bytes.
const NARROW: usize = 1 << 16;

/// What precedes a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NgramHeader {
    /// What the file is, and the version of its layout.
    kind: String,
    /// The model that it was made for.
    pub made_for: NgramOwner,
    /// From how many places in texts it was made.
    pub places: usize,
    /// How many slots the table has.
    slots: usize,
}

/// A model, identified by what all its files have in common, however they are quantised: a table
/// can be used with each of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NgramOwner {
    /// Its display name, which is not compared.
    pub name: String,
    /// H.
    pub hidden: usize,
    /// Blocks.
    pub layers: usize,
    /// V.
    pub vocab: usize,
    /// The hash of the vocabulary, hexadecimal.
    pub tokenizer: String,
}

impl NgramOwner {
    /// The owner of a table that is made with this target.
    pub fn of(files: &TargetFiles) -> Self {
        Self {
            name: files.name.clone(),
            hidden: files.config.hidden,
            layers: files.config.layers,
            vocab: files.config.vocab,
            tokenizer: files.tokenizer.vocabulary_hash(),
        }
    }
}

/// A table with its header and the name of its file.
#[derive(Debug)]
pub struct NgramFile {
    /// Its display name.
    pub name: String,
    /// What it is.
    pub header: NgramHeader,
    /// The table.
    pub table: NgramTable,
}

/// Writes a table, completely or not at all.
///
/// # Errors
/// If the file cannot be written.
pub fn write_ngrams(
    path: &Path,
    made_for: NgramOwner,
    places: usize,
    table: &NgramTable,
) -> io::Result<()> {
    let (checks, tokens, costs) = table.parts();
    let narrow = made_for.vocab <= NARROW;
    let header = NgramHeader { kind: KIND.to_owned(), made_for, places, slots: checks.len() };
    atomic_write(path, Access::Usual, |file| {
        let mut out = io::BufWriter::new(file);
        serde_json::to_writer(&mut out, &header)?;
        out.write_all(b"\n")?;
        checks.iter().try_for_each(|check| out.write_all(&check.to_le_bytes()))?;
        tokens.iter().try_for_each(|token| match u16::try_from(*token) {
            Ok(token) if narrow => out.write_all(&token.to_le_bytes()),
            _ => out.write_all(&token.to_le_bytes()),
        })?;
        out.write_all(costs)?;
        out.flush()
    })
}

/// The table in the file at `path`, which must have been made for `target`.
///
/// # Errors
/// [`LibraryError`] if it cannot be read, is damaged, or was made for another model.
pub fn open_ngrams(path: &Path, target: &TargetFiles) -> Result<NgramFile> {
    let blob = Blob::open(path)?;
    let header = header(&blob)?;
    if !fits(&header, target) {
        let found = format!("{} instead of {}", header.made_for.name, target.name);
        let what = "the model of this n-gram table";
        let remedy = "make a table with `dovetail ngrams`, or use `--ngrams auto`";
        return Err(LibraryError::unsupported(blob.name(), what, found, remedy));
    }
    read(&blob, header)
}

/// The table that was made for `target`, among those in the user's data folder and the bundled
/// ones; a file that cannot be read is logged and skipped.
pub fn find_ngrams(target: &TargetFiles) -> Option<NgramFile> {
    let mut paths = ngrams_folder().and_then(|folder| paths_in(&folder).ok()).unwrap_or_default();
    paths.retain(|path| path.extension().is_some_and(|end| end == NGRAMS_END));
    let files = paths.iter().map(|path| Blob::open(path));
    let built = bundled::NGRAMS.iter().map(|(name, bytes)| Ok(Blob::built((*name).into(), bytes)));
    files.chain(built).find_map(|blob| {
        let found = blob.and_then(|blob| {
            let header = header(&blob)?;
            if fits(&header, target) { read(&blob, header).map(Some) } else { Ok(None) }
        });
        found.unwrap_or_else(|error| {
            tracing::warn!("skipping an n-gram table: {error}");
            None
        })
    })
}

/// The file extension of tables.
pub const NGRAMS_END: &str = "ngrams";

/// Where tables are found without being named; `None` if the system has no folder for data.
pub fn ngrams_folder() -> Option<PathBuf> {
    user_dirs().map(|dirs| dirs.data.join("ngrams"))
}

fn fits(header: &NgramHeader, target: &TargetFiles) -> bool {
    let NgramOwner { hidden, layers, vocab, tokenizer, .. } = &header.made_for;
    let config = &target.config;
    // The vocabulary is compared last, because that takes a while.
    (*hidden, *layers, *vocab) == (config.hidden, config.layers, config.vocab)
        && *tokenizer == target.tokenizer.vocabulary_hash()
}

fn header(blob: &Blob) -> Result<NgramHeader> {
    let damaged = |problem: String| LibraryError::damaged(blob.name(), "the first line", problem);
    let start = &blob[..blob.len().min(LONGEST_HEADER)];
    let end = start.iter().position(|&byte| byte == b'\n');
    let line = end.and_then(|end| start.get(..end));
    let line =
        line.ok_or_else(|| damaged("not an n-gram table: the line has no end".to_owned()))?;
    let header: NgramHeader = serde_json::from_slice(line)
        .map_err(|error| damaged(format!("not an n-gram table: {error}")))?;
    if header.kind != KIND {
        return Err(damaged(format!("it is {:?} instead of {KIND:?}", header.kind)));
    }
    Ok(header)
}

fn read(blob: &Blob, header: NgramHeader) -> Result<NgramFile> {
    let damaged = |place: &str, problem: String| LibraryError::damaged(blob.name(), place, problem);
    let first = blob.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let rest = &blob[first..];
    let width = if header.made_for.vocab <= NARROW { 2 } else { 4 };
    let needed = header.slots.checked_mul(4 + KEPT * (width + 1));
    if needed != Some(rest.len()) {
        let slots = header.slots;
        let found = rest.len();
        return Err(damaged("its table", format!("{slots} slots do not fit into {found} bytes")));
    }
    let (checks, rest) = rest.split_at(header.slots * 4);
    let (tokens, costs) = rest.split_at(header.slots * KEPT * width);
    let wide = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, &b| (all << 8) | u32::from(b));
    let tokens: Vec<u32> = tokens.chunks_exact(width).map(wide).collect();
    let vocab = header.made_for.vocab;
    if let Some(token) = tokens.iter().find(|&&token| token as usize >= vocab) {
        let problem = format!("token {token} is outside the vocabulary of {vocab}");
        return Err(damaged("its table", problem));
    }
    let checks = checks.chunks_exact(4).map(wide).collect();
    let table = NgramTable::new(checks, tokens, costs.to_vec())
        .map_err(|uneven| damaged("its table", uneven.to_string()))?;
    Ok(NgramFile { name: blob.name().to_owned(), header, table })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::{Spec, open_target};
    use crate::speculate::ngrams::NgramBuilder;

    fn table() -> NgramTable {
        let mut builder = NgramBuilder::default();
        builder.begin();
        for token in 0..300u32 {
            builder.push(token, &[((token + 1) % 300, 0.9), (7, 0.05)]);
        }
        builder.table(200)
    }

    #[test]
    fn what_is_written_is_read_for_its_own_model_alone() {
        let target = open_target(&Spec::Bundled, &mut |_| {}).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ngrams");
        for vocab in [target.config.vocab, NARROW + 1] {
            let owner = NgramOwner { vocab, ..NgramOwner::of(&target) };
            write_ngrams(&path, owner.clone(), 300, &table()).unwrap();
            let blob = Blob::open(&path).unwrap();
            let header = header(&blob).unwrap();
            assert_eq!((&header.made_for, header.places), (&owner, 300));
            assert_eq!(read(&blob, header).unwrap().table, table());
        }
        let error = open_ngrams(&path, &target).unwrap_err().to_string();
        assert!(error.contains("a.ngrams") && error.contains("dovetail ngrams"), "{error}");
        write_ngrams(&path, NgramOwner::of(&target), 300, &table()).unwrap();
        assert_eq!(open_ngrams(&path, &target).unwrap().table, table());
        let other = NgramOwner { tokenizer: "0".into(), ..NgramOwner::of(&target) };
        write_ngrams(&path, other, 300, &table()).unwrap();
        assert!(open_ngrams(&path, &target).is_err());
    }

    #[test]
    fn the_bundled_tables_are_sound_and_not_for_the_bundled_target() {
        for (name, bytes) in bundled::NGRAMS {
            let blob = Blob::built((*name).into(), bytes);
            let file = header(&blob).and_then(|header| read(&blob, header)).unwrap();
            assert!(file.table.len() > 1000 && file.header.places > file.table.len() / 10);
        }
        let target = open_target(&Spec::Bundled, &mut |_| {}).unwrap();
        let built = bundled::NGRAMS.iter();
        let mut headers =
            built.map(|(name, bytes)| header(&Blob::built((*name).into(), bytes)).unwrap());
        assert!(headers.all(|header| !fits(&header, &target)));
    }

    #[test]
    fn a_damaged_file_is_refused_by_name() {
        let target = open_target(&Spec::Bundled, &mut |_| {}).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ngrams");
        write_ngrams(&path, NgramOwner::of(&target), 300, &table()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let line = whole.iter().position(|&byte| byte == b'\n').unwrap();
        let token = line + 1 + table().parts().0.len() * 4;
        let mut foreign = whole.clone();
        foreign[token..token + 2].copy_from_slice(&[0xff, 0xff]);
        for (bytes, says) in [
            (&whole[..whole.len() - 1], "slots do not fit into"),
            (&whole[..line], "has no end"),
            (&b"{}\n"[..], "missing field"),
            (&[0; 9000][..], "has no end"),
            (&b""[..], "has no end"),
            (&foreign[..], "token 65535 is outside the vocabulary"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let error = open_ngrams(&path, &target).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("a.ngrams"), "{error}");
        }
        let slots = String::from_utf8_lossy(&whole[..line]).into_owned();
        let huge = slots.replace(
            &format!("\"slots\":{}", table().parts().0.len()),
            "\"slots\":4611686018427387904",
        );
        assert_ne!(slots, huge);
        std::fs::write(&path, huge + "\n").unwrap();
        assert!(open_ngrams(&path, &target).unwrap_err().to_string().contains(
            "slots do not fit \
            into"
        ));
    }
}
