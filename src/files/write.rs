//! Writing a file so that a crash, a kill or a full disk at any moment leaves either the old file
//! or the new one.
//!
//! A temporary file is locked (advisorily) while its writer lives, which distinguishes files that
//! are being written from leftovers of a kill: a process that gets the lock may remove the file.
//! The system releases the lock when the process ends, however it ends.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::{Builder, NamedTempFile};

use super::open::regular;
use super::{Open, open_regular};

/// Prefix and suffix of temporary files, with a unique part between them.
const PREFIX: &str = ".dovetail-";
const SUFFIX: &str = ".tmp";

/// How long other programs may keep a file open that is being replaced.
const OTHERS: Duration = Duration::from_secs(1);

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only its owner: for what a user said.
    Private,
    /// Everyone who may read what the user's programs usually write: for weights and charts.
    Usual,
}

impl Access {
    /// The permissions of a new file, which the user's umask reduces.
    #[cfg(unix)]
    pub(super) fn mode(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Usual => 0o666,
        }
    }
}

/// Creates the folder if there is none, for its owner alone: what was said is private.
///
/// # Errors
/// The system's.
pub fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Replaces or creates the file at `path` with what `fill` writes. The new file is next to `path`
/// until it is complete and on the disk, then takes its name; when this returns, the name is on the
/// disk too. If it fails, the old file remains. If `path` is a link, the file that it names is
/// written.
///
/// # Errors
/// Those of `fill` and the system's. What is not a regular file, such as a folder or a device, is
/// never replaced.
pub fn atomic_write(
    path: &Path,
    access: Access,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let path = &linked(path)?;
    let mut temporary = temporary(path, access)?;
    fill(temporary.as_file_mut())?;
    temporary.as_file().sync_all()?;
    take_name(temporary, path)?;
    sync_folder(folder_of(path))
}

/// The file that `path` names, through links. It may not exist yet.
fn linked(path: &Path) -> io::Result<PathBuf> {
    /// As many as Linux follows.
    const MOST_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
            Ok(about) if about.is_symlink() => path = folder_of(&path).join(fs::read_link(&path)?),
            about => return regular(about?.file_type()).map(|()| path),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "its links lead to each other"))
}

/// Renames the complete file at `from` to `to` in the same folder. When this returns, content and
/// name are on the disk.
///
/// # Errors
/// The system's.
pub fn durable_rename(from: &Path, to: &Path) -> io::Result<()> {
    // Windows only syncs files that are open for writing.
    open_regular(from, Open::Write)?.sync_all()?;
    fs::rename(from, to)?;
    sync_folder(folder_of(to))
}

/// Gives a temporary file its name. Windows refuses while another program has the replaced file
/// open, which programs that read it completely do for a moment.
pub(super) fn take_name(mut temporary: NamedTempFile, path: &Path) -> io::Result<()> {
    let began = Instant::now();
    loop {
        let refused = match temporary.persist(path) {
            Ok(_) => return Ok(()),
            Err(refused) => refused,
        };
        let open = cfg!(windows) && refused.error.kind() == io::ErrorKind::PermissionDenied;
        if !open || began.elapsed() > OTHERS {
            return Err(refused.error);
        }
        temporary = refused.file;
        std::thread::sleep(OTHERS / 200);
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Removes the temporary files that [`atomic_write`] left in `folder` when its process was killed;
/// those that a living process is writing stay. Returns how many were removed.
pub fn remove_leftovers(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let mut removed = 0;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|n| n.starts_with(PREFIX) && n.ends_with(SUFFIX));
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        // Without locks its writer may still be running, so it stays.
        let Ok(file) = open_regular(&entry.path(), Open::Read) else { continue };
        if file.try_lock().is_ok() && fs::remove_file(entry.path()).is_ok() {
            removed += 1;
        }
    }
    removed
}

