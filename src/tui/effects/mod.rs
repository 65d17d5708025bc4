//! Carries out effects: worker, files, clipboard. Must never know widgets.

pub(crate) mod exchange;
pub(crate) mod model_finder;
pub(crate) mod presets;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use self::model_finder::ModelFinder;
use self::unsaved::Unsaved;
use crate::chat::{
    BranchOf, OpenSession, Saved, SavedChat, SessionError, SessionHead, SessionMatch, SessionStore,
    branches,
};
use crate::decode::{discard_other_snapshots, discard_snapshots};
use crate::printable::printable;
use crate::tui::event::ScreenEvent;
use crate::worker::{Command, ModelChoice, SharedControls, Worker};

mod unsaved;

pub use self::unsaved::Lost;

/// What is said where there is no store.
const NOT_SAVED: &str = "Conversations are not saved in this run";

/// What was left when the program was, and where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Title of the conversation that was open, if it is saved.
    pub title: Option<String>,
    /// The models that answered in it.
    pub models: Option<ModelChoice>,
    /// Whether a message that was not sent is kept with it.
    pub unsent: bool,
    /// Whether one is kept for the next conversation.
    pub unsent_alone: bool,
    /// What could not be saved.
    pub lost: Option<Lost>,
}

/// A saved conversation to begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    Latest,
    /// The one with this name or this beginning of a title.
    Titled(String),
    /// The one that is chosen from the list.
    Listed,
}

/// Everything outside the screen that effects act on.
pub struct EffectRunner {
    /// The decode thread.
    pub worker: Worker,
    pub controls: SharedControls,
    store: Option<SessionStore>,
    session: Option<OpenSession>,
    /// Where what is open branched off.
    branch_of: Option<BranchOf>,
    /// Where KV caches of conversations are kept.
    snapshots: Option<PathBuf>,
    /// The message that was left before the first question, as it was found.
    unsent: Option<String>,
    /// What could not be saved so far.
    unsaved: Unsaved,
    /// What the program reports when it has ended.
    left: Left,
    clipboard: Option<arboard::Clipboard>,
    /// Finds the models that can be chosen.
    pub models: ModelFinder,
}

impl EffectRunner {
    /// With no conversation open. Conversations are saved in `store`, if there is one.
    pub fn new(worker: Worker, controls: SharedControls, store: Option<SessionStore>) -> Self {
        if let Some(store) = &store {
            store.clean();
        }
        Self {
            worker,
            controls,
            store,
            session: None,
            branch_of: None,
            snapshots: None,
            unsent: None,
            unsaved: Unsaved::default(),
            left: Left::default(),
            clipboard: None,
            models: ModelFinder::default(),
        }
    }

    /// KV caches of conversations are kept in this folder. Those of conversations that are not
    /// there any more go.
    pub fn keep_snapshots(&mut self, folder: PathBuf) {
        match self.store.as_ref().map(SessionStore::names) {
            Some(Ok(names)) => discard_other_snapshots(&folder, &names),
            Some(Err(error)) => tracing::warn!("KV caches are not cleaned up: {error}"),
            None => {}
        }
        self.snapshots = Some(folder);
    }

    /// Sends a command to the worker; `false` if it has ended. An answer gets the name of the
    /// conversation it belongs to; `target` answers in a new one.
    pub fn send(&mut self, target: &str, mut command: Command) -> bool {
        if let Command::Generate(job) = &mut command
            && self.store.is_some()
        {
            // It has its name from the first question on.
            let session = self.session.get_or_insert_with(|| OpenSession::new(target));
            job.conversation = Some(session.name().to_string());
        }
        self.worker.send(command)
    }

    /// Saves the conversation and says where; `None` if there is nothing to save or nowhere.
    ///
    /// # Errors
    /// Why not, with the remedy.
    pub fn save(
        &mut self,
        target: &str,
        chat: impl Into<SavedChat>,
    ) -> Result<Option<Saved>, String> {
        let mut chat = chat.into();
        let Some(store) = &self.store else { return Ok(None) };
        if !chat.asks() {
            self.unsaved.open = None;
            return Ok(None);
        }
        chat.extras.branch_of = self.branch_of.clone();
        if let Some(models) = chat.answered_by.as_mut().and_then(|by| by.models.as_mut()) {
            make_absolute(models);
        }
        let unsent = chat.extras.unsent.clone();
        let session = self.session.get_or_insert_with(|| OpenSession::new(target));
        session.update(chat);
        let saved = store.save(session);
        self.left.unsent = unsent.is_some() && saved.is_ok();
        self.unsaved.open = saved.as_ref().err().map(SessionError::reason);
        saved.map(Some).map_err(|error| error.to_string())
    }

