//! Saved conversations: one JSON file each, identified by the file's name, replaced atomically,
//! never deleted. Several programs may have the same one open: a write never loses messages that
//! another program saved, because the later writer continues in a copy. It must not depend on the
//! screen.

use std::fs::{self, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::extras::{BranchOf, SavedChat};
use super::session::Session;
use super::{Role, SessionError, clock};
use crate::files::{
    Access, Open, atomic_write, checksum, open_regular, paths_in, private_folder, read_regular,
    read_text, remove_leftovers,
};

mod damaged;
mod deleted;
mod unsent;

/// Size limit of a saved conversation, far above any target's context.
const LONGEST: u64 = 64_000_000;
/// Locked while a program compares and writes.
const LOCK: &str = ".lock";
/// The longest wait for the lock, which a suspended program may hold; after that nothing is
/// replaced.
const PATIENCE: Duration = Duration::from_secs(2);

/// An open conversation: the name of its file, and what the file contained when we last read or
/// wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenSession {
    name: String,
    session: Session,
    seen: Option<Seen>,
}

/// A file as it was last read or written.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    /// Checksum of its bytes.
    file: u64,
    /// Checksum of what we would have written at that time, which differs for a file of an earlier
    /// version.
    ours: u64,
    /// Its title, which another program may change while we write messages.
    title: String,
}

impl Seen {
    fn new(file: u64, ours: &[u8], title: &str) -> Self {
        Self { file, ours: checksum(ours), title: title.to_owned() }
    }
}

impl OpenSession {
    /// An empty conversation that begins now.
    pub fn new(target: &str) -> Self {
        Self::named(Self::new_name(), target)
    }

    /// The same in a file of this name.
    pub fn named(name: String, target: &str) -> Self {
        Self { name, session: Session::new(target), seen: None }
    }

    /// A name that sorts by time; the process id and the sub-second time distinguish names of the
    /// same second.
    pub fn new_name() -> String {
        let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S-%6f");
        format!("{time}-{}", std::process::id())
    }

    /// Takes the current conversation; see [`Session::update`].
    pub fn update(&mut self, chat: impl Into<SavedChat>) {
        let SavedChat { turns, extras, answered_by, .. } = chat.into();
        let session = &mut self.session;
        session.update(turns);
        // An unsent message makes the conversation the latest, as a sent one does.
        if extras.unsent.is_some() && extras.unsent != session.extras.unsent {
            session.updated = clock::now();
        }
        session.extras = extras;
        if let Some(by) = answered_by {
            session.target = by.target;
            session.models = by.models;
        }
    }

    /// The name of its file without `.json`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes its title, which [`SessionStore::rename`] has changed in its file.
    pub fn rename(&mut self, title: &str) {
        self.session.title = title.to_owned();
    }

    /// The conversation.
    pub fn session(&self) -> &Session {
        &self.session
    }
}

/// Result of a save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Its file.
    pub path: PathBuf,
    /// Whether this is a new file, because another program has written to the previous one.
    pub copied: bool,
}

/// A line of the list of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionHead {
    /// The name of its file without `.json`, for [`SessionStore::load`].
    pub id: String,
    /// Title.
    pub title: String,
    /// Unix time of the last message in seconds.
    pub updated: u64,
    /// Number of messages, without the system prompt.
    pub messages: usize,
    /// The target that answered, by name.
    pub target: String,
    /// Where it branched off.
    pub branch_of: Option<BranchOf>,
    /// The last question and the beginning of its answer, one line each.
    pub preview: Vec<(Role, String)>,
    /// What is said in it, for a search; only the beginning of a long conversation.
    pub said: String,
    /// How long ago the last message was said, for lists.
    pub ago: String,
    /// Why the file cannot be read as it is; what is readable of it can still be opened.
    pub damage: Option<String>,
}

impl SessionHead {
    /// When the last message was said, for lists, in local time.
    pub fn date(&self) -> String {
        clock::local(self.updated, "%Y-%m-%d %H:%M")
    }
}

