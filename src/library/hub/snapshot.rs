//! The files of a snapshot in the cache, which are links to the contents of its repository. Other
//! programs write there too, and may have put links to other places next to them. It must not
//! depend on what is downloaded.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::files::is_tame;

/// The most files and folders of a snapshot: more than any repository has, and quick to list.
const MOST_ENTRIES: usize = 200_000;

/// Whether `snapshot` is a folder of the cache and not a link to another one.
pub(in crate::library) fn is_snapshot(snapshot: &Path) -> bool {
    snapshot.is_dir() && snapshot.ancestors().take(2).all(|folder| !folder.is_symlink())
}

/// Whether `path` in `snapshot` is a file of it, or a link to a content of the same repository.
pub(in crate::library) fn is_content(path: &Path, snapshot: &Path) -> bool {
    let Ok(file) = fs::canonicalize(path) else { return false };
    let contents = snapshot.ancestors().nth(2).map(|repository| repository.join("blobs"));
    let mut folders = contents.iter().map(PathBuf::as_path).chain([snapshot]);
    file.is_file()
        && folders.any(|it| fs::canonicalize(it).is_ok_and(|folder| file.starts_with(folder)))
}

/// The files in a snapshot, by their names in the repository; `None` if they cannot be listed.
pub(super) fn names_below(snapshot: &Path) -> Option<Vec<String>> {
    if !is_snapshot(snapshot) {
        return None;
    }
    let mut names = Vec::new();
    let mut seen = 0;
    let mut folders = vec![(snapshot.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for entry in fs::read_dir(folder).ok()? {
            let entry = entry.ok()?;
            let path = entry.path();
            seen += 1;
            if seen > MOST_ENTRIES {
                return None;
            }
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type().ok()?.is_dir() {
                folders.push((path, format!("{name}/")));
            } else if is_tame(&name) && is_content(&path, snapshot) {
                names.push(name);
            }
        }
    }
    Some(names)
}

/// Makes the content `blob` appear as `file`: through a relative link, or a copy if links are not
/// possible.
pub(super) fn link(blob: &Path, file: &Path) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    // Another download of the same file may remove or make it meanwhile.
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    #[cfg(unix)]
    {
        // snapshots/<commit>/<file> → ../../blobs/<etag>, with one more step for each folder in a
        // name.
        let (Some(root), Some(content)) = (blob.parent().and_then(Path::parent), blob.file_name())
        else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let below = file.strip_prefix(root).map_err(io::Error::other)?;
        let mut target: PathBuf = below.components().skip(1).map(|_| "..").collect();
        target.push("blobs");
        target.push(content);
        match std::os::unix::fs::symlink(target, file) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }
    #[cfg(not(unix))]
    fs::copy(blob, file).map(|_| ())
}
