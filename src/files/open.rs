//! Opens files that somebody else may have put there: where a file is expected, there may be a pipe
//! that blocks for ever, a device, or a link to another file. Every file of the program is opened
//! here, which a test checks. It must not depend on what a file holds.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;

use super::Access;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// To read it.
    Read,
    /// To write into it. It must exist.
    Write,
    /// To read it and to write into it. It is created if it does not exist, and may not be a link.
    Create(Access),
    /// To write at its end. It is created if it does not exist, and may not be a link.
    Append(Access),
    /// To write a new file. Nothing may have its name.
    New(Access),
}

/// Opens a regular file. It never waits for a pipe or a device, and never changes one.
///
/// # Errors
/// The system's, with [`ErrorKind::IsADirectory`] for a folder, and [`ErrorKind::InvalidInput`] for
/// anything else that is not a regular file.
pub fn open_regular(path: &Path, open: Open) -> io::Result<File> {
    // Checked before it is opened, because opening a pipe waits for its other end and opening a
    // device may have effects.
    match open {
        Open::Read | Open::Write => regular(fs::metadata(path)?.file_type())?,
        Open::Create(_) | Open::Append(_) => match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            about => regular(about?.file_type())?,
        },
        // The system opens nothing that has the name already.
        Open::New(_) => {}
    }
    let file = options(open).open(path)?;
    // Another file may have replaced it in the meantime.
    regular(file.metadata()?.file_type())?;
    Ok(file)
}

fn options(open: Open) -> OpenOptions {
    let mut options = OpenOptions::new();
    match open {
        Open::Read => options.read(true),
        Open::Write => options.write(true),
        Open::Create(_) => options.read(true).write(true).create(true),
        Open::Append(_) => options.append(true).create(true),
        Open::New(_) => options.write(true).create_new(true),
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // A pipe or a link that has replaced the file since the check.
        let links = match open {
            Open::Read | Open::Write => 0,
            Open::Create(_) | Open::Append(_) | Open::New(_) => libc::O_NOFOLLOW,
        };
        options.custom_flags(libc::O_NONBLOCK | links);
        if let Open::Create(access) | Open::Append(access) | Open::New(access) = open {
            options.mode(access.mode());
        }
    }
    options
}

/// Whether it is a regular file; otherwise, what it is.
pub(super) fn regular(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        return Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder, not a file"));
    }
    let problem = format!("it is {}, not a regular file", special(kind));
    Err(io::Error::new(ErrorKind::InvalidInput, problem))
}

#[cfg(unix)]
fn special(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_symlink() {
        "a link"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn special(_: FileType) -> &'static str {
    "something else"
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Every way in which a file is opened.
    const ALL: [Open; 5] = [
        Open::Read,
        Open::Write,
        Open::Create(Access::Private),
        Open::Append(Access::Private),
        Open::New(Access::Private),
    ];

    #[cfg(unix)]
    #[test]
    fn pipes_devices_folders_and_links_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let device = folder.path().join("device");
        std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
        for open in ALL {
            let may_follow = matches!(open, Open::Read | Open::Write);
            for (path, what) in [
                (pipe.as_path(), "a pipe"),
                (Path::new("/dev/zero"), "a device"),
                (&device, if may_follow { "a device" } else { "a link" }),
                (folder.path(), "a folder"),
            ] {
                let error = open_regular(path, open).unwrap_err();
                let refused = match open {
                    Open::New(_) => error.kind() == ErrorKind::AlreadyExists,
                    _ => error.to_string().contains(what),
                };
                assert!(refused, "{open:?} of {}: {error}", path.display());
            }
        }
    }

    #[test]
    fn a_file_is_opened_as_it_is_or_created_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        for (number, open) in ALL.into_iter().enumerate() {
            let path = folder.path().join(number.to_string());
            let creates = !matches!(open, Open::Read | Open::Write);
            assert_eq!(open_regular(&path, open).is_ok(), creates, "{open:?}");
            #[cfg(unix)]
            if creates {
                use std::os::unix::fs::PermissionsExt;
                let mode = fs::metadata(&path).unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o600, "{open:?}");
            }
            fs::write(&path, "before").unwrap();
            let wrote = open_regular(&path, open).and_then(|mut file| file.write_all(b"AFTER"));
            let holds = match open {
                Open::Write | Open::Create(_) => "AFTERe",
                Open::Append(_) => "beforeAFTER",
                Open::Read | Open::New(_) => "before",
            };
            assert_eq!(fs::read_to_string(&path).unwrap(), holds, "{open:?}: {wrote:?}");
        }
    }
}
