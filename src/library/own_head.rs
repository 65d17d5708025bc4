//! The draft head that was made for a target: found by the fingerprint in the head's folder, among
//! the heads of this program and those in the user's data folder. It must never open a head's
//! weights.

use std::cell::LazyCell;
use std::path::{Path, PathBuf};

use super::bundled;
use super::drafts::draft_in;
use super::fingerprint::TargetFingerprint;
use super::folder::{Folder, json};
use super::{DraftFiles, HeadFiles, LibraryError, Result, Spec, TargetFiles, open_target};
use crate::files::{Access, atomic_write, paths_in, user_dirs};
use crate::model::Config;

/// The file in a head's folder with the fingerprints of the targets for which it was made. It is a
/// list, because one head may serve several files of a model.
const FILE: &str = "target.json";
/// The user's own heads, in the data folder.
const HEADS: &str = "heads";

/// What was found for a target.
#[derive(Default)]
pub struct OwnHead {
    /// The head, if there is one.
    pub head: Option<HeadFiles>,
    /// What is wrong with others, one sentence each.
    pub notices: Vec<String>,
}

/// The head that was made for `target`: the user's own takes precedence over one of this program.
pub fn own_head(target: &TargetFiles) -> OwnHead {
    find(target, all(user_heads().as_deref(), bundled::HEADS))
}

/// The head that was made for the target that `spec` names, which has this shape. It opens the
/// target only if there is a head of its size.
pub fn own_head_of(spec: &Spec, config: &Config) -> Option<HeadFiles> {
    let sized = |head: &Folder| {
        let made_for = fingerprints(head).unwrap_or_default();
        made_for.iter().any(|of| (of.hidden, of.vocab) == (config.hidden, config.vocab))
    };
    let users = user_heads();
    let mut heads = all(users.as_deref(), bundled::HEADS).filter(sized).peekable();
    heads.peek()?;
    find(&open_target(spec, &mut |_| {}).ok()?, heads).head
}

fn user_heads() -> Option<PathBuf> {
    user_dirs().map(|dirs| dirs.data.join(HEADS))
}

/// The heads in a folder and those of the program. A folder that cannot be read has none.
fn all(folder: Option<&Path>, built: &[Folder]) -> impl Iterator<Item = Folder> {
    let users = folder.and_then(|folder| paths_in(folder).ok()).unwrap_or_default();
    let users = users.into_iter().filter(|path| path.is_dir()).map(Folder::Disk);
    users.chain(built.iter().cloned())
}

/// Notes in the folder of a head that it was made for `target`.
///
/// # Errors
/// [`LibraryError::Io`] if the disk is full or refuses.
pub fn made_for(folder: &Path, target: &TargetFingerprint) -> Result<()> {
    let path = folder.join(FILE);
    let failed = |source| LibraryError::io(&path, source);
    let mut text = serde_json::to_vec_pretty(&[target]).map_err(|error| failed(error.into()))?;
    text.push(b'\n');
    atomic_write(&path, Access::Usual, |file| std::io::Write::write_all(file, &text))
        .map_err(failed)
}

/// The model for which the head in `folder` was made, if its folder says that this is not `target`.
///
/// # Errors
/// [`LibraryError`] if the note in the folder cannot be read.
pub fn made_for_another(folder: &Path, target: &TargetFiles) -> Result<Option<String>> {
    let made_for = fingerprints(&Folder::Disk(folder.to_owned()))?;
    let Some(first) = made_for.first() else { return Ok(None) };
    let own = TargetFingerprint::of(target);
    let fits = made_for.iter().any(|made_for| made_for.is_model_of(&own));
    Ok((!fits).then(|| first.name.clone()))
}

fn find(target: &TargetFiles, heads: impl Iterator<Item = Folder>) -> OwnHead {
    let mut found = OwnHead::default();
    // The target is only fingerprinted if there is a head of its size.
    let own = LazyCell::new(|| TargetFingerprint::of(target));
    let size = (target.config.hidden, target.config.vocab);
    for head in heads {
        let made_for = match fingerprints(&head) {
            Ok(made_for) => made_for,
            Err(error) => {
                let name = head.name();
                found.notices.push(format!(
                    "Ignoring the draft head in {name}: {error}; train it again, or delete its \
                     {FILE}."
                ));
                continue;
            }
        };
        let mut sized = made_for.iter().filter(|other| (other.hidden, other.vocab) == size);
        if !sized.any(|made_for| made_for.is_model_of(&own)) {
            continue;
        }
        match draft_in(&head, None).and_then(DraftFiles::head) {
            Ok(files) => {
                found.head = Some(files);
                break;
            }
            Err(error) => found
                .notices
                .push(format!("Ignoring the draft head that was trained for this model: {error}.")),
        }
    }
    found
}

