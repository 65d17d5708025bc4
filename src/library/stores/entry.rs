//! A model on this machine, as a list shows it. It must never read a file.

use std::fmt;
use std::path::{Path, PathBuf};

use super::facts::{Facts, Runs};
use crate::library::Spec;

/// Where a model was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// Part of the program.
    Bundled,
    /// In a folder that the settings name.
    Folder,
    /// In the folder in which the program was started, or in that of a model in use.
    Current,
    /// In the user's folder for downloads.
    Downloads,
    /// In the cache of the hub's programs.
    Hub,
    /// In LM Studio's folder.
    LmStudio,
    /// In the folder in which llama.cpp keeps its downloads.
    LlamaCpp,
    /// In Ollama's store.
    Ollama,
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Bundled => "bundled",
            Self::Folder => "folder",
            Self::Current => "this folder",
            Self::Downloads => "downloads",
            Self::Hub => "hub cache",
            Self::LmStudio => "LM Studio",
            Self::LlamaCpp => "llama.cpp",
            Self::Ollama => "Ollama",
        })
    }
}

/// A model on this machine whose headers have not been read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The value for `--target`, unique among everything that was found.
    pub name: String,
    /// Other names for it: hub ids, further tags of the same content.
    pub aliases: Vec<String>,
    /// Where it was found.
    pub store: Store,
    /// What opens it.
    pub spec: Spec,
    /// Its files (GGUF), or its folder.
    pub paths: Vec<PathBuf>,
    /// Bytes of its weight files.
    pub bytes: u64,
}

impl Located {
    /// The name and all aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name).chain(&self.aliases).map(String::as_str)
    }
}

/// A model on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelEntry {
    /// Name and place.
    pub located: Located,
    /// What its headers say.
    pub facts: Facts,
}

impl ModelEntry {
    /// Its name as users know it, e.g. `Qwen2.5 0.5B Instruct`.
    pub fn short_title(&self) -> &str {
        match (&self.facts.title, self.located.store) {
            // It names its files by their hashes; users know the tag.
            (_, Store::Ollama) => &self.located.name,
            (Some(title), _) => title,
            (None, Store::Bundled) => "dovetail-demo",
            (None, _) => &self.located.name,
        }
    }

    /// The same with the type of its weights, e.g. `Qwen2.5 0.5B Instruct Q4_K_M`.
    pub fn title(&self) -> String {
        let title = self.short_title();
        match &self.facts.quantisation {
            Some(kind) if !title.to_lowercase().contains(&kind.to_lowercase()) => {
                format!("{title} {kind}")
            }
            _ => title.to_owned(),
        }
    }

    /// Whether it is a draft head or a DFlash drafter.
    pub fn is_head(&self) -> bool {
        matches!(self.facts.runs, Some(Runs::Head { .. } | Runs::Dflash(_)))
    }

    /// Why this program cannot open it, and what to do; `None` if it can.
    pub fn problem(&self) -> Option<&str> {
        self.facts.problem.as_deref()
    }
}

/// Something in a store that is left out of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// File or folder.
    pub path: PathBuf,
    /// The reason, and what to do if possible.
    pub reason: String,
}

impl Skipped {
    pub(super) fn new(path: &Path, reason: impl Into<String>) -> Self {
        Self { path: path.to_owned(), reason: reason.into() }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}
