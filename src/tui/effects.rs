//! Does what the model asks for: worker, files, clipboard. Knows no widgets.

use std::io;

use crate::chat::{Message as Said, Role, Session, SessionStore};
use crate::worker::{Command, SharedControls, Worker};

/// What stands outside the model.
pub struct EffectRunner {
    /// The decode thread.
    pub worker: Worker,
    /// What it runs under.
    pub controls: SharedControls,
    /// Where conversations are saved; `None` if nowhere.
    pub store: Option<SessionStore>,
    session: Option<Session>,
    clipboard: Option<arboard::Clipboard>,
}

impl EffectRunner {
    /// A runner with nothing saved yet.
    pub fn new(worker: Worker, controls: SharedControls, store: Option<SessionStore>) -> Self {
        Self { worker, controls, store, session: None, clipboard: None }
    }

    /// Tells the worker; `false` if it has ended.
    pub fn send(&self, command: Command) -> bool {
        let Command::Generate(job) = command;
        self.worker.generate(job)
    }

    /// Saves the conversation and says where; `None` if there is nothing to save or nowhere.
    ///
    /// # Errors
    /// Why not, with the remedy.
    pub fn save(&mut self, target: &str, messages: Vec<Said>) -> Result<Option<String>, String> {
        let Some(store) = &self.store else { return Ok(None) };
        if !messages.iter().any(|message| message.role == Role::User) {
            return Ok(None);
        }
        let session = self.session.get_or_insert_with(|| Session::new(target));
        // What was said before keeps its time.
        let same = session
            .messages
            .iter()
            .zip(&messages)
            .take_while(|(saved, message)| saved.message == **message)
            .count();
        session.messages.truncate(same);
        for message in messages.into_iter().skip(same) {
            session.push(message);
        }
        let path = store.save(session).map_err(|error| error.to_string())?;
        Ok(Some(path.display().to_string()))
    }

    /// From now on another conversation is saved.
    pub fn forget(&mut self) {
        self.session = None;
    }

    /// Saved conversations, the latest first.
    ///
    /// # Errors
    /// Why they cannot be listed.
    pub fn list(&self) -> Result<Vec<crate::chat::SessionHead>, String> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let listing = store.list().map_err(|error| error.to_string())?;
        for broken in &listing.broken {
            tracing::warn!("{broken}");
        }
        Ok(listing.sessions)
    }

    /// Reads a conversation and saves to it from now on.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn load(&mut self, id: &str) -> Result<Vec<Said>, String> {
        let store = self.store.as_ref().ok_or("conversations are not saved in this run")?;
        let session = store.load(id).map_err(|error| error.to_string())?;
        let messages = session.conversation();
        self.session = Some(session);
        Ok(messages)
    }

    /// Puts `text` on the clipboard: the desktop's, or through `terminal` where there is none or
    /// where the desktop is another machine's.
    ///
    /// # Errors
    /// Neither works.
    pub fn copy(
        &mut self,
        text: &str,
        terminal: impl FnOnce(&str) -> io::Result<()>,
    ) -> Result<(), String> {
        let remote = std::env::var_os("SSH_CONNECTION").is_some();
        if !remote {
            // Kept: on X11 the clipboard is served by the program that filled it.
            if self.clipboard.is_none() {
                self.clipboard = arboard::Clipboard::new().ok();
            }
            if let Some(clipboard) = &mut self.clipboard
                && clipboard.set_text(text).is_ok()
            {
                return Ok(());
            }
        }
        terminal(text).map_err(|error| format!("cannot reach a clipboard: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::testing::controls;
    use crate::worker::scripted::Script;

    fn said(role: Role, content: &str) -> Said {
        Said { role, content: content.to_string() }
    }

    #[test]
    fn a_conversation_is_one_file_until_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let shared = SharedControls::new(controls());
        let worker = Script::default().play(shared.clone(), Box::new(|_| true)).unwrap();
        let mut runner = EffectRunner::new(worker, shared, Some(SessionStore::at(folder.path())));
        assert_eq!(runner.save("t", vec![said(Role::System, "Be brief.")]), Ok(None));
        let mut talk = vec![said(Role::User, "Hi"), said(Role::Assistant, "Hello!")];
        assert!(runner.save("t", talk.clone()).unwrap().is_some());
        talk[1].content = "Hello again!".to_string();
        runner.save("t", talk.clone()).unwrap();
        let list = runner.list().unwrap();
        assert_eq!((list.len(), list[0].title.as_str(), list[0].messages), (1, "Hi", 2));
        runner.forget();
        runner.save("t", vec![said(Role::User, "Other")]).unwrap();
        assert_eq!(runner.list().unwrap().len(), 2);
        assert_eq!(runner.load(&list[0].id).unwrap(), talk);
        assert!(runner.load("nothing").unwrap_err().contains("nothing"));
    }
}
