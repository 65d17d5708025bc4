//! Conversations to and from files that other programs write and read. Nothing is overwritten. Must
//! never know the screen.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf, is_separator};

use crate::chat::{Exchange, LeftOut, SavedChat};
use crate::files::{Access, Open, home_dir, open_regular, read_text};
use crate::printable::printable_line;
use crate::tui::event::NamedFile;

/// Most bytes of a file to import.
const LONGEST: u64 = 64_000_000;

/// Writes a conversation to a new file; JSON lines are appended to those of a file. Says what it
/// did.
///
/// # Errors
/// Why not, with the remedy.
pub(crate) fn export(path: &str, text: &str) -> Result<String, String> {
    let file = expanded(path);
    let is_added = Exchange::of_name(path) == Ok(Exchange::ShareGpt);
    let written = write_whole(&file, is_added, |opened| opened.write_all(text.as_bytes()));
    match written {
        Ok(()) => Ok(format!("Exported to {}", file.display())),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(format!("{} already exists: choose another name", file.display()))
        }
        Err(error) => Err(format!("Cannot write {}: {error}", file.display())),
    }
}

/// Has `fill` write a new file, or append lines to one; where it fails, as on a full disk, nothing
/// of it stays.
pub(crate) fn write_whole(
    path: &Path,
    is_added: bool,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    // Not in append mode: Windows cannot cut such a file again.
    let open = if is_added { Open::Create } else { Open::New };
    let mut file = open_regular(path, open(Access::Private))?;
    let before = file.seek(SeekFrom::End(0))?;
    let written = end_line(&mut file, before).and_then(|()| fill(&mut file));
    if written.is_err() {
        // The first error is the one to report.
        let _ = file.set_len(before);
        drop(file);
        if !is_added {
            let _ = fs::remove_file(path);
        }
    }
    written
}

/// Ends the last line of a file of `length` bytes, if it has no end, so that another can follow.
fn end_line(file: &mut File, length: u64) -> io::Result<()> {
    let mut last = [b'\n'];
    if length > 0 {
        file.seek(SeekFrom::Start(length - 1))?;
        file.read_exact(&mut last)?;
    }
    if last == *b"\n" { Ok(()) } else { file.write_all(b"\n") }
}

/// Reads a conversation.
///
/// # Errors
/// Why not, with the file.
pub(crate) fn import(path: &str) -> Result<(SavedChat, LeftOut), String> {
    let way = Exchange::of_name(path)?;
    let (file, text) = read(path, LONGEST)?;
    way.read(&text).map_err(|why| format!("{} is not a conversation: {why}", file.display()))
}

/// The name and text of a file for a message.
///
/// # Errors
/// Why it cannot be read, with the file.
pub(crate) fn text_of(path: &str) -> Result<(String, String), String> {
    let (file, text) = read(path, 2_000_000)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    Ok((printable_line(&name).into_owned(), text))
}

fn read(path: &str, most: u64) -> Result<(PathBuf, String), String> {
    let file = expanded(path);
    match read_text(&file, most) {
        Ok(text) => Ok((file, text)),
        Err(error) => Err(format!("Cannot read {}: {error}", file.display())),
    }
}

/// A file by its path in a message, with its text for the model.
pub(crate) fn named(path: String) -> NamedFile {
    let text = text_of(&path).and_then(|(_, text)| match text.contains('\0') {
        true => Err(format!("Cannot read {path}: it is not text")),
        false => Ok(text),
    });
    (printable_line(&path).into_owned(), text)
}

/// The names in a folder, those of folders with a slash after them, which every system takes; none
/// if it cannot be read.
pub(crate) fn names_in(folder: &str) -> Vec<String> {
    /// More are not worth showing.
    const MOST: usize = 5000;
    let at = expanded(if folder.is_empty() { "." } else { folder });
    let mut names: Vec<String> = std::fs::read_dir(at)
        .into_iter()
        .flatten()
        .flatten()
        .take(MOST)
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            // A link to a folder is one.
            let is_folder = entry.path().is_dir();
            Some(if is_folder { name + "/" } else { name })
        })
        // What cannot be written in one line is not offered.
        .filter(|name| !name.contains(char::is_control))
        .collect();
    names.sort();
    names
}