/// The conversations that have branched off from each other, the one named `name` among them: each
/// after the one that it branched off from, the oldest first.
pub fn branches(sessions: &[SessionHead], name: &str) -> Vec<SessionHead> {
    let named = |id: &str| sessions.iter().find(|head| head.id == id);
    // From the first conversation to this one.
    let path = |head: &SessionHead| {
        let mut path = vec![head];
        let origin = |head: &SessionHead| named(head.branch_of.as_ref()?.id.as_deref()?);
        // A file that was edited by hand may name its own branch as its origin.
        while let Some(origin) = origin(path[0]).filter(|it| !path.contains(it)) {
            path.insert(0, origin);
        }
        path.into_iter().map(|head| head.id.clone()).collect::<Vec<_>>()
    };
    let Some(open) = named(name) else { return Vec::new() };
    let first = path(open).swap_remove(0);
    let mut found = sessions.to_vec();
    found.retain(|head| path(head)[0] == first);
    found.sort_by_cached_key(path);
    found
}

/// Content of the folder.
#[derive(Debug, Default)]
pub struct Listing {
    /// Readable sessions, the latest first.
    pub sessions: Vec<SessionHead>,
    /// Files that could not be read, by name; they stay where they are.
    pub broken: Vec<(String, SessionError)>,
}

/// Matches of a name or of the beginning of a title.
#[derive(Debug)]
pub enum SessionMatch {
    /// One conversation.
    One(Box<OpenSession>),
    /// Several, the latest first.
    Several(Vec<SessionHead>),
}

/// A folder of sessions.
#[derive(Clone, Debug)]
pub struct SessionStore {
    folder: PathBuf,
}

impl SessionStore {
    /// Sessions in `folder`, which is created when the first session is saved.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Sessions in the user's data folder, e.g. `~/.local/share/dovetail/sessions`.
    ///
    /// # Errors
    /// [`SessionError::NoFolder`].
    pub fn in_data_folder() -> Result<Self, SessionError> {
        crate::files::user_dirs()
            .map(|dirs| Self::at(dirs.data.join("sessions")))
            .ok_or(SessionError::NoFolder)
    }

    /// Where the sessions are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether nothing was ever answered here: no conversation is saved, and no answer was noted.
    pub fn is_untouched(&self) -> bool {
        !self.folder.join(Self::ANSWERED).exists() && self.files().unwrap_or_default().is_empty()
    }

    /// The empty note that something was answered here.
    pub const ANSWERED: &str = ".answered";
    /// The note with the layout of the screen that was chosen last.
    pub const LAYOUT: &str = ".layout";
    /// The note with the names of the tips that are not needed any more.
    pub const TIPS: &str = ".tips";

    /// A short text from an earlier start; `None` if there is none.
    pub fn note(&self, note: &str) -> Option<String> {
        read_text(&self.folder.join(note), 256).ok()
    }

    /// Keeps a short text for the next start.
    ///
    /// # Errors
    /// The system's.
    pub fn remember(&self, note: &str, text: &str) -> io::Result<()> {
        private_folder(&self.folder)?;
        let path = self.folder.join(note);
        atomic_write(&path, Access::Private, |file| file.write_all(text.as_bytes()))
    }

    /// Removes the temporary files of programs that were killed while writing.
    pub fn clean(&self) {
        let removed = remove_leftovers(&self.folder);
        if removed > 0 {
            tracing::info!("removed {removed} unfinished files of a killed program");
        }
        self.clean_deleted();
    }

    /// Saves an open conversation. The file appears completely or not at all. If another program
    /// has written something there that would be lost, the open conversation continues in a new
    /// file.
    ///
    /// # Errors
    /// [`SessionError::Save`]; what was saved before is then still on disk.
    pub fn save(&self, open: &mut OpenSession) -> Result<Saved, SessionError> {
        let mut path = self.path(&open.name)?;
        let failed = |path: &Path, source| SessionError::Save { path: path.to_owned(), source };
        let mut text = written(&open.session).map_err(|error| failed(&path, error))?;
        private_folder(&self.folder).map_err(|error| failed(&path, error))?;
        // Held until the new file is in place.
        let lock = self.lock();
        let mut copy = None;
        let judgement = judge(open, &path, &text, lock.is_ok());
        if let Judgement::Replace { title: Some(theirs) } = &judgement {
            open.session.title.clone_from(theirs);
            text = written(&open.session).map_err(|error| failed(&path, error))?;
        }
        match judgement {
            Judgement::Nothing => return Ok(Saved { path, copied: false }),
            Judgement::Replace { .. } => {}
            Judgement::Copy => {
                let copy =
                    copy.insert(OpenSession { name: OpenSession::new_name(), ..open.clone() });
                copy.session.name_copy();
                path = self.path(&copy.name)?;
                text = written(&copy.session).map_err(|error| failed(&path, error))?;
            }
        }
        atomic_write(&path, Access::Private, |file| file.write_all(&text))
            .map_err(|error| failed(&path, error))?;
        let copied = copy.is_some();
        if let Some(copy) = copy {
            *open = copy;
        }
        open.seen = Some(Seen::new(checksum(&text), &text, &open.session.title));
        Ok(Saved { path, copied })
    }