    /// The message that was left before the first question.
    pub fn unsent(&mut self) -> Option<ScreenEvent> {
        self.unsent = self.store.as_ref().and_then(SessionStore::unsent);
        self.unsent.clone().map(ScreenEvent::Unsent)
    }

    /// Keeps such a message for the next start, in the place of the one that was found.
    pub fn keep_unsent(&mut self, text: Option<String>) {
        let Some(store) = &self.store else { return };
        match store.keep_unsent(self.unsent.as_deref(), text.as_deref()) {
            Ok(()) => {
                self.left.unsent_alone = text.is_some();
                self.unsent = text;
                self.unsaved.message = None;
            }
            Err(error) => {
                let why = format!("cannot write to {}: {error}", store.folder().display());
                self.unsaved.message = text.map(|text| (text, why));
            }
        }
    }

    /// What the program reports, now that it has ended. What could not be saved goes to `last`, the
    /// folder of last resort.
    pub fn left(&mut self, last: &Path) -> Left {
        let lost = self.lost(last);
        let open = self.session.as_ref().map(OpenSession::session);
        // Without a title nothing was saved yet.
        let title = open.map(|open| open.title.clone()).filter(|title| !title.is_empty());
        let models = open.and_then(|open| open.models.clone());
        Left { title, models, lost, ..self.left.clone() }
    }

    /// Keeps a text for the next start.
    pub fn remember(&self, note: &str, text: &str) {
        let Some(store) = &self.store else { return };
        if let Err(error) = store.remember(note, text) {
            tracing::warn!("{note} is not remembered: {error}");
        }
    }

    /// From now on another conversation is saved.
    pub fn forget(&mut self) {
        self.leave_for(None);
    }

    /// From now on a branch is saved, which has `messages` messages in common with what was open.
    pub fn branch(&mut self, messages: usize) {
        let origin = |open: &OpenSession| BranchOf {
            title: open.session().title.clone(),
            id: Some(open.name().to_owned()),
            messages,
        };
        self.leave_for(self.session.as_ref().map(origin));
    }

    fn leave_for(&mut self, branch_of: Option<BranchOf>) {
        self.leave_open();
        self.session = None;
        self.branch_of = branch_of;
    }

    /// Opens the conversation to begin with, or lists those there are.
    pub fn open(&mut self, opening: Opening) -> ScreenEvent {
        match opening {
            Opening::Listed => self.list().map_or_else(ScreenEvent::Failed, ScreenEvent::Sessions),
            Opening::Titled(words) => self.load(&words),
            Opening::Latest => match self.list().map(|list| list.into_iter().next()) {
                Ok(Some(head)) => self.load(&head.id),
                Ok(None) => ScreenEvent::Told("There is no saved conversation yet".to_string()),
                Err(why) => ScreenEvent::Failed(why),
            },
        }
    }

    fn saved(&self) -> Result<&SessionStore, String> {
        self.store.as_ref().ok_or_else(|| NOT_SAVED.to_string())
    }

    /// Gives a saved conversation another title.
    ///
    /// # Errors
    /// Why not.
    pub fn rename(&mut self, id: &str, title: &str) -> Result<(), String> {
        let store = self.saved()?.clone();
        let rename = |open: &mut OpenSession| {
            open.rename(title);
            store.save(open)
        };
        let renamed = match self.session.as_mut().filter(|open| open.name() == id) {
            Some(open) => rename(open),
            None => store.load(id).and_then(|mut open| rename(&mut open)),
        };
        renamed.map(drop).map_err(|error| error.to_string())
    }

    /// Deletes a saved conversation, with its KV cache, and returns its name.
    ///
    /// # Errors
    /// Why not.
    pub fn delete(&self, id: String) -> Result<String, String> {
        if self.session.as_ref().is_some_and(|open| open.name() == id) {
            return Err(
                "This conversation is open · /new leaves it, then it can be deleted".to_string()
            );
        }
        self.saved()?.delete(&id).map_err(|error| error.to_string())?;
        // What was computed for it goes at once, for every target; what this target still
        // holds of it is not written any more.
        if let Some(folder) = &self.snapshots {
            discard_snapshots(folder, &id);
        }
        self.worker.send(Command::Discard(id.clone()));
        Ok(id)
    }

    /// Brings a deleted conversation back.
    ///
    /// # Errors
    /// Why not.
    pub fn restore(&self, id: &str) -> Result<String, String> {
        self.saved()?.restore(id).map_err(|error| error.to_string())?;
        Ok("Restored".to_string())
    }

