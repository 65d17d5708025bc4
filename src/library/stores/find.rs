//! All models on this machine, from every store, each once and with a unique name.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::entry::{Located, ModelEntry, Skipped, Store};
use super::facts::Facts;
use super::ollama;
use super::places::ModelPlaces;
use super::walk::{Files, entries, ggufs_in, walk, why};
use crate::library::folder::Folder;
use crate::library::titles::{self, HeaderName};
use crate::library::{Spec, bundled};

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
    for root in &places.folders {
        if root.is_dir() {
            shelf.put_all_below(root, Store::Folder);
        } else {
            let reason =
                "the folder does not exist; correct `model_folders` in the settings".to_owned();
            shelf.skipped.push(Skipped { path: root.clone(), reason });
        }
    }
    for (folder, store) in &places.near {
        for files in ggufs_in(folder, &mut shelf.skipped) {
            let long = files.path().with_extension("").display().to_string();
            shelf.put(ListedModel::of(files, *store, long));
        }
    }
    for cache in &places.hub {
        hub_cache(cache, &mut shelf);
    }
    for root in places.lm_studio.iter().filter(|root| root.exists()) {
        shelf.put_all_below(root, Store::LmStudio);
    }
    for store in &places.ollama {
        for tagged in ollama::models(store, &mut shelf.skipped) {
            let files = Files::Gguf(vec![tagged.blob]);
            let mut model = ListedModel::of(files, Store::Ollama, tagged.name.clone());
            model.located.name = tagged.name;
            shelf.put(model);
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
        let name = files.stem();
        let key = files.key();
        let bytes = files.bytes();
        let path = files.path().to_owned();
        let (spec, paths) = match files {
            Files::Gguf(paths) => (Spec::Gguf(path), paths),
            Files::Folder(folder, _) => (Spec::Folder(path), vec![folder]),
        };
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

    fn put_all_below(&mut self, root: &Path, store: Store) {
        for files in walk(root, &mut self.skipped) {
            let long = below(root, &files);
            self.put(ListedModel::of(files, store, long));
        }
    }
}

/// The path from `root` to a model, without its file's extension.
fn below(root: &Path, files: &Files) -> String {
    let folder = match files {
        Files::Gguf(_) => files.path().parent(),
        Files::Folder(folder, _) => folder.parent(),
    };
    let inside = folder.and_then(|folder| folder.strip_prefix(root).ok()).unwrap_or(Path::new(""));
    let parts = inside.iter().map(|part| part.to_string_lossy().into_owned());
    parts.chain([files.stem()]).collect::<Vec<_>>().join("/")
}

/// The hub's cache: `models--OWNER--NAME/snapshots/COMMIT/…` are links into `blobs`, and `refs`
/// contains the commit of each branch.
fn hub_cache(cache: &Path, shelf: &mut Shelf) {
    let repos = match entries(cache) {
        Ok(repos) => repos,
        // Nothing was ever downloaded.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            return shelf.skipped.push(Skipped { path: cache.to_owned(), reason: why(&error) });
        }
    };
    for repo in repos {
        let folder = repo.file_name();
        let Some(id) = folder.to_str().and_then(|name| name.strip_prefix("models--")) else {
            continue;
        };
        let id = id.replacen("--", "/", 1);
        let snapshots = repo.path().join("snapshots");
        if !snapshots.exists() {
            continue;
        }
        let main = fs::read_to_string(repo.path().join("refs/main")).unwrap_or_default();
        let mut commits = match entries(&snapshots) {
            Ok(commits) => commits,
            Err(error) => {
                shelf.skipped.push(Skipped { path: snapshots, reason: why(&error) });
                continue;
            }
        };
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
    for files in walk(root, &mut shelf.skipped) {
        let long = format!("{id}/{}", below(root, &files));
        let mut model = ListedModel::of(files.clone(), Store::Hub, long);
        match &files {
            Files::Folder(folder, _) if folder == root => {
                model.located.name = id.rsplit('/').next().unwrap_or(id).to_owned();
                model.located.aliases.push(id.to_owned());
                model.long = id.to_owned();
            }
            Files::Folder(..) => {}
            Files::Gguf(_) => {
                let file = files.path().strip_prefix(root).unwrap_or(root);
                model.located.aliases.push(format!("{id}:{}", file.display()));
            }
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
    let facts: Vec<OnceLock<Facts>> = located.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let reader = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(model), Some(place)) = (located.get(at), facts.get(at)) else { break };
            place.get_or_init(|| read_one(model));
        }
    };
    thread::scope(|scope| {
        for _ in 0..READERS.min(located.len()) {
            scope.spawn(reader);
        }
    });
    let facts = facts.into_iter().map(|facts| facts.into_inner().unwrap_or_default());
    let entries = located.into_iter().zip(facts);
    entries.map(|(located, facts)| ModelEntry { located, facts }).collect()
}

fn read_one(located: &Located) -> Facts {
    match &located.spec {
        Spec::Gguf(path) => Facts::of_gguf(path),
        Spec::Folder(path) => {
            let facts = Facts::of_folder(&Folder::Disk(path.clone()));
            // Snapshots of the hub have a commit after the name.
            let name = located.name.rsplit('/').next().unwrap_or_default();
            let name = name.split('@').next().unwrap_or_default();
            Facts { title: Some(titles::title(name, HeaderName::default())), ..facts }
        }
        Spec::Bundled => Facts::of_folder(&bundled::TARGET),
        Spec::Hub(_) => Facts::default(),
    }
}
