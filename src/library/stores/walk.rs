//! Searches for models in a folder and its subfolders: GGUF files, and folders of Hugging Face
//! files. It opens no file. It must not depend on whose folder it is.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::entry::Skipped;
use crate::library::shard_names::all_numbered;

/// How many levels of subfolders are searched; LM Studio and the hub need four.
const DEEPEST: usize = 12;
/// How many entries are examined: more than any store has, and quick to read.
const MOST_ENTRIES: usize = 200_000;
/// Weight files that make a folder with a `config.json` a model.
const WEIGHTS: [&str; 3] =
    ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"];

/// The files of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Files {
    /// A GGUF file, or all files of a model in several.
    Gguf(Vec<PathBuf>),
    /// A folder, and a file in it that holds weights or lists them.
    Folder(PathBuf, PathBuf),
}

impl Files {
    /// Those at a path that was named, whether or not they are a model.
    pub(super) fn at(path: &Path) -> Self {
        if path.is_dir() {
            let weights = WEIGHTS.iter().map(|name| path.join(name)).find(|file| file.exists());
            return Self::Folder(path.to_owned(), weights.unwrap_or_else(|| path.join(WEIGHTS[0])));
        }
        match all_numbered(path) {
            Some((_, all)) if all.len() > 1 => Self::Gguf(all),
            _ => Self::Gguf(vec![path.to_owned()]),
        }
    }

    /// A path that identifies the same files again.
    pub(super) fn key(&self) -> Option<PathBuf> {
        let first = match self {
            Self::Gguf(paths) => paths.first()?,
            Self::Folder(_, weights) => weights,
        };
        fs::canonicalize(first).ok()
    }

    /// Bytes of the existing weight files.
    pub(super) fn bytes(&self) -> u64 {
        let size = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        match self {
            Self::Gguf(paths) => paths.iter().map(|path| size(path)).sum(),
            Self::Folder(_, weights) if weights.extension().is_some_and(|end| end != "json") => {
                size(weights)
            }
            Self::Folder(folder, _) => {
                let files = fs::read_dir(folder).into_iter().flatten().flatten();
                let paths = files.map(|file| file.path());
                let shards =
                    paths.filter(|path| path.extension().is_some_and(|end| end == "safetensors"));
                shards.map(|path| size(&path)).sum()
            }
        }
    }

    /// The name of the file without its extension and number, or of the folder.
    pub(super) fn stem(&self) -> String {
        let text = |name: Option<&std::ffi::OsStr>| {
            name.unwrap_or_default().to_string_lossy().into_owned()
        };
        match self {
            Self::Gguf(paths) => match paths.as_slice() {
                [only] => text(only.file_stem()),
                [first, ..] => all_numbered(first)
                    .map_or_else(|| text(first.file_stem()), |(stem, _)| stem.to_owned()),
                [] => String::new(),
            },
            Self::Folder(folder, _) => text(folder.file_name()),
        }
    }

    /// Where it is: its (first) file, or its folder.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Gguf(paths) => paths.first().map_or(Path::new(""), PathBuf::as_path),
            Self::Folder(folder, _) => folder,
        }
    }
}

/// All models in `root` and below it, in the order of their paths. What cannot be examined goes to
/// `skipped`.
pub(super) fn walk(root: &Path, skipped: &mut Vec<Skipped>) -> Vec<Files> {
    let mut walk = Walk { skipped, seen: HashSet::new(), looked_at: 0, found: Vec::new() };
    walk.folder(root, 0);
    walk.found
}

/// The models of the GGUF files directly in `folder`; none if it cannot be read. A file that cannot
/// be examined goes to `skipped`.
pub(super) fn ggufs_in(folder: &Path, skipped: &mut Vec<Skipped>) -> Vec<Files> {
    let mut walk = Walk { skipped, seen: HashSet::new(), looked_at: 0, found: Vec::new() };
    for entry in entries(folder).unwrap_or_default() {
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if is_gguf(&entry.path()) && !is_hidden(&entry) {
            walk.gguf(entry.path(), is_link);
        }
    }
    walk.found
}