    /// Opens the session of this name.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn load(&self, name: &str) -> Result<OpenSession, SessionError> {
        let path = self.path(name)?;
        let (session, file) = read(&path)?;
        let ours = written(&session).map_err(|source| SessionError::Read { path, source })?;
        let seen = Some(Seen::new(file, &ours, &session.title));
        Ok(OpenSession { name: name.to_owned(), session, seen })
    }

    /// Gives the session of this name another title, and changes nothing else in its file.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn rename(&self, name: &str, title: &str) -> Result<(), SessionError> {
        let path = self.path(name)?;
        let _lock = self.lock();
        let (mut session, _) = read(&path)?;
        title.clone_into(&mut session.title);
        written(&session)
            .and_then(|text| atomic_write(&path, Access::Private, |file| file.write_all(&text)))
            .map_err(|source| SessionError::Save { path, source })
    }

    /// Opens the session of this name, otherwise the one whose title begins like this (ignoring
    /// case). A session with exactly this title takes precedence.
    ///
    /// # Errors
    /// [`SessionError`], [`SessionError::Name`] if there is none.
    pub fn find(&self, words: &str) -> Result<SessionMatch, SessionError> {
        let one = |id: &str| self.load(id).map(Box::new).map(SessionMatch::One);
        if self.path(words).is_ok_and(|path| path.symlink_metadata().is_ok()) {
            return one(words);
        }
        let wanted = words.to_lowercase();
        let mut found = self.list()?.sessions;
        found.retain(|head| head.title.to_lowercase().starts_with(&wanted));
        let exact = |head: &&SessionHead| head.title.to_lowercase() == wanted;
        let exact: Vec<&SessionHead> = found.iter().filter(exact).collect();
        match (&exact[..], &found[..]) {
            (_, []) => Err(SessionError::Name(words.to_owned())),
            ([only], _) => one(&only.id),
            (_, [only]) => one(&only.id),
            _ => Ok(SessionMatch::Several(found)),
        }
    }

    /// The names of all sessions, readable or not.
    ///
    /// # Errors
    /// If the folder cannot be read; a folder that does not exist counts as empty.
    pub fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.files()?.into_iter().map(|(name, _)| name).collect())
    }

    /// The names and paths of all sessions, readable or not.
    fn files(&self) -> io::Result<Vec<(String, PathBuf)>> {
        let paths = paths_in(&self.folder)?.into_iter();
        let sessions = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let named = sessions
            .filter_map(|path| Some((path.file_stem()?.to_string_lossy().into_owned(), path)));
        Ok(named.collect())
    }

    /// All sessions, the latest first. A folder that does not exist counts as empty.
    ///
    /// # Errors
    /// [`SessionError::Read`] if the folder itself cannot be read.
    pub fn list(&self) -> Result<Listing, SessionError> {
        let failed = |source| SessionError::Read { path: self.folder.clone(), source };
        let mut listing = Listing::default();
        for (id, path) in self.files().map_err(failed)? {
            match read(&path) {
                Ok((session, _)) => listing.sessions.push(head(id, session)),
                Err(error) => listing.broken.push((id, error)),
            }
        }
        listing.sessions.sort_by(|a, b| (b.updated, &b.id).cmp(&(a.updated, &a.id)));
        Ok(listing)
    }

    /// The path of the file with this name, which must be a single folder entry that is not hidden.
    fn path(&self, name: &str) -> Result<PathBuf, SessionError> {
        let strange = |c: char| c.is_control() || matches!(c, '/' | '\\' | ':');
        if name.is_empty() || name.starts_with('.') || name.contains(strange) {
            return Err(SessionError::Name(name.to_owned()));
        }
        Ok(self.folder.join(format!("{name}.json")))
    }

    /// Waits for the folder's lock; where locks are not available, the comparison alone must
    /// suffice.
    fn lock(&self) -> Result<Option<fs::File>, Busy> {
        // If no file can be created in the folder, the write itself reports it.
        let lock = open_regular(&self.folder.join(LOCK), Open::Create(Access::Private));
        let Ok(file) = lock else { return Ok(None) };
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(file)),
                Err(TryLockError::Error(_)) => return Ok(None),
                Err(TryLockError::WouldBlock) if began.elapsed() > PATIENCE => return Err(Busy),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

