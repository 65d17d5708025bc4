//! All models on this machine, from every store, each once and with a unique name.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use rayon::ThreadPoolBuilder;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::entry::{Located, ModelEntry, Skipped, Store};
use super::facts::Facts;
use super::ollama;
use super::places::ModelPlaces;
use super::walk::{Files, ggufs_in, listed, walk};
use crate::files::read_text;
use crate::library::folder::Folder;
use crate::library::hub::{LONGEST_COMMIT, is_snapshot};
use crate::library::titles::title;
use crate::library::{Spec, bundled, gguf};

/// The number of threads that read headers: on a disk that is not cached they mostly wait.
const READERS: usize = 8;

/// What is on this machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Every model, including those that cannot be opened. The bundled one is the first.
    pub models: Vec<ModelEntry>,
    /// What was left out, and why.
    pub skipped: Vec<Skipped>,
}

/// Finds every model and reads its headers. This takes milliseconds per model. Nothing is written,
/// and what cannot be read is in [`Found::skipped`] or has a [`ModelEntry::problem`].
pub fn find(places: &ModelPlaces) -> Found {
    let (located, skipped) = locate(places);
    let mut models = read_all(located);
    tell_apart(&mut models);
    Found { models, skipped }
}

/// Whether each of these names occurs more than once, in upper or lower case.
fn alike(names: impl Iterator<Item = String>) -> Vec<bool> {
    let names: Vec<String> = names.map(|name| name.to_lowercase()).collect();
    let mut count: HashMap<&str, usize> = HashMap::new();
    for name in &names {
        *count.entry(name).or_default() += 1;
    }
    names.iter().map(|name| count.get(name.as_str()).is_some_and(|&n| n > 1)).collect()
}

/// Gives models with equal titles their unique names as titles.
fn tell_apart(models: &mut [ModelEntry]) {
    let alike = alike(models.iter().map(ModelEntry::title));
    for (model, _) in models.iter_mut().zip(alike).filter(|(_, alike)| *alike) {
        model.facts.title = Some(model.located.name.clone());
    }
}

/// The model in a file or folder: as `found` lists it, else read now and named by its path.
pub fn model_at(path: &Path, found: &[ModelEntry]) -> ModelEntry {
    if let Ok(place) = fs::canonicalize(path) {
        let is_there = |own: &PathBuf| fs::canonicalize(own).is_ok_and(|own| own == place);
        let listed = found.iter().find(|model| model.located.paths.iter().any(is_there));
        if let Some(listed) = listed {
            return listed.clone();
        }
    }
    let name = path.display().to_string();
    let mut located = ListedModel::of(Files::at(path), Store::Folder, name.clone()).located;
    located.name = name;
    ModelEntry { facts: read_one(&located), located }
}

/// Finds every model without reading a header: its names and files.
pub fn locate(places: &ModelPlaces) -> (Vec<Located>, Vec<Skipped>) {
    let mut shelf = Shelf::default();
    shelf.put(bundled_target());
    for (store, root) in &places.0 {
        match store {
            Store::Bundled => {}
            // It makes its folder when it first downloads something.
            Store::LlamaCpp if !root.is_dir() => {}
            Store::Folder if !root.is_dir() => shelf.skipped.push(Skipped::new(
                root,
                "the folder does not exist; correct `model_folders` in the settings",
            )),
            Store::Folder | Store::LmStudio | Store::LlamaCpp => {
                for files in walk(root, false, &mut shelf.skipped) {
                    let long = below(root, &files);
                    shelf.put(ListedModel::of(files, *store, long));
                }
            }
            Store::Current | Store::Downloads => {
                for files in ggufs_in(root, &mut shelf.skipped) {
                    let long = files.path().with_extension("").display().to_string();
                    shelf.put(ListedModel::of(files, *store, long));
                }
            }
            Store::Hub => hub_cache(root, &mut shelf),
            Store::Ollama => {
                for (name, blob) in ollama::models(root, &mut shelf.skipped) {
                    let files = Files::at(&blob);
                    let mut model = ListedModel::of(files, *store, name.clone());
                    model.located.name = name;
                    shelf.put(model);
                }
            }
        }
    }
    (named_apart(shelf.places), shelf.skipped)
}

/// The bundled draft head and the bundled small model, as `--draft bundled` and `--draft-model
/// bundled` name them.
pub fn bundled_drafts() -> [ModelEntry; 2] {
    [&bundled::HEAD, &bundled::SMALL].map(|folder| ModelEntry {
        located: Located { bytes: folder.bytes(), ..bundled_target().located },
        facts: Facts { title: Some(folder.name()), ..Facts::of_folder(folder) },
    })
}

fn bundled_target() -> ListedModel {
    let located = Located {
        name: "bundled".to_owned(),
        aliases: vec!["dovetail-demo".to_owned()],
        store: Store::Bundled,
        spec: Spec::Bundled,
        paths: Vec::new(),
        bytes: bundled::TARGET.bytes(),
    };
    ListedModel { located, long: "bundled".to_owned(), key: None }
}

/// A model and what distinguishes it.
struct ListedModel {
    located: Located,
    /// The name that it gets if another model has the same name.
    long: String,
    /// The real path of its files.
    key: Option<PathBuf>,
}

