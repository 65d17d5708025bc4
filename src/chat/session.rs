//! Saved conversations: one JSON file each, replaced atomically, never deleted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Message, Role, clock};

/// One message and when it was said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Who said what.
    #[serde(flatten)]
    pub message: Message,
    /// Unix time in seconds.
    pub at: u64,
}

/// A conversation as it is saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Name of its file without `.json`; sorts by time of creation.
    pub id: String,
    /// For lists: the first line of the first question.
    pub title: String,
    /// Unix time of creation in seconds.
    pub created: u64,
    /// Unix time of the last message in seconds.
    pub updated: u64,
    /// The target that answered, by name.
    #[serde(default)]
    pub target: String,
    /// The messages in order, system message included.
    pub messages: Vec<Entry>,
}

impl Session {
    /// An empty conversation that begins now.
    pub fn new(target: &str) -> Self {
        let now = clock::now();
        // Two sessions of one second are told apart by process and sub-second time.
        let fine = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |elapsed| elapsed.subsec_micros());
        Self {
            id: format!(
                "{}-{:06}-{}",
                clock::format(now, "%Y%m%d-%H%M%S"),
                fine,
                std::process::id()
            ),
            title: String::new(),
            created: now,
            updated: now,
            target: target.to_owned(),
            messages: Vec::new(),
        }
    }

    /// Adds a message said now; the first question gives the title.
    pub fn push(&mut self, message: Message) {
        const LONGEST_TITLE: usize = 60;
        if self.title.is_empty() && message.role == Role::User {
            let line = message.content.lines().map(str::trim).find(|line| !line.is_empty());
            self.title = line.unwrap_or_default().chars().take(LONGEST_TITLE).collect();
        }
        self.updated = clock::now();
        self.messages.push(Entry { message, at: self.updated });
    }

    /// The messages alone, as a template takes them.
    pub fn conversation(&self) -> Vec<Message> {
        self.messages.iter().map(|entry| entry.message.clone()).collect()
    }
}

/// A line of the list of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHead {
    /// For [`SessionStore::load`].
    pub id: String,
    /// Title.
    pub title: String,
    /// Unix time of the last message in seconds.
    pub updated: u64,
    /// Number of messages.
    pub messages: usize,
}

impl SessionHead {
    /// When the last message was said, for lists (UTC).
    pub fn date(&self) -> String {
        clock::format(self.updated, "%Y-%m-%d %H:%M")
    }
}

/// What the folder holds.
#[derive(Debug, Default)]
pub struct Listing {
    /// Readable sessions, the latest first.
    pub sessions: Vec<SessionHead>,
    /// Files that could not be read; they stay where they are.
    pub broken: Vec<SessionError>,
}

/// Why a session could not be saved or read.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Writing failed; what was saved before is untouched.
    #[error("cannot save the conversation to {}: {source}; {}", path.display(), remedy(source))]
    Save {
        /// File that was to be written.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Reading failed.
    #[error("cannot read {}: {source}; {}", path.display(), remedy(source))]
    Read {
        /// File or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is not a session.
    #[error(
        "{} is not a saved conversation: {reason}; it was left as it is, mend it or move it away",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        reason: String,
    },
    /// A name that is no session's.
    #[error("`{0}` is not the name of a saved conversation; /load lists them")]
    Name(String),
    /// No home folder to put sessions in.
    #[error("no data folder: set HOME, or XDG_DATA_HOME, to a folder that can be written")]
    NoFolder,
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "make room on that disk, then save again; the conversation is still on the screen"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "make the folder writable for you, or set XDG_DATA_HOME to one that is"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a file stands where the folder should be; move it away"
        }
        io::ErrorKind::NotFound => "check the name",
        _ => "check the disk and the folder, then try again",
    }
}

/// A folder of sessions.
#[derive(Clone, Debug)]
pub struct SessionStore {
    folder: PathBuf,
}

impl SessionStore {
    /// Sessions in `folder`, which is made when the first one is saved.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Sessions in the user's data folder, e.g. `~/.local/share/dovetail/sessions`.
    ///
    /// # Errors
    /// [`SessionError::NoFolder`].
    pub fn in_data_folder() -> Result<Self, SessionError> {
        directories::ProjectDirs::from("", "", "dovetail")
            .map(|dirs| Self::at(dirs.data_dir().join("sessions")))
            .ok_or(SessionError::NoFolder)
    }

    /// Where the sessions are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Saves `session` and returns its file. The file appears whole or not at all.
    ///
    /// # Errors
    /// [`SessionError::Save`]; an earlier state of the session is then still on disk.
    pub fn save(&self, session: &Session) -> Result<PathBuf, SessionError> {
        let path = self.path(&session.id)?;
        let failed = |source| SessionError::Save { path: path.clone(), source };
        let text = serde_json::to_vec_pretty(session).map_err(|error| failed(error.into()))?;
        fs::create_dir_all(&self.folder).map_err(failed)?;
        replace(&path, |file| file.write_all(&text)).map_err(failed)?;
        Ok(path)
    }

