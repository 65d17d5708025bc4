//! Searches for models in a folder and its subfolders: GGUF files, and folders of Hugging Face
//! files. It opens no file. It must not depend on whose folder it is.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::entry::Skipped;
use crate::library::Spec;
use crate::library::hub::is_content;
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
pub(super) struct Files {
    /// What opens them: the (first) GGUF file, or the folder.
    pub(super) spec: Spec,
    /// The files (GGUF), or the folder.
    pub(super) paths: Vec<PathBuf>,
    /// The name of the file without its extension and number, or of the folder.
    pub(super) stem: String,
    /// The (first) file that holds weights or lists them.
    weights: PathBuf,
}

impl Files {
    /// Those at a path that was named, whether or not they are a model.
    pub(super) fn at(path: &Path) -> Self {
        if !path.is_dir() {
            return Self::gguf(path.to_owned());
        }
        let weights = WEIGHTS.into_iter().find(|name| path.join(name).exists());
        Self::folder(path, weights.unwrap_or(WEIGHTS[0]))
    }

    /// A GGUF file, or all files of the model to which it belongs.
    fn gguf(path: PathBuf) -> Self {
        let (stem, paths) = match all_numbered(&path) {
            Some((stem, all)) if all.len() > 1 => (stem.to_owned(), all),
            _ => (text(path.file_stem()), vec![path]),
        };
        let first = paths[0].clone();
        Self { spec: Spec::Gguf(first.clone()), paths, stem, weights: first }
    }

    /// A folder of Hugging Face files.
    fn folder(folder: &Path, weights: &str) -> Self {
        Self {
            spec: Spec::Folder(folder.to_owned()),
            paths: vec![folder.to_owned()],
            stem: text(folder.file_name()),
            weights: folder.join(weights),
        }
    }

    /// Where it is: its (first) file, or its folder.
    pub(super) fn path(&self) -> &Path {
        &self.paths[0]
    }

    /// A path that identifies the same files again.
    pub(super) fn key(&self) -> Option<PathBuf> {
        fs::canonicalize(&self.weights).ok()
    }

    /// Bytes of the existing weight files.
    pub(super) fn bytes(&self) -> u64 {
        let size = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        let ends = |path: &Path, end: &str| path.extension().is_some_and(|it| it == end);
        match &self.spec {
            Spec::Gguf(_) => self.paths.iter().map(|path| size(path)).sum(),
            Spec::Folder(folder) if ends(&self.weights, "json") => {
                let files = fs::read_dir(folder).into_iter().flatten().flatten();
                let paths = files.map(|file| file.path());
                paths.filter(|path| ends(path, "safetensors")).map(|path| size(&path)).sum()
            }
            _ => size(&self.weights),
        }
    }
}

fn text(name: Option<&OsStr>) -> String {
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// All models in `root` and below it, in the order of their paths. What cannot be examined goes to
/// `skipped`. Links are followed, but in a `snapshot` of the hub only to its own contents.
pub(super) fn walk(root: &Path, snapshot: bool, skipped: &mut Vec<Skipped>) -> Vec<Files> {
    let mut walk = Walk::new(skipped);
    walk.snapshot = snapshot.then_some(root);
    walk.folder(root, 0);
    walk.found
}

/// The models of the GGUF files directly in `folder`; none if it cannot be read. A file that cannot
/// be examined goes to `skipped`.
pub(super) fn ggufs_in(folder: &Path, skipped: &mut Vec<Skipped>) -> Vec<Files> {
    let mut walk = Walk::new(skipped);
    for entry in entries(folder).unwrap_or_default() {
        if is_gguf(&entry.path()) && !is_hidden(&entry) {
            walk.gguf(&entry);
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

/// The entries of a folder, sorted by name. A folder that cannot be read goes to `skipped`, unless
/// it does not exist: nothing was ever stored there.
pub(super) fn listed(folder: &Path, skipped: &mut Vec<Skipped>) -> Vec<fs::DirEntry> {
    entries(folder).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            skipped.push(Skipped::new(folder, why(&error)));
        }
        Vec::new()
    })
}

/// The entries of a folder, sorted by name.
fn entries(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
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
    snapshot: Option<&'a Path>,
    /// Folders by their real paths.
    seen: HashSet<PathBuf>,
    looked_at: usize,
    found: Vec<Files>,
}

impl<'a> Walk<'a> {
    fn new(skipped: &'a mut Vec<Skipped>) -> Self {
        Self { skipped, snapshot: None, seen: HashSet::new(), looked_at: 0, found: Vec::new() }
    }

    fn skip(&mut self, path: &Path, reason: impl Into<String>) {
        self.skipped.push(Skipped::new(path, reason));
    }

    fn folder(&mut self, folder: &Path, depth: usize) {
        let entries = match fs::canonicalize(folder) {
            Ok(place) if self.seen.contains(&place) => {
                let reason = format!("a link to {}, which is already listed", place.display());
                return self.skip(folder, reason);
            }
            Ok(place) => {
                self.seen.insert(place);
                entries(folder)
            }
            Err(error) => Err(error),
        };
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.skip(folder, why(&error)),
        };
        if depth > DEEPEST {
            return self.skip(folder, "nested too deeply; add this folder to `model_folders`");
        }
        if let Some(snapshot) = self.snapshot {
            entries.retain(|entry| {
                let path = entry.path();
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let stays = is_folder || is_content(&path, snapshot);
                if !stays {
                    self.skip(&path, "not a file of this model; remove it");
                }
                stays
            });
        }
        let has = |name: &str| entries.iter().any(|entry| entry.file_name() == name);
        if has("config.json")
            && let Some(weights) = WEIGHTS.into_iter().find(|name| has(name))
        {
            self.found.push(Files::folder(folder, weights));
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
            if is_gguf(&path) {
                self.gguf(&entry);
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_file() => {}
                // Links are followed.
                _ => match fs::metadata(&path) {
                    Ok(metadata) if metadata.is_dir() => below.push(path),
                    Ok(_) => {}
                    Err(error) => self.skip(&path, why(&error)),
                },
            }
        }
        for folder in below {
            self.folder(&folder, depth + 1);
        }
    }

    fn gguf(&mut self, entry: &fs::DirEntry) {
        let path = entry.path();
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(metadata) if metadata.is_dir() && !path.is_symlink() => {
                return self.skip(&path, "a folder with the name of a file");
            }
            Ok(_) => return self.skip(&path, "not a regular file"),
            Err(error) => return self.skip(&path, why(&error)),
        }
        // The other files of a model in several are found too, but the model is listed only once.
        let files = Files::gguf(path);
        if files.paths.len() == 1 || !self.found.contains(&files) {
            self.found.push(files);
        }
    }
}