/// A temporary file for what will be at `path`, locked, in the same folder, from which it removes
/// those of killed programs.
pub(super) fn temporary(path: &Path, access: Access) -> io::Result<NamedTempFile> {
    let folder = folder_of(path);
    remove_leftovers(folder);
    let mut builder = Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(access.mode()));
    #[cfg(not(unix))]
    let _ = access;
    loop {
        let file = builder.tempfile_in(folder)?;
        // Another process that removes leftovers may have run between creation and lock. Once the
        // file is locked and still there, it stays.
        let locked = !matches!(file.as_file().try_lock(), Err(TryLockError::WouldBlock));
        if locked && file.path().try_exists()? {
            return Ok(file);
        }
    }
}

/// Syncs the folder: a new name must survive a power failure, like the file itself.
fn sync_folder(folder: &Path) -> io::Result<()> {
    // Folders cannot be opened on every system, and not every file system can sync one.
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(folder)?.sync_all() {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_renamed_file_replaces_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("a.part");
        let whole = folder.path().join("a");
        fs::write(&part, "new").unwrap();
        fs::write(&whole, "old").unwrap();
        durable_rename(&part, &whole).unwrap();
        assert_eq!(fs::read_to_string(&whole).unwrap(), "new");
        assert!(!part.exists());
        assert!(durable_rename(&part, &whole).is_err());
        assert_eq!(fs::read_to_string(&whole).unwrap(), "new");
    }

    #[test]
    fn a_full_disk_leaves_the_file_before_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        atomic_write(&path, Access::Usual, |file| file.write_all(b"before")).unwrap();
        let full = atomic_write(&path, Access::Usual, |file| {
            file.write_all(b"half of the ne")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_abandoned_temporary_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let leftover = folder.path().join(format!("{PREFIX}abc123{SUFFIX}"));
        let others = [".tmpabc123", "notes.tmp", "a.json"].map(|name| folder.path().join(name));
        for path in others.iter().chain([&leftover]) {
            fs::write(path, "half").unwrap();
        }
        let path = folder.path().join("b.json");
        atomic_write(&path, Access::Private, |file| {
            assert!(!leftover.exists(), "the next write removes it");
            // Meanwhile another process starts.
            fs::write(&leftover, "half")?;
            assert_eq!(remove_leftovers(folder.path()), 1);
            file.write_all(b"whole")
        })
        .unwrap();
        assert!(!leftover.exists() && others.iter().all(|path| path.exists()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(remove_leftovers(folder.path()), 0);
        assert_eq!(remove_leftovers(&folder.path().join("nowhere")), 0);
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_and_what_is_no_file_is_never_replaced() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |path: &Path| atomic_write(path, Access::Usual, |file| file.write_all(b"new"));
        fs::create_dir(path("inside")).unwrap();
        fs::write(path("inside/file"), "old").unwrap();
        // Links to a file, to a link, and to a file that does not exist yet.
        for (link, to) in [("a", "inside/file"), ("b", "a"), ("c", "inside/new")] {
            symlink(to, path(link)).unwrap();
            write(&path(link)).unwrap();
            assert!(path(link).is_symlink(), "{link}");
            assert_eq!(fs::read_to_string(path(link)).unwrap(), "new", "{link}");
        }
        assert_eq!(fs::read_to_string(path("inside/file")).unwrap(), "new");
        assert_eq!(fs::read_to_string(path("inside/new")).unwrap(), "new");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), fifo, mode, 0).unwrap();
        symlink("circle", path("circle")).unwrap();
        symlink("/dev/null", path("device")).unwrap();
        for (name, what) in [
            ("pipe", "a pipe"),
            ("device", "a device"),
            ("inside", "a folder"),
            ("circle", "links lead to each other"),
        ] {
            let error = write(&path(name)).unwrap_err().to_string();
            assert!(error.contains(what), "{name}: {error}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 7, "nothing is left over");
    }

    #[cfg(unix)]
    #[test]
    fn a_private_file_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |access| {
            let path = folder.path().join("a");
            atomic_write(&path, access, |_| Ok(())).unwrap();
            fs::metadata(&path).unwrap().permissions().mode() & 0o777
        };
        assert_eq!(mode(Access::Private), 0o600);
        assert_eq!(mode(Access::Usual) & 0o600, 0o600);
    }
}
