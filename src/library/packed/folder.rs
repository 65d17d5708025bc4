//! The folder of packed weights: how many bytes it may hold, and which files are removed first. It
//! must not depend on what a file holds.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::PackedCache;
use crate::files::remove_leftovers;

/// The extension of every file.
pub(super) const ENDING: &str = "packed";

/// Makes room for `bytes` in the file at `path`, whose current contents do not count: removes the
/// least recently used files, and those left by killed programs.
///
/// # Errors
/// It is more than allowed, or the folder cannot be created.
pub(super) fn make_room(cache: &PackedCache, bytes: u64, path: &Path) -> io::Result<()> {
    let PackedCache { folder, most } = cache;
    if bytes > *most {
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        return Err(io::Error::other(format!(
            "they need {:.1} GB, but `pack_cache` allows {:.1} GB",
            gigabytes(bytes),
            gigabytes(*most)
        )));
    }
    fs::create_dir_all(folder)?;
    remove_leftovers(folder);
    let mut kept: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let file = entry.path();
        let metadata = entry.metadata()?;
        if metadata.is_file() && file != path && file.extension().is_some_and(|end| end == ENDING) {
            kept.push((metadata.modified()?, metadata.len(), file));
        }
    }
    kept.sort();
    let mut sum = bytes + kept.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
    for (_, bytes, file) in kept {
        if sum <= *most {
            break;
        }
        tracing::info!(file = %file.display(), "deleting packed weights to free space");
        fs::remove_file(file)?;
        sum -= bytes;
    }
    Ok(())
}