/// Whether the file's name is that of a GGUF file.
fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf"))
}

fn is_hidden(entry: &fs::DirEntry) -> bool {
    entry.file_name().as_encoded_bytes().starts_with(b".")
}

/// The entries of a folder, sorted by name.
pub(super) fn entries(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    Ok(entries)
}

/// What is wrong with a file or folder, in a few words.
pub(super) fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "a link to something that no longer exists; remove it".to_owned()
        }
        io::ErrorKind::PermissionDenied => "no permission to read it".to_owned(),
        // The error kind for links in a circle has no stable name yet.
        _ if is_circle(error) => "a link that leads back to itself; remove it".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(unix)]
fn is_circle(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

#[cfg(not(unix))]
fn is_circle(_: &io::Error) -> bool {
    false
}

struct Walk<'a> {
    skipped: &'a mut Vec<Skipped>,
    /// Folders by their real paths.
    seen: HashSet<PathBuf>,
    looked_at: usize,
    found: Vec<Files>,
}

impl Walk<'_> {
    fn skip(&mut self, path: &Path, reason: impl Into<String>) {
        self.skipped.push(Skipped { path: path.to_owned(), reason: reason.into() });
    }

    fn folder(&mut self, folder: &Path, depth: usize) {
        let entries = match fs::canonicalize(folder) {
            Ok(place) if !self.seen.insert(place.clone()) => {
                return self.skip(
                    folder,
                    format!("a link to {}, which is already listed", place.display()),
                );
            }
            Ok(_) => entries(folder),
            Err(error) => Err(error),
        };
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.skip(folder, why(&error)),
        };
        if depth > DEEPEST {
            return self.skip(folder, "nested too deeply; add this folder to `model_folders`");
        }
        let names: Vec<_> = entries.iter().map(fs::DirEntry::file_name).collect();
        let has = |name: &str| names.iter().any(|other| other == name);
        if has("config.json")
            && let Some(weights) = WEIGHTS.into_iter().find(|name| has(name))
        {
            self.found.push(Files::Folder(folder.to_owned(), folder.join(weights)));
        }
        let mut below = Vec::new();
        for entry in entries {
            self.looked_at += 1;
            if self.looked_at > MOST_ENTRIES {
                let reason = format!("more than {MOST_ENTRIES} files; choose a folder below it");
                return self.skip(folder, reason);
            }
            let path = entry.path();
            if is_hidden(&entry) {
                continue;
            }
            let is_gguf = is_gguf(&path);
            let kind = match entry.file_type() {
                Ok(kind) if kind.is_symlink() && !is_gguf => {
                    fs::metadata(&path).map(|m| m.is_dir())
                }
                Ok(kind) if is_gguf => {
                    self.gguf(path, kind.is_symlink());
                    continue;
                }
                kind => kind.map(|kind| kind.is_dir()),
            };
            match kind {
                Ok(true) => below.push(path),
                Ok(false) => {}
                Err(error) => self.skip(&path, why(&error)),
            }
        }
        for folder in below {
            self.folder(&folder, depth + 1);
        }
    }

    fn gguf(&mut self, path: PathBuf, is_link: bool) {
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(metadata) if metadata.is_dir() && !is_link => {
                return self.skip(&path, "a folder with the name of a file");
            }
            Ok(_) => return self.skip(&path, "not a regular file"),
            Err(error) => return self.skip(&path, why(&error)),
        }
        match all_numbered(&path) {
            Some((_, all)) if all.len() > 1 => {
                // Its other files are found too, but the model is listed only once.
                let files = Files::Gguf(all);
                if !self.found.contains(&files) {
                    self.found.push(files);
                }
            }
            _ => self.found.push(Files::Gguf(vec![path])),
        }
    }
}
