//! Contents of the cache under the names of a repository's files.

use std::fs;
use std::path::{Path, PathBuf};

/// Makes the content `blob` appear as `file`: through a relative link, or a copy if links are not
/// possible.
pub(super) fn link(blob: &Path, file: &Path) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    if fs::symlink_metadata(file).is_ok() {
        fs::remove_file(file)?;
    }
    #[cfg(unix)]
    {
        // snapshots/<commit>/<file> → ../../blobs/<etag>, with one more step for each folder in a
        // name.
        let (Some(root), Some(content)) = (blob.parent().and_then(Path::parent), blob.file_name())
        else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        let below = file.strip_prefix(root).map_err(std::io::Error::other)?;
        let mut target: PathBuf = below.components().skip(1).map(|_| "..").collect();
        target.push("blobs");
        target.push(content);
        std::os::unix::fs::symlink(target, file)
    }
    #[cfg(not(unix))]
    fs::copy(blob, file).map(|_| ())
}