    /// The file of presets, next to the conversations.
    ///
    /// # Errors
    /// Nothing is saved in this run.
    pub(super) fn presets(&self) -> Result<PathBuf, String> {
        let folder = self.saved()?.folder();
        Ok(folder.parent().unwrap_or(folder).join("presets.json"))
    }

    /// Saved conversations, the latest first.
    ///
    /// # Errors
    /// Why they cannot be listed.
    pub fn list(&self) -> Result<Vec<SessionHead>, String> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let listing = store.list().map_err(|error| error.to_string())?;
        for broken in &listing.broken {
            tracing::warn!("{broken}");
        }
        Ok(listing.sessions)
    }

    /// The conversations that have branched off from each other, the open one among them.
    ///
    /// # Errors
    /// Why they cannot be listed.
    pub fn branches(&self) -> Result<Vec<SessionHead>, String> {
        let name = self.session.as_ref().map_or("", OpenSession::name);
        Ok(branches(&self.list()?, name))
    }

    /// Opens the conversation of this name, or whose title begins like this, and saves to it from
    /// now on. If several do, they are the answer.
    pub fn load(&mut self, words: &str) -> ScreenEvent {
        let found = self.saved().and_then(|store| store.find(words).map_err(|e| e.to_string()));
        let session = match found {
            Ok(SessionMatch::One(session)) => session,
            Ok(SessionMatch::Several(sessions)) => return ScreenEvent::Sessions(sessions),
            Err(why) => return ScreenEvent::Loaded(Err(why)),
        };
        let mut chat = session.session().chat();
        if let Some(by) = &mut chat.answered_by
            && let Some(models) = &by.models
        {
            // Whether they are still there; a draft that is not is left out.
            match self.models.here(models) {
                Some(here) => by.models = Some(here),
                None => by.gone = true,
            }
        }
        self.leave_open();
        self.branch_of = chat.extras.branch_of.clone();
        self.session = Some(*session);
        ScreenEvent::Loaded(Ok(chat))
    }

    /// Puts `text` on the clipboard: the desktop's, or through `terminal` where there is none or
    /// where the desktop is another machine's. Control characters are copied as they are shown.
    /// Returns what came of it, for the user.
    ///
    /// # Errors
    /// Neither works.
    pub fn copy(
        &mut self,
        text: &str,
        terminal: impl FnOnce(&str) -> io::Result<()>,
    ) -> Result<String, String> {
        let text = text.replace("\r\n", "\n");
        let text = printable(&text);
        let remote = std::env::var_os("SSH_CONNECTION").is_some();
        if !remote {
            // Kept open: on X11 the clipboard is served by the program that filled it.
            if self.clipboard.is_none() {
                self.clipboard = arboard::Clipboard::new().ok();
            }
            if let Some(clipboard) = &mut self.clipboard
                && clipboard.set_text(&*text).is_ok()
            {
                return Ok("Copied".to_string());
            }
        }
        if std::env::var_os("TMUX").is_some() && !tmux_passes_copies() {
            let remedy = "allow it with: tmux set -s set-clipboard on";
            return Err(format!("Not copied: tmux keeps it from the clipboard · {remedy}"));
        }
        terminal(&text).map_err(|error| format!("Cannot reach a clipboard: {error}"))?;
        Ok("Handed to the terminal, which copies it if it allows OSC 52".to_string())
    }
}

/// Whether tmux takes copies of the programs in it (`set-clipboard on`), as far as it says so soon.
fn tmux_passes_copies() -> bool {
    const LIMIT: Duration = Duration::from_millis(200);
    let asked = std::process::Command::new("tmux")
        .args(["show-options", "-sv", "set-clipboard"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut tmux) = asked else { return false };
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        if let Ok(Some(_)) = tmux.try_wait() {
            return tmux.wait_with_output().is_ok_and(|said| said.stdout.trim_ascii() == b"on");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // It may have ended by itself.
    let _ = tmux.kill();
    false
}

/// Files named relative to this folder are found from another one too.
fn make_absolute(models: &mut ModelChoice) {
    let ModelChoice { target, draft, draft_model } = models;
    for named in [target, draft, draft_model].into_iter().flatten() {
        let path = Path::new(named.as_str());
        if path.is_relative()
            && path.exists()
            && let Ok(path) = std::path::absolute(path)
            && let Some(path) = path.to_str()
        {
            *named = path.to_string();
        }
    }
}

#[cfg(test)]
mod tests;