/// A session as an entry of a list.
fn head(id: String, session: Session) -> SessionHead {
    const SEARCHED: usize = 32_000;
    const PREVIEW: usize = 300;
    let mut said = String::new();
    for entry in &session.messages {
        let room = SEARCHED.saturating_sub(said.len());
        said.extend(entry.turn.message.content.chars().take(room));
        said.push('\n');
    }
    let asked = session.messages.iter().rposition(|entry| entry.turn.message.role == Role::User);
    let last = session.messages.iter().skip(asked.unwrap_or_default()).take(2);
    let preview = last.map(|entry| {
        let message = &entry.turn.message;
        let words = message.content.split_whitespace().collect::<Vec<_>>().join(" ");
        (message.role, words.chars().take(PREVIEW).collect())
    });
    // The system prompt was not said in the conversation.
    let talk = session.messages.iter().filter(|entry| entry.turn.message.role != Role::System);
    SessionHead {
        id,
        ago: clock::ago(session.updated),
        updated: session.updated,
        messages: talk.count(),
        preview: preview.collect(),
        said,
        target: session.target,
        branch_of: session.extras.branch_of,
        title: session.title,
        damage: None,
    }
}

/// Another program holds the lock.
struct Busy;

/// How to save into a file that may have changed.
enum Judgement {
    /// The file already holds every message.
    Nothing,
    /// The file's content is our own, or a prefix of what will be written; with the title that
    /// another program has given it.
    Replace { title: Option<String> },
    /// Messages of another program would be lost.
    Copy,
}

fn judge(open: &OpenSession, path: &Path, text: &[u8], locked: bool) -> Judgement {
    let there = match read_regular(path, LONGEST) {
        Ok(there) => there,
        // A new conversation, or one whose file was removed in the meantime.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Judgement::Replace { title: None };
        }
        Err(_) => return Judgement::Copy,
    };
    let ours = checksum(text);
    // Whatever another program wrote there, we have nothing to add to it.
    let seen = open.seen.as_ref();
    if seen.is_some_and(|seen| seen.ours == ours) || text == there {
        return Judgement::Nothing;
    }
    if !locked {
        return Judgement::Copy;
    }
    if seen.is_some_and(|seen| seen.file == checksum(&there)) {
        return Judgement::Replace { title: None };
    }
    let Ok(mut theirs) = serde_json::from_slice::<Session>(&there) else { return Judgement::Copy };
    let title = theirs.title.clone();
    // A title of ours that is newer than what we have seen stays.
    let renamed = seen.is_some_and(|seen| {
        theirs.title.clone_from(&seen.title);
        seen.title != title && seen.title == open.session.title
    });
    let only_renamed = || {
        let before = written(&theirs).ok();
        seen.zip(before).is_some_and(|(seen, before)| seen.ours == checksum(&before))
    };
    if open.session.begins_with(&theirs) || only_renamed() {
        Judgement::Replace { title: renamed.then_some(title) }
    } else {
        Judgement::Copy
    }
}

fn written(session: &Session) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec_pretty(session)?;
    if text.len() as u64 > LONGEST {
        let problem = format!("it has more than {} MB", LONGEST / 1_000_000);
        return Err(io::Error::new(ErrorKind::InvalidInput, problem));
    }
    Ok(text)
}

fn read(path: &Path) -> Result<(Session, u64), SessionError> {
    let text = read_regular(path, LONGEST)
        .map_err(|source| SessionError::Read { path: path.to_owned(), source })?;
    let session = serde_json::from_slice(&text).map_err(|error| SessionError::Corrupt {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    Ok((session, checksum(&text)))
}

#[cfg(test)]
mod tests;