impl ListedModel {
    /// Called after its file or folder.
    fn of(files: Files, store: Store, long: String) -> Self {
        let key = files.key();
        let bytes = files.bytes();
        let Files { spec, paths, stem: name, .. } = files;
        let aliases = Vec::new();
        Self { located: Located { name, aliases, store, spec, paths, bytes }, long, key }
    }
}

#[derive(Default)]
struct Shelf {
    places: Vec<ListedModel>,
    by_key: HashMap<PathBuf, usize>,
    skipped: Vec<Skipped>,
}

impl Shelf {
    /// Adds a model; files that were already added only get further names.
    fn put(&mut self, place: ListedModel) {
        let known = place.key.as_ref().and_then(|key| self.by_key.get(key)).copied();
        if let Some(known) = known.and_then(|at| self.places.get_mut(at)) {
            for name in place.located.names() {
                if !known.located.names().any(|other| other == name) {
                    known.located.aliases.push(name.to_owned());
                }
            }
            return;
        }
        if let Some(key) = &place.key {
            self.by_key.insert(key.clone(), self.places.len());
        }
        self.places.push(place);
    }
}

/// The path from `root` to a model, without its file's extension.
fn below(root: &Path, files: &Files) -> String {
    let inside = files.path().parent().and_then(|folder| folder.strip_prefix(root).ok());
    let parts = inside.into_iter().flat_map(Path::iter).map(|part| part.to_string_lossy());
    parts.chain([files.stem.as_str().into()]).collect::<Vec<_>>().join("/")
}

/// The hub's cache: `models--OWNER--NAME/snapshots/COMMIT/…` are links into `blobs`, and `refs`
/// contains the commit of each branch.
fn hub_cache(cache: &Path, shelf: &mut Shelf) {
    for repo in listed(cache, &mut shelf.skipped) {
        let folder = repo.file_name();
        let Some(id) = folder.to_str().and_then(|name| name.strip_prefix("models--")) else {
            continue;
        };
        let id = id.replacen("--", "/", 1);
        let main = read_text(&repo.path().join("refs/main"), LONGEST_COMMIT).unwrap_or_default();
        let mut commits = listed(&repo.path().join("snapshots"), &mut shelf.skipped);
        commits.retain(|commit| is_snapshot(&commit.path()));
        // The branch comes first: what older snapshots share with it is listed under its name.
        commits.sort_by_key(|commit| commit.file_name() != main.trim());
        for commit in commits {
            let name = commit.file_name().to_string_lossy().into_owned();
            let id = if name == main.trim() { id.clone() } else { format!("{id}@{name}") };
            snapshot(&commit.path(), &id, shelf);
        }
    }
}

fn snapshot(root: &Path, id: &str, shelf: &mut Shelf) {
    for files in walk(root, true, &mut shelf.skipped) {
        let long = format!("{id}/{}", below(root, &files));
        let mut model = ListedModel::of(files, Store::Hub, long);
        match &model.located.spec {
            Spec::Folder(folder) if folder == root => {
                model.located.name = id.rsplit('/').next().unwrap_or(id).to_owned();
                model.located.aliases.push(id.to_owned());
                model.long = id.to_owned();
            }
            Spec::Gguf(file) => {
                let file = file.strip_prefix(root).unwrap_or(root);
                model.located.aliases.push(format!("{id}:{}", file.display()));
            }
            _ => {}
        }
        shelf.put(model);
    }
}

/// Gives models with the same name their longer names, or their paths if these are the same too.
/// The shared name stays an alias: a user who types it is shown all of them.
fn named_apart(mut places: Vec<ListedModel>) -> Vec<Located> {
    let path = |place: &ListedModel| {
        let path = place.located.paths.first();
        path.map_or_else(|| place.long.clone(), |path| path.display().to_string())
    };
    let longer: [&dyn Fn(&ListedModel) -> String; 2] = [&|place| place.long.clone(), &path];
    for longer in longer {
        let alike = alike(places.iter().map(|place| place.located.name.clone()));
        for (place, alike) in places.iter_mut().zip(alike) {
            if alike && place.located.store != Store::Bundled {
                let name = longer(place);
                let short = std::mem::replace(&mut place.located.name, name);
                if !place.located.names().any(|other| other == short) {
                    place.located.aliases.push(short);
                }
            }
        }
    }
    places.into_iter().map(|place| place.located).collect()
}

/// Reads the headers of all models, several at a time.
fn read_all(located: Vec<Located>) -> Vec<ModelEntry> {
    let read = |located: Located| ModelEntry { facts: read_one(&located), located };
    match ThreadPoolBuilder::new().num_threads(READERS).build() {
        Ok(pool) => pool.install(|| located.into_par_iter().map(read).collect()),
        Err(_) => located.into_iter().map(read).collect(),
    }
}

fn read_one(located: &Located) -> Facts {
    match &located.spec {
        Spec::Gguf(path) => gguf::facts(path),
        Spec::Folder(path) => {
            let facts = Facts::of_folder(&Folder::Disk(path.clone()));
            // Snapshots of the hub have a commit after the name.
            let name = located.name.rsplit('/').next().unwrap_or_default();
            let name = name.split('@').next().unwrap_or_default();
            Facts { title: Some(title(name, |_| None)), ..facts }
        }
        Spec::Bundled => Facts::of_folder(&bundled::TARGET),
        Spec::Hub(_) => Facts::default(),
    }
}