/// `~` before a separator is the home folder, as in a shell.
pub(crate) fn expanded(path: &str) -> PathBuf {
    let rest = path.strip_prefix('~').and_then(|rest| rest.strip_prefix(is_separator));
    match (rest, home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Message, Role, SavedTurn};

    /// Exports one question in the format of the name.
    fn exported(path: &str, turn: &SavedTurn) -> Result<String, String> {
        let text = Exchange::of_name(path)?.write(std::slice::from_ref(turn));
        export(path, &text)
    }

    #[test]
    fn nothing_is_overwritten_and_lines_are_added() {
        let folder = tempfile::tempdir().unwrap();
        let turn = SavedTurn::whole(Message::new(Role::User, "Hi"));
        let path = |name: &str| folder.path().join(name).display().to_string();
        for name in ["a.md", "a.json"] {
            exported(&path(name), &turn).unwrap();
            let again = exported(&path(name), &turn).unwrap_err();
            assert!(again.contains("choose another"), "{again}");
            assert_eq!(import(&path(name)).unwrap().0.turns, std::slice::from_ref(&turn));
        }
        let lines = folder.path().join("a.jsonl");
        exported(&path("a.jsonl"), &turn).unwrap();
        // Another program has left its last line without an end.
        let whole = fs::read_to_string(&lines).unwrap();
        fs::write(&lines, whole.trim_end()).unwrap();
        exported(&path("a.jsonl"), &turn).unwrap();
        let chats = crate::train::chats::read(&lines).unwrap();
        let read: Vec<_> = chats.map(|line| line.unwrap().1.unwrap()).collect();
        assert_eq!(read, [vec![turn.message.clone()], vec![turn.message.clone()]]);
        assert!(import(&path("none.md")).unwrap_err().contains("none.md"));
        assert!(import(&path("none.txt")).unwrap_err().contains(".jsonl"));
    }

    #[cfg(unix)]
    #[test]
    fn an_export_is_its_owners_alone_and_goes_through_no_link() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "{}\n").unwrap();
        for name in ["a.md", "a.jsonl", "a.html"] {
            let file = folder.path().join(name);
            symlink(&other, &file).unwrap();
            export(&file.display().to_string(), "").unwrap_err();
            fs::remove_file(&file).unwrap();
            export(&file.display().to_string(), "").unwrap();
            let mode = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "{}\n");
    }

    #[test]
    fn a_full_disk_leaves_no_part_of_what_is_exported() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("a.md");
        let old = folder.path().join("a.jsonl");
        fs::write(&old, "{}\n").unwrap();
        for (path, is_added) in [(&new, false), (&old, true)] {
            let written = write_whole(path, is_added, |file| {
                file.write_all(b"half of ")?;
                Err(ErrorKind::StorageFull.into())
            });
            assert_eq!(written.unwrap_err().kind(), ErrorKind::StorageFull);
        }
        assert!(!new.exists());
        assert_eq!(fs::read_to_string(&old).unwrap(), "{}\n");
    }

    #[test]
    fn the_home_folder_may_be_written_short_with_the_separators_of_the_system() {
        let home = home_dir().expect("a home folder");
        for separator in ['/', '\\'] {
            let path = format!("~{separator}a");
            let whole = if is_separator(separator) { home.join("a") } else { path.clone().into() };
            assert_eq!(expanded(&path), whole);
        }
        assert_eq!(expanded("~a"), PathBuf::from("~a"));
    }

    #[test]
    fn named_files_are_read_and_folders_listed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("a.txt"), "one\n").unwrap();
        std::fs::write(path("b.bin"), [0x7f, b'E', 0, 1]).unwrap();
        std::fs::write(path("c.bin"), [0xff, 0xfe]).unwrap();
        std::fs::create_dir(path("sub")).unwrap();
        assert_eq!(named(path("a.txt")).1, Ok("one\n".to_string()));
        for (name, part) in [("b.bin", "not text"), ("c.bin", "UTF-8"), ("sub", "folder")] {
            assert!(named(path(name)).1.unwrap_err().contains(part), "{name}");
        }
        assert!(named(path("none")).1.unwrap_err().contains("none"));
        assert_eq!(names_in(&path("")), ["a.txt", "b.bin", "c.bin", "sub/"]);
        assert!(names_in(&path("none")).is_empty());
    }
}
