//! Named system prompts and samplers, in one file next to the saved conversations. Must never know
//! the screen.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files::{Access, atomic_write, private_folder, read_text};
use crate::speculate::SamplerSettings;

/// What is said where there are none.
const NONE: &str = "No presets yet · /preset save NAME saves the system prompt and the sampler";

/// Most bytes of the file.
const LONGEST: u64 = 4_000_000;

/// System prompt and sampler of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Preset {
    /// System prompt.
    pub system: Option<String>,
    /// How tokens are drawn.
    pub sampler: SamplerSettings,
}

/// All, by name.
///
/// # Errors
/// The file cannot be read, with the remedy.
fn all(path: &Path) -> Result<BTreeMap<String, Preset>, String> {
    let read = match read_text(path, LONGEST) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| error.to_string()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => Err(error.to_string()),
    };
    let path = path.display();
    read.map_err(|why| format!("Cannot read {path}: {why}; correct it or move it away"))
}

/// Which there are, in words.
///
/// # Errors
/// The file cannot be read, with the remedy.
pub(in crate::tui) fn listed(path: &Path) -> Result<String, String> {
    Ok(match names(&all(path)?) {
        names if names.is_empty() => NONE.to_string(),
        names => format!("Presets: {names} · /preset NAME applies one"),
    })
}

/// Saves `preset` under `name`, in the place of one that had it, and says so.
///
/// # Errors
/// The file cannot be read or written, with the remedy.
pub(in crate::tui) fn save(path: &Path, name: &str, preset: Preset) -> Result<String, String> {
    let mut all = all(path)?;
    all.insert(name.to_owned(), preset);
    let text = serde_json::to_vec_pretty(&all).map_err(|error| error.to_string())?;
    let folder = path.parent().map_or(Ok(()), private_folder);
    folder
        .and_then(|()| atomic_write(path, Access::Private, |file| file.write_all(&text)))
        .map_err(|error| format!("Cannot write {}: {error}", path.display()))?;
    Ok(format!("Preset \"{name}\" saved · /preset {name} applies it"))
}

/// The preset of this name.
///
/// # Errors
/// There is none; the names there are.
pub(in crate::tui) fn named(path: &Path, name: &str) -> Result<Preset, String> {
    let mut all = all(path)?;
    all.remove(name).ok_or_else(|| match names(&all) {
        names if names.is_empty() => NONE.to_owned(),
        names => format!("No preset \"{name}\"; choose one of {names}"),
    })
}

fn names(presets: &BTreeMap<String, Preset>) -> String {
    presets.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_saved_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/presets.json");
        assert!(named(&file, "poet").unwrap_err().contains("/preset save"));
        let sampler = SamplerSettings { temperature: 1.2, ..SamplerSettings::default() };
        let poet = Preset { system: Some("You rhyme.".to_owned()), sampler };
        save(&file, "poet", poet.clone()).unwrap();
        save(&file, "plain", Preset::default()).unwrap();
        assert_eq!(named(&file, "poet").unwrap(), poet);
        assert!(named(&file, "prose").unwrap_err().contains("plain, poet"));
        std::fs::write(&file, "{").unwrap();
        assert!(save(&file, "x", Preset::default()).unwrap_err().contains("presets.json"));
    }
}
