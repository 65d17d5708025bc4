//! Ollama's store: manifests by name and tag, which list the blobs of a model by their hashes. The
//! store is only read. It must not depend on other stores.
//!
//! `manifests/REGISTRY/NAMESPACE/NAME/TAG` is JSON with `layers`, each with a media type and a
//! digest; the layer of type `….image.model` is a GGUF file at `blobs/sha256-…`. Newer programs
//! store further manifests in a second folder next to it, under another registry name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::entry::Skipped;
use super::walk::{listed, why};
use crate::files::read_text;

/// The most bytes of a manifest; they have about 1000.
const LONGEST: u64 = 1 << 20;
/// The registries of Ollama's own library.
const OWN: [&str; 2] = ["registry.ollama.ai", "ollama.com"];
const MODEL: &str = "application/vnd.ollama.image.model";
const ADAPTER: &str = "application/vnd.ollama.image.adapter";
/// How many folders there are from `manifests` down to the tags.
const DEPTH: usize = 4;

/// All models in a store, in the order of their names: the name as in `ollama list`, e.g.
/// `qwen2.5:0.5b`, and the GGUF file.
pub(super) fn models(store: &Path, skipped: &mut Vec<Skipped>) -> Vec<(String, PathBuf)> {
    let mut search = Search { store, found: Vec::new(), skipped };
    for folder in listed(store, search.skipped) {
        if folder.file_name().as_encoded_bytes().starts_with(b"manifest") {
            search.tags(&folder.path(), &mut Vec::new());
        }
    }
    let mut found = search.found;
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.dedup_by(|a, b| a.0 == b.0);
    found
}

struct Search<'a> {
    store: &'a Path,
    found: Vec<(String, PathBuf)>,
    skipped: &'a mut Vec<Skipped>,
}

impl Search<'_> {
    /// Walks down to the tags; `above` has the names of the folders on the way.
    fn tags(&mut self, folder: &Path, above: &mut Vec<String>) {
        for entry in listed(folder, self.skipped) {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            // A tag may be a link to a manifest among the blobs; a folder is never a link.
            let blob = match fs::metadata(&path) {
                Ok(metadata) if !metadata.is_dir() => blob(self.store, &path),
                Ok(_) if above.len() + 1 < DEPTH && !path.is_symlink() => {
                    above.push(name);
                    self.tags(&path, above);
                    above.pop();
                    continue;
                }
                Ok(_) => Err("a folder where a manifest should be".to_owned()),
                Err(error) => Err(why(&error)),
            };
            match blob {
                Ok(blob) => self.found.push((readable(above, &name), blob)),
                Err(reason) => self.skipped.push(Skipped::new(&path, reason)),
            }
        }
    }
}

/// `qwen2.5:0.5b`, with namespace and registry if they are not Ollama's own.
fn readable(above: &[String], tag: &str) -> String {
    let own = |part: &String| part == "library" || OWN.contains(&part.as_str());
    let kept = above.iter().enumerate().filter(|(i, part)| *i + 1 == above.len() || !own(part));
    let path: Vec<&str> = kept.map(|(_, part)| part.as_str()).collect();
    format!("{}:{tag}", path.join("/"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    schema_version: Option<u64>,
    layers: Option<Vec<ManifestLayer>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestLayer {
    media_type: String,
    digest: String,
    size: u64,
}

/// The GGUF file that a manifest lists, or why there is none.
fn blob(store: &Path, manifest: &Path) -> Result<PathBuf, String> {
    let text = read_text(manifest, LONGEST).map_err(|error| why(&error))?;
    let torn = |problem: String| format!("a damaged manifest ({problem}); pull the model again");
    let manifest: Manifest =
        serde_json::from_str(&text).map_err(|error| torn(error.to_string()))?;
    match manifest.schema_version {
        Some(2) => {}
        Some(other) => return Err(format!("a manifest of version {other}; only 2 is supported")),
        None => return Err(torn("schemaVersion is missing".to_owned())),
    }
    let layers = manifest.layers.unwrap_or_default();
    let of_type = |kind: &'static str| layers.iter().filter(move |it| it.media_type == kind);
    if of_type(ADAPTER).next().is_some() {
        return Err("a model with an adapter, which is not supported".to_owned());
    }
    let Some(model) = of_type(MODEL).next() else { return Err("it has no GGUF model".to_owned()) };
    let models = of_type(MODEL).count();
    if models > 1 {
        return Err(format!("a model in {models} parts, which is not supported"));
    }
    let hash = model
        .digest
        .strip_prefix("sha256:")
        .filter(|hash| hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let Some(hash) = hash else {
        return Err(torn(format!("the digest is `{}`", model.digest.escape_debug())));
    };
    let path = store.join("blobs").join(format!("sha256-{hash}"));
    match fs::metadata(&path) {
        Ok(metadata) if !metadata.is_file() => Err(format!("{} is not a file", path.display())),
        Ok(metadata) if metadata.len() != model.size => Err(format!(
            "its blob {} has {} of {} bytes; pull the model again",
            path.display(),
            metadata.len(),
            model.size
        )),
        Ok(_) => Ok(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("its blob {} is missing; pull the model again", path.display()))
        }
        Err(error) => Err(format!("its blob {}: {}", path.display(), why(&error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_ollama_lists() {
        let name = |above: &[&str]| {
            let above: Vec<String> = above.iter().map(|part| (*part).to_owned()).collect();
            readable(&above, "7b")
        };
        assert_eq!(name(&["registry.ollama.ai", "library", "qwen2.5"]), "qwen2.5:7b");
        assert_eq!(name(&["ollama.com", "library", "library"]), "library:7b");
        assert_eq!(name(&["registry.ollama.ai", "someone", "m"]), "someone/m:7b");
        assert_eq!(name(&["hf.co", "owner", "m-GGUF"]), "hf.co/owner/m-GGUF:7b");
    }
}
