//! Where models are searched for on this machine. It must not depend on what is in these places.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::entry::Store;
use crate::files::{download_dir, home_dir, read_text};
use crate::library::Hub;
use crate::library::spec::expand;

/// The most bytes of LM Studio's files that are read.
const LONGEST: u64 = 1 << 20;

/// Folders to search, each with whose it is. They are read, never written. In the folder where the
/// program was started and in that for downloads only the GGUF files themselves count, not their
/// subfolders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelPlaces(pub Vec<(Store, PathBuf)>);

impl ModelPlaces {
    /// Where the programs of this machine store models, as they read the environment, and the
    /// `folders` in the settings (`~/` is the user's home).
    pub fn of_machine(folders: &[String]) -> Self {
        let home = home_dir();
        let set =
            |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let ollama = match std::env::var_os("OLLAMA_MODELS").filter(|folder| !folder.is_empty()) {
            Some(folder) => vec![folder.into()],
            None => ollama(home.as_deref()),
        };
        let stores: [(Store, Vec<PathBuf>); 7] = [
            (Store::Folder, folders.iter().map(|folder| expand(folder)).collect()),
            (Store::Current, std::env::current_dir().into_iter().collect()),
            (Store::Downloads, download_dir().into_iter().collect()),
            (Store::Hub, Hub::from_env().map(|hub| hub.cache).into_iter().collect()),
            (Store::LmStudio, home.as_deref().map(lm_studio).unwrap_or_default()),
            (Store::LlamaCpp, llama_cpp(home.as_deref(), &set).into_iter().collect()),
            (Store::Ollama, ollama),
        ];
        let rows = stores
            .into_iter()
            .flat_map(|(store, folders)| folders.into_iter().map(move |folder| (store, folder)));
        Self(rows.collect())
    }
}

/// The user's store, and that of the service that Ollama's installer sets up on Linux.
fn ollama(home: Option<&Path>) -> Vec<PathBuf> {
    let own = home.map(|home| home.join(".ollama/models"));
    let service = cfg!(target_os = "linux").then(|| "/usr/share/ollama/.ollama/models".into());
    own.into_iter().chain(service).collect()
}

/// llama.cpp's folder for downloads, with what `set` gives of the environment. Its newer versions
/// use the hub's cache, and below `LLAMA_CACHE` folders like those.
fn llama_cpp(home: Option<&Path>, set: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let usual = || match std::env::consts::OS {
        "macos" => Some(home?.join("Library/Caches")),
        "windows" => set("LOCALAPPDATA"),
        _ => set("XDG_CACHE_HOME").or_else(|| Some(home?.join(".cache"))),
    };
    set("LLAMA_CACHE").or_else(|| Some(usual()?.join("llama.cpp")))
}

/// LM Studio's home folder is named in a file in the user's home, otherwise it is the default one;
/// its settings may name another folder for models.
fn lm_studio(home: &Path) -> Vec<PathBuf> {
    let named = read_text(&home.join(".lmstudio-home-pointer"), LONGEST).ok();
    let named = named.map(|text| PathBuf::from(text.trim())).filter(|path| path.is_absolute());
    let kept = [home.join(".lmstudio"), home.join(".cache/lm-studio")];
    let mut folders = Vec::new();
    for home in named.into_iter().chain(kept) {
        let settings = read_text(&home.join("settings.json"), LONGEST).ok();
        let settings = settings.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let moved = settings.and_then(|all| all["downloadsFolder"].as_str().map(PathBuf::from));
        for folder in moved.into_iter().chain([home.join("models")]) {
            if folder.is_dir() && !folders.contains(&folder) {
                folders.push(folder);
            }
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn llama_cpp_keeps_its_downloads_where_the_environment_says() {
        let home = Path::new("/h");
        let named = |name: &str| (name == "LLAMA_CACHE").then(|| PathBuf::from("/l"));
        assert_eq!(llama_cpp(Some(home), &named), Some("/l".into()));
        if cfg!(target_os = "linux") {
            assert_eq!(llama_cpp(Some(home), &|_| None), Some("/h/.cache/llama.cpp".into()));
            let moved = |name: &str| (name == "XDG_CACHE_HOME").then(|| PathBuf::from("/x"));
            assert_eq!(llama_cpp(Some(home), &moved), Some("/x/llama.cpp".into()));
        }
    }

    #[test]
    fn lm_studio_is_found_where_it_says_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        let at = |path: &str| home.join(path);
        assert!(lm_studio(home).is_empty());
        for folder in [".cache/lm-studio/models", "big/lms/models", "big/models"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        assert_eq!(lm_studio(home), [at(".cache/lm-studio/models")]);
        let pointer = format!("{}\n", at("big/lms").display());
        fs::write(at(".lmstudio-home-pointer"), pointer).unwrap();
        let settings = serde_json::json!({"downloadsFolder": at("big/models")});
        fs::write(at("big/lms/settings.json"), settings.to_string()).unwrap();
        let all = ["big/models", "big/lms/models", ".cache/lm-studio/models"].map(at);
        assert_eq!(lm_studio(home), all);
        // A damaged file is not a reason to find nothing.
        fs::write(at("big/lms/settings.json"), "{").unwrap();
        assert_eq!(lm_studio(home), all[1..]);
    }
}