/// The targets for which a head was made; none if its folder does not say.
fn fingerprints(head: &Folder) -> Result<Vec<TargetFingerprint>> {
    let Some(blob) = head.blob(FILE)? else { return Ok(Vec::new()) };
    serde_json::from_value(json(&blob)?)
        .map_err(|error| LibraryError::damaged(blob.name(), "fingerprint", error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::model::head::HeadWeights;

    fn bundled_target() -> TargetFiles {
        open_target(&Spec::Bundled, &mut |_| {}).unwrap()
    }

    /// A folder of heads that contains the bundled one under each of these names.
    fn heads(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let head = folder.path().join(name);
            fs::create_dir(&head).unwrap();
            for file in ["config.json", "model.safetensors"] {
                let Ok(Some(blob)) = bundled::HEAD.blob(file) else { panic!("{file}") };
                fs::write(head.join(file), &blob[..]).unwrap();
            }
        }
        folder
    }

    fn name(found: &OwnHead) -> Option<String> {
        let path = PathBuf::from(&found.head.as_ref()?.name);
        Some(path.file_name().unwrap().to_string_lossy().into_owned())
    }

    #[test]
    fn a_head_is_found_by_the_fingerprint_of_its_target_alone() {
        let target = bundled_target();
        let own = TargetFingerprint::of(&target);
        let folder = heads(&["a-unnamed", "b-other-weights", "c-other-words", "d-this", "e-this"]);
        let find = || find(&target, all(Some(folder.path()), &[]));
        assert!(find().head.is_none() && find().notices.is_empty());

        // Other weights of the same shape, and another vocabulary of the same size.
        let note = |head: &str, of: &TargetFingerprint| {
            made_for(&folder.path().join(head), of).unwrap();
        };
        let other = (Some("0".repeat(16)), "0".repeat(16));
        let other = TargetFingerprint { norms: other.0, weights: other.1, ..own.clone() };
        note("b-other-weights", &other);
        note("c-other-words", &TargetFingerprint { tokenizer: "0".repeat(16), ..own.clone() });
        assert!(find().head.is_none() && find().notices.is_empty());
        note("d-this", &TargetFingerprint { name: "as it was called".into(), ..own.clone() });
        note("e-this", &own);
        assert_eq!(name(&find()).as_deref(), Some("d-this"));

        // A damaged note excludes its head, is reported, and affects no other head.
        let damaged = folder.path().join("d-this").join(FILE);
        for text in ["[{\"name\": \"x\"", "{}", "[{\"hidden\": 256}]"] {
            fs::write(&damaged, text).unwrap();
            let found = find();
            assert_eq!(name(&found).as_deref(), Some("e-this"));
            let [notice] = &found.notices[..] else { panic!("{:?}", found.notices) };
            assert!(notice.contains("d-this") && notice.contains("delete its"), "{notice}");
        }
        // A head that serves several files of a model.
        let other = TargetFingerprint { norms: None, weights: "1".repeat(16), ..own.clone() };
        fs::write(&damaged, serde_json::to_vec(&[other, own]).unwrap()).unwrap();
        assert_eq!(name(&find()).as_deref(), Some("d-this"));
        // A head that cannot be opened is reported too.
        fs::remove_file(folder.path().join("d-this/config.json")).unwrap();
        let found = find();
        assert_eq!(name(&found).as_deref(), Some("e-this"));
        assert!(found.notices[0].contains("config.json is missing"), "{:?}", found.notices);
    }

    #[test]
    fn every_head_of_the_program_can_be_loaded_and_names_a_target_of_its_size() {
        for folder in bundled::HEADS {
            let head = draft_in(folder, None).and_then(DraftFiles::head).unwrap();
            let weights = HeadWeights::load(&head.config, &*head.tensors).unwrap();
            assert!(weights.draft_vocab.is_some(), "{}", head.name);
            for target in fingerprints(folder).unwrap() {
                head.config.fits(target.hidden, target.vocab).unwrap();
            }
        }
    }

    #[test]
    fn a_head_of_the_program_is_found_like_one_of_the_user() {
        let target = bundled_target();
        let own = serde_json::to_vec(&[TargetFingerprint::of(&target)]).unwrap();
        let Folder::Built(_, files) = &bundled::HEAD else { panic!("built") };
        let files: Vec<(&'static str, &'static [u8])> =
            files.iter().copied().chain([(FILE, &*own.leak())]).collect();
        let built = [Folder::Built("the bundled head", files.leak())];
        let found = find(&target, all(None, &built));
        assert_eq!(found.head.map(|head| head.name).as_deref(), Some("the bundled head"));
        // The user's own head takes precedence over it.
        let folder = heads(&["mine"]);
        made_for(&folder.path().join("mine"), &TargetFingerprint::of(&target)).unwrap();
        let found = find(&target, all(Some(folder.path()), &built));
        assert_eq!(name(&found).as_deref(), Some("mine"));
    }
}
