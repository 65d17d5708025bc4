//! The saved conversations, the one that is open and what could not be saved: everything that reads
//! and writes the folder of conversations, on a thread of its own. Must never know the screen.

use std::path::{Path, PathBuf};

use super::model_finder::ModelFinder;
use super::unsaved::Unsaved;
use super::{Left, Opening};
use crate::chat::{
    BranchOf, OpenSession, Saved, SavedChat, SessionError, SessionHead, SessionMatch, SessionStore,
    branches,
};
use crate::decode::{discard_other_snapshots, discard_snapshots};
use crate::tui::draw::figures;
use crate::tui::event::ScreenEvent;
use crate::worker::ModelChoice;

/// What is said where there is no store.
const NOT_SAVED: &str = "Conversations are not saved in this run";

/// The saved conversations and the open one.
#[derive(Default)]
pub(crate) struct Keeper {
    pub(super) store: Option<SessionStore>,
    pub(super) session: Option<OpenSession>,
    /// The name of the file that a new conversation gets.
    pub next_name: Option<String>,
    /// A conversation that was read and is not open yet.
    found: Option<OpenSession>,
    /// Where what is open branched off.
    branch_of: Option<BranchOf>,
    /// Where KV caches of conversations are kept.
    pub(super) snapshots: Option<PathBuf>,
    /// The message that was left before the first question, as it was found.
    unsent: Option<String>,
    /// What could not be saved so far.
    pub(super) unsaved: Unsaved,
    /// What the program reports when it has ended.
    left: Left,
    /// Tells whether a conversation's models are still there.
    models: ModelFinder,
}

impl Keeper {
    /// With no conversation open.
    pub fn new(store: Option<SessionStore>, models: ModelFinder) -> Self {
        Self { store, models, ..Self::default() }
    }

    /// Removes what killed programs have left, and what was deleted a week ago.
    pub fn clean(&self) {
        if let Some(store) = &self.store {
            store.clean();
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
        let name = self.next_name.take();
        let session = self.session.get_or_insert_with(|| match name {
            Some(name) => OpenSession::named(name, target),
            None => OpenSession::new(target),
        });
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

    /// Why the open conversation is not saved, if it is not.
    pub fn why_unsaved(&self) -> Option<String> {
        self.unsaved.open.clone()
    }

    /// Takes a conversation that cannot be saved, and why.
    pub fn fail(&mut self, chat: SavedChat, why: &str) {
        if chat.asks() {
            self.session.insert(OpenSession::new("")).update(chat);
            self.unsaved.open = Some(why.to_string());
        }
    }

    /// The same with a message that belongs to none.
    pub fn fail_unsent(&mut self, text: String, why: &str) {
        self.unsaved.message = Some((text, why.to_string()));
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
                Ok(None) => ScreenEvent::Sessions(Vec::new()),
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
        self.saved()?.rename(id, title).map_err(|error| error.to_string())?;
        if let Some(open) = self.session.as_mut().filter(|open| open.name() == id) {
            open.rename(title);
        }
        Ok(())
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
        // What was computed for it goes at once, for every target.
        if let Some(folder) = &self.snapshots {
            discard_snapshots(folder, &id);
        }
        Ok(id)
    }

    /// Brings a deleted conversation back: that of this name, or the one that was deleted last.
    ///
    /// # Errors
    /// Why not.
    pub fn restore(&self, id: Option<&str>) -> Result<String, String> {
        let store = self.saved()?;
        let restored = match id {
            Some(id) => store.restore(id).map(|()| true),
            None => store.restore_last(),
        };
        match restored.map_err(|error| error.to_string())? {
            true => Ok("Restored".to_string()),
            false => Err("Nothing was deleted in the last week".to_string()),
        }
    }

    /// The file of presets, next to the conversations.
    ///
    /// # Errors
    /// Nothing is saved in this run.
    pub fn presets(&self) -> Result<PathBuf, String> {
        let folder = self.saved()?.folder();
        Ok(folder.parent().unwrap_or(folder).join("presets.json"))
    }

    /// Saved conversations, the latest first.
    ///
    /// # Errors
    /// Why they cannot be listed.
    pub fn list(&self) -> Result<Vec<SessionHead>, String> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        store.heads().map_err(|error| error.to_string())
    }

    /// The conversations that have branched off from each other, the open one among them.
    ///
    /// # Errors
    /// Why they cannot be listed.
    pub fn branches(&self) -> Result<Vec<SessionHead>, String> {
        let name = self.session.as_ref().map_or("", OpenSession::name);
        Ok(branches(&self.list()?, name))
    }

    /// Reads the conversation of this name, or whose title begins like this; [`Self::adopt`] opens
    /// it. If several do, they are the answer. Of a damaged file what is readable is read.
    pub fn load(&mut self, words: &str) -> ScreenEvent {
        let store = match self.saved() {
            Ok(store) => store,
            Err(why) => return ScreenEvent::Loaded(Err(why)),
        };
        let name = words.strip_suffix(".json").unwrap_or(words);
        let (session, damage) = match store.find(words) {
            Ok(SessionMatch::One(session)) => (*session, None),
            Ok(SessionMatch::Several(sessions)) => return ScreenEvent::Sessions(sessions),
            Err(error) => match store.salvage(name) {
                Ok(session) => {
                    let read = figures::many(session.session().messages.len(), "message");
                    (
                        session,
                        Some(format!(
                            "{name}.json is damaged: {read} could be read. They continue in a new \
                             file"
                        )),
                    )
                }
                Err(SessionError::Corrupt { path, reason }) => {
                    let why = format!("{} is damaged: {reason}", path.display());
                    return ScreenEvent::Loaded(Err(why));
                }
                Err(_) => return ScreenEvent::Loaded(Err(error.to_string())),
            },
        };
        let name = Some(session.name().to_string());
        let mut chat = SavedChat { name, damage, ..session.session().chat() };
        if let Some(by) = &mut chat.answered_by
            && let Some(models) = &by.models
        {
            // Whether they are still there; a draft that is not is left out.
            match self.models.here(models) {
                Some(here) => by.models = Some(here),
                None => by.gone = true,
            }
        }
        self.found = Some(session);
        ScreenEvent::Loaded(Ok(chat))
    }

    /// What is saved from now on is the conversation that was read last.
    pub fn adopt(&mut self) {
        self.leave_open();
        self.session = self.found.take();
        let open = self.session.as_ref();
        self.branch_of = open.and_then(|open| open.session().extras.branch_of.clone());
    }
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