    /// Reads a session.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn load(&self, id: &str) -> Result<Session, SessionError> {
        read(&self.path(id)?)
    }

    /// All sessions, the latest first. A folder that does not exist is an empty one.
    ///
    /// # Errors
    /// [`SessionError::Read`] if the folder itself cannot be read.
    pub fn list(&self) -> Result<Listing, SessionError> {
        let failed = |source| SessionError::Read { path: self.folder.clone(), source };
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Listing::default()),
            Err(error) => return Err(failed(error)),
        };
        let mut listing = Listing::default();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            match read(&path) {
                Ok(session) => listing.sessions.push(SessionHead {
                    // The file's name, not what stands in it: that is what `load` opens.
                    id: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
                    title: session.title,
                    updated: session.updated,
                    messages: session.messages.len(),
                }),
                Err(error) => listing.broken.push(error),
            }
        }
        listing.sessions.sort_by(|a, b| (b.updated, &b.id).cmp(&(a.updated, &a.id)));
        Ok(listing)
    }

    fn path(&self, id: &str) -> Result<PathBuf, SessionError> {
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
        if id.is_empty() || !id.chars().all(plain) {
            return Err(SessionError::Name(id.to_owned()));
        }
        Ok(self.folder.join(format!("{id}.json")))
    }
}

fn read(path: &Path) -> Result<Session, SessionError> {
    let text =
        fs::read(path).map_err(|source| SessionError::Read { path: path.to_owned(), source })?;
    serde_json::from_slice(&text)
        .map_err(|error| SessionError::Corrupt { path: path.to_owned(), reason: error.to_string() })
}

/// Writes a file beside `path`, forces it to the disk and renames it over `path`: a crash or a
/// full disk at any moment leaves either the old file or the new one. The unfinished file is
/// removed.
fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut unfinished = tempfile::NamedTempFile::new_in(folder)?;
    write(unfinished.as_file_mut())?;
    unfinished.as_file().sync_all()?;
    unfinished.persist(path).map_err(|error| error.error)?;
    // The new name itself must survive a power cut. Folders cannot be opened everywhere.
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        let mut session = Session::new("demo");
        session.push(Message { role: Role::System, content: "Be brief.".into() });
        session.push(Message { role: Role::User, content: "\n  Where is Rome? \nTell me.".into() });
        session.push(Message { role: Role::Assistant, content: "In Italy 🇮🇹.".into() });
        session
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let store = SessionStore::at(folder.path().join("new"));
        assert!(store.list().unwrap().sessions.is_empty());
        let mut session = session();
        assert_eq!(session.title, "Where is Rome?");
        store.save(&session).unwrap();
        session.push(Message { role: Role::User, content: "Thanks".into() });
        store.save(&session).unwrap();
        assert_eq!(store.load(&session.id).unwrap(), session);
        let listing = store.list().unwrap();
        assert_eq!(listing.sessions.len(), 1);
        assert_eq!(listing.sessions[0].messages, 4);
        let files: Vec<_> = fs::read_dir(store.folder()).unwrap().collect();
        assert_eq!(files.len(), 1, "no unfinished file may stay behind: {files:?}");
    }

    #[test]
    fn a_full_disk_leaves_the_saved_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.json");
        fs::write(&path, "before").unwrap();
        let full = replace(&path, |file| {
            file.write_all(b"half of the ne")?;
            Err(io::ErrorKind::StorageFull.into())
        })
        .unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let text = SessionError::Save { path: path.clone(), source: full }.to_string();
        assert!(text.contains("s.json") && text.contains("make room"), "{text}");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = SessionStore::at(file.join("sessions")).save(&session()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("file/sessions") && text.contains("move it away"), "{text}");
    }

    #[test]
    fn damaged_files_are_reported_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = SessionStore::at(folder.path());
        store.save(&session()).unwrap();
        let torn = folder.path().join("torn.json");
        fs::write(&torn, "{\"id\": \"to").unwrap();
        let listing = store.list().unwrap();
        assert_eq!((listing.sessions.len(), listing.broken.len()), (1, 1));
        assert!(listing.broken[0].to_string().contains("torn.json"), "{}", listing.broken[0]);
        assert!(torn.exists());
        assert!(matches!(store.load("torn"), Err(SessionError::Corrupt { .. })));
    }

    #[test]
    fn a_name_cannot_leave_the_folder() {
        let store = SessionStore::at("/nowhere");
        for name in ["../x", "", "a/b", "a\\b", "."] {
            assert!(matches!(store.load(name), Err(SessionError::Name(_))), "{name}");
        }
    }
}
