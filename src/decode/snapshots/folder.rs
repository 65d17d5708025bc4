//! The folder of snapshots, using only the names of its files: the target and the saved
//! conversation that a file belongs to. Deleting the files of a conversation needs no model. It
//! must not depend on what is in a file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::{DiskCache, cache_folder, checksum};

/// The folder for such files, e.g. `~/.cache/dovetail/kv`; `None` without a home folder.
pub fn snapshot_folder() -> Option<PathBuf> {
    cache_folder("kv")
}

/// The snapshots in `folder`, of any target.
pub(super) fn snapshot_cache(folder: PathBuf) -> DiskCache {
    DiskCache::new(folder, "kv")
}

/// The part of a name that identifies a target or a conversation without revealing anything about
/// it.
pub(super) fn part(described: &str) -> String {
    format!("{:016x}", checksum(described.as_bytes()))
}

/// The name of the file for a target, a saved conversation and a text.
pub(super) fn name_of(target: &str, conversation: &str, text: u64) -> String {
    format!("{}-{}-{text:016x}", part(target), part(conversation))
}

/// The path of a file as it could be in `folder` for a target and a saved conversation.
#[cfg(test)]
pub fn snapshot_path(folder: &Path, target: &str, conversation: &str) -> PathBuf {
    snapshot_cache(folder.to_owned()).path(&name_of(target, conversation, 0))
}

/// The part of a file's name that identifies the conversation; `None` if the name has another form.
fn conversation_of(path: &Path) -> Option<&str> {
    let mut parts = path.file_stem()?.to_str()?.split('-');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(conversation), Some(_), None) => Some(conversation),
        _ => None,
    }
}

/// Whether the file belongs to the saved conversation with this name.
pub(super) fn is_of(path: &Path, conversation: &str) -> bool {
    conversation_of(path) == Some(&part(conversation))
}

fn remove(folder: &Path, goes: impl Fn(&Path) -> bool) {
    let mut files = snapshot_cache(folder.to_owned()).files();
    files.retain(|path| goes(path));
    for path in files {
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(file = %path.display(), "cannot remove a snapshot: {error}");
        }
    }
}

/// Removes what `folder` holds for the saved conversation with this name, for any target.
pub fn discard_snapshots(folder: &Path, conversation: &str) {
    remove(folder, |path| is_of(path, conversation));
}

/// Removes what `folder` holds for conversations other than those with these names.
pub fn discard_other_snapshots(folder: &Path, conversations: &[String]) {
    let known: Vec<String> = conversations.iter().map(|name| part(name)).collect();
    let is_known = |path: &Path| {
        conversation_of(path).is_some_and(|part| known.iter().any(|known| known == part))
    };
    remove(folder, |path| !is_known(path));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_with_their_conversation_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: String| fs::write(folder.path().join(name), "x").unwrap();
        let there = || {
            let entries = fs::read_dir(folder.path()).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        for (target, text) in [("small", 1), ("small", 2), ("large", 1)] {
            file(format!("{}.kv", name_of(target, "first", text)));
            file(format!("{}.kv", name_of(target, "second", text)));
        }
        file("notes.txt".to_string());
        assert_eq!(there().len(), 7);
        assert!(there().iter().all(|name| !name.contains("first")), "names tell nothing");
        discard_snapshots(folder.path(), "first");
        assert_eq!(there().len(), 4);
        discard_snapshots(folder.path(), "third");
        assert!(there().iter().filter(|name| name.ends_with("kv")).count() == 3);
        // A file of another program, and one of an earlier version that names no conversation.
        file("0123456789abcdef-0123456789abcdef.kv".to_string());
        discard_other_snapshots(folder.path(), &["second".to_string()]);
        assert_eq!(there().len(), 4);
        discard_other_snapshots(folder.path(), &[]);
        assert_eq!(there(), ["notes.txt"]);
        discard_snapshots(&folder.path().join("none"), "first");
    }
}
